-- title = "Repairs that are open"
-- about = "Each repair that is not completed, the first taken in first."
-- is_list = true
-- needs.jobs = ["job_number", "customer_name", "created_at", "status_stage", "estimated_delivery"]
-- parameters.status = { default = "", about = "only with this status, or one of several divided by |" }
-- parameters.status_days = { default = 0, about = "only if the status is older than this many days" }
-- parameters.open_days = { default = 0, about = "only if taken in more than this many days ago" }
-- parameters.late = { default = 0, about = "1: only if the day of the estimated delivery has passed" }
-- parameters.unheard = { default = 0, about = "1: only if it was not heard of since status changes may have been missed" }
WITH open AS (
    SELECT s.id, s.status, s.since, s.is_since_seen, j.job_number, j.customer_name, j._created_at AS created_at,
        j._estimated_delivery AS due,
        CASE WHEN j._estimated_delivery < :today
            THEN CAST(julianday(:today) - julianday(j._estimated_delivery) AS INTEGER)
        END AS days_late
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.stage IS NOT 'completed'
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
SELECT id AS job_id, job_number, customer_name, coalesce(status, '(no status)') AS status,
    CAST(julianday(:now) - julianday(substr(since, 1, 19)) AS INTEGER) AS days_in_status,
    CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER) AS days_open, due, days_late,
    -- Its status may be as old as the repair.
    is_since_seen AND CAST(julianday(:now) - julianday(substr(since, 1, 19)) AS INTEGER)
        IS NOT CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER) AS _more_days_in_status,
    -- It may have another status since.
    id IN (SELECT u.id FROM unheard u) AS _less_days_in_status
FROM open
WHERE (:status = '' OR instr('|' || :status || '|', '|' || status || '|') > 0)
    AND (:late = 0 OR days_late > 0)
    AND (:unheard = 0 OR id IN (SELECT u.id FROM unheard u))
    AND (:status_days = 0 OR julianday(:now) - julianday(substr(since, 1, 19)) > :status_days)
    AND (:open_days = 0 OR julianday(:now) - julianday(substr(created_at, 1, 19)) > :open_days)
ORDER BY created_at, id
-- note
SELECT printf('%,d open %s an estimated_delivery that cannot be read, so that nothing says if %s late: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), iif(repairs = 1, 'it is', 'they are'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.stage IS NOT 'completed' AND j._unreadable IS NOT NULL
        AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'estimated_delivery')
        AND (:status = '' OR instr('|' || :status || '|', '|' || s.status || '|') > 0)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d open %s no time of creation that can be read: repair %s', repairs,
    iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.stage IS NOT 'completed' AND j._created_at IS NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d %s a status change without a time that can be read, and may be in another state: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (SELECT count(*) AS repairs, max(id) AS id FROM _job_states WHERE untimed_changes > 0)
WHERE repairs > 0
-- note
SELECT printf('of %,d more %s nothing says for how long %s status has been the same: repair %s', repairs,
    iif(repairs = 1, 'repair', 'repairs'), iif(repairs = 1, 'its', 'their'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE :status_days > 0 AND s.stage IS NOT 'completed' AND (s.since IS NULL OR s.is_since_seen)
        AND (s.since IS NULL OR julianday(:now) - julianday(substr(s.since, 1, 19)) <= :status_days)
        AND (j._created_at IS NULL
            OR julianday(:now) - julianday(substr(j._created_at, 1, 19)) > :status_days)
        AND (:status = '' OR instr('|' || :status || '|', '|' || s.status || '|') > 0)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
