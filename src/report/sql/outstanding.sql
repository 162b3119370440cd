-- title: Outstanding amounts
-- about: The repairs that are not paid in full: their sum, and the 500 highest.
-- shows: records
-- needs: jobs.job_number, jobs.customer_name, jobs.status, jobs.created_at, jobs.total_amount, jobs.paid_amount
-- format: money total paid outstanding
WITH owing AS (
    SELECT job_number, customer_name, status, created_at,
        -- In ten-thousandths, because sums of fractions would not be exact. total() has no overflow.
        round(total_amount * 10000) AS total, round(paid_amount * 10000) AS paid
    FROM jobs
    WHERE total_amount > paid_amount AND (:business IS NULL OR _business = :business)
)
SELECT 'all ' || count(*) AS job_number, NULL AS customer_name, NULL AS status,
    total(total) / 10000.0 AS total, total(paid) / 10000.0 AS paid,
    (total(total) - total(paid)) / 10000.0 AS outstanding,
    CAST(julianday(:now) - min(julianday(substr(created_at, 1, 19))) AS INTEGER) AS days_old
FROM owing
UNION ALL
SELECT * FROM (
    SELECT job_number, customer_name, status, total / 10000.0, paid / 10000.0,
        (total - paid) / 10000.0 AS outstanding,
        CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER)
    FROM owing
    ORDER BY outstanding DESC, created_at
    LIMIT 500
)
