-- title: Open repairs
-- about: The repairs that are not completed, by stage, status and age in days.
-- needs: jobs.created_at, jobs.status, jobs.status_stage
-- chart: bars status under_1_day from_1_to_3_days from_3_to_7_days over_7_days
WITH ages AS MATERIALIZED (
    SELECT status_stage AS stage, status,
        max(julianday(:now) - julianday(substr(created_at, 1, 19)), 0) AS age
    FROM jobs
    WHERE status_stage <> 'completed' AND (:business IS NULL OR _business = :business)
)
SELECT stage, coalesce(status, '(none)') AS status, count(*) AS open,
    sum(age < 1) AS under_1_day, sum(age >= 1 AND age < 3) AS from_1_to_3_days,
    sum(age >= 3 AND age < 7) AS from_3_to_7_days, sum(age >= 7) AS over_7_days,
    round(max(age), 1) AS oldest_days
FROM ages
GROUP BY stage, ages.status
ORDER BY open DESC, ages.status
