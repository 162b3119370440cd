-- # All repairs ever would take too long. One of which nothing says what was paid is owed in full.
-- needs_job_link = true
-- needs.jobs = ["total_amount"]
-- standing.jobs = ["number"]
SELECT total(total - coalesce(paid, 0)) / 10000.0 AS number, count(*) > count(paid) AS _unsure_number
FROM (
    SELECT round(10000 * {total}) AS total, round(s.paid * 10000) AS paid
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
)
WHERE total > 0 AND total > coalesce(paid, 0)
