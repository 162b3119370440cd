-- title: Outsourced work
-- about: Repairs that are with other firms, and how many of them are overdue.
-- needs: outsourced_jobs.vendor_name, outsourced_jobs.created_at, outsourced_jobs.status_stage
-- parameter: overdue integer 7 days after which outsourced work counts as overdue
-- chart: bars vendor out overdue
WITH ages AS MATERIALIZED (
    SELECT vendor_name, max(julianday(:now) - julianday(substr(created_at, 1, 19)), 0) AS age
    FROM outsourced_jobs
    WHERE status_stage <> 'completed' AND (:business IS NULL OR _business = :business)
)
SELECT coalesce(vendor_name, '(none)') AS vendor, count(*) AS out, sum(age > :overdue) AS overdue,
    round(max(age), 1) AS oldest_days
FROM ages
GROUP BY vendor_name
ORDER BY out DESC, vendor
