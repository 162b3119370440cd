-- title = "Outstanding amounts"
-- about = "The repairs that are not paid in full, the highest amount first. A repair of which nothing says what was paid is owed in full."
-- is_list = true
-- needs.jobs = ["job_number", "customer_name", "created_at", "total_amount"]
-- before.jobs = ["total", "paid", "outstanding"]
-- parameters.completed_days = { default = 0, about = "only if completed in the last so many days" }
-- money = ["total", "paid", "outstanding"]
-- totals = ["total", "paid", "outstanding"]
WITH billed AS (
    SELECT j.id, s.status, round(s.paid * 10000) AS paid,
        -- In ten-thousandths, because sums of fractions would not be exact.
        round(10000 * {total}) AS total
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j.total_amount > 0
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
-- Few of all, so that the other columns are read of these only.
owing AS MATERIALIZED (
    SELECT id, status, total, paid, total - coalesce(paid, 0) AS owed
    FROM billed
    WHERE total > coalesce(paid, 0)
)
SELECT j.job_number, j.customer_name, coalesce(o.status, '(no status)') AS status,
    o.total / 10000.0 AS total, o.paid / 10000.0 AS paid, o.owed / 10000.0 AS outstanding,
    CAST(julianday(:now) - julianday(substr(j.created_at, 1, 19)) AS INTEGER) AS days_old, j.id AS job_id
FROM owing o CROSS JOIN jobs j ON j.id = o.id
ORDER BY o.owed DESC, j.created_at
-- note
SELECT printf('of %,d of these repairs nothing says what was paid: they count as owed in full', count(*))
FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
WHERE j.total_amount > 0 AND s.paid IS NULL
    AND {total} > 0
    AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
    AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
HAVING count(*) > 0
