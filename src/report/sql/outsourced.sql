-- title = "Outsourced work"
-- about = "Repairs that are with other firms, and how many of them are overdue."
-- needs.outsourced_jobs = ["vendor_name", "created_at", "status_stage"]
-- parameters.overdue = { default = 7, about = "overdue after … days" }
-- standing.outsourced_jobs = ["out", "overdue", "oldest_days"]
-- totals = ["out", "overdue"]
-- chart.bars = ["vendor", "out", "overdue"]
-- leads_to.out = { list = "records", route = "outsourced_jobs", "vendor_name.is" = "{vendor}", "status_stage.is" = "{stage}" }
WITH ages AS MATERIALIZED (
    SELECT nullif(o.vendor_name, '') AS vendor_name, nullif(o.status_stage, '') AS stage,
        max(julianday(:now) - julianday(substr(o._created_at, 1, 19)), 0) AS age
    FROM outsourced_jobs o
    WHERE o.status_stage IS NOT 'completed'
        AND (:business IS NULL OR coalesce(o._business, :default_business) = :business)
)
SELECT coalesce(vendor_name, '(none)') AS vendor, coalesce(stage, '(no stage)') AS stage,
    count(*) AS out, count(CASE WHEN age > :overdue THEN 1 END) AS overdue,
    round(max(age), 1) AS oldest_days, count(*) - count(age) AS _more_overdue,
    count(*) - count(age) AS _more_oldest_days
FROM ages
GROUP BY vendor_name, ages.stage
ORDER BY out DESC, vendor
-- note
SELECT printf('the state of %,d of %,d outsourced jobs was not seen since they left the newest page; the oldest was last seen on %s (UTC)',
    count(o._last_seen_at), count(*), substr(min(o._last_seen_at), 1, 10))
FROM outsourced_jobs o
WHERE o.status_stage IS NOT 'completed'
    AND (:business IS NULL OR coalesce(o._business, :default_business) = :business)
HAVING count(o._last_seen_at) > 0
-- note
SELECT printf('%,d outsourced %s no time of creation that can be read and may be overdue: %s', jobs,
    iif(jobs = 1, 'job has', 'jobs have'), id)
FROM (
    SELECT count(*) AS jobs, max(o._seq), o.id
    FROM outsourced_jobs o
    WHERE o.status_stage IS NOT 'completed' AND o._created_at IS NULL
        AND (:business IS NULL OR coalesce(o._business, :default_business) = :business)
)
WHERE jobs > 0
