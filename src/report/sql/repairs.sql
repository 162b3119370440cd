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
    SELECT s.id, s.status, s.since, j.job_number, j.customer_name, j.created_at, j.estimated_delivery AS due,
        CASE WHEN j.estimated_delivery GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
            AND substr(j.estimated_delivery, 1, 10) < :today
            THEN CAST(julianday(:today) - julianday(substr(j.estimated_delivery, 1, 10)) AS INTEGER)
        END AS days_late
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.stage IS NOT 'completed'
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
SELECT id AS job_id, job_number, customer_name, coalesce(status, '(no status)') AS status,
    CAST(julianday(:now) - julianday(substr(since, 1, 19)) AS INTEGER) AS days_in_status,
    CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER) AS days_open, due, days_late
FROM open
WHERE (:status = '' OR instr('|' || :status || '|', '|' || status || '|') > 0)
    AND (:late = 0 OR days_late > 0)
    AND (:unheard = 0 OR id IN (SELECT u.id FROM unheard u))
    AND (:status_days = 0 OR julianday(:now) - julianday(substr(since, 1, 19)) > :status_days)
    AND (:open_days = 0 OR julianday(:now) - julianday(substr(created_at, 1, 19)) > :open_days)
ORDER BY created_at, id
