-- title: Turnaround by person
-- about: Hours from the first to the last status change of the repairs that were completed in the period, by person: half of them took at most the median, nine of ten at most p90.
-- needs: jobs.job_number, jobs.assigned_to, job_status_changes.job_number, job_status_changes.created_at, job_status_changes.status_stage
-- chart: bars person median_hours p90_hours
WITH completed AS MATERIALIZED (
    SELECT DISTINCT s.job_number
    FROM days d CROSS JOIN job_status_changes s
        ON s.created_at >= d.from_at AND s.created_at < d.to_at
    -- Each + keeps SQLite from another index, by which it would read the whole table.
    WHERE +s.status_stage = 'completed' AND +s.job_number IS NOT NULL
        AND (:business IS NULL OR s._business = :business)
),
spans AS MATERIALIZED (
    SELECT coalesce((SELECT j.assigned_to FROM jobs j WHERE j.job_number = c.job_number), '(none)') AS person,
        24 * (julianday(substr((SELECT max(s.created_at) FROM job_status_changes s
                WHERE s.job_number = c.job_number), 1, 19))
            - julianday(substr((SELECT min(s.created_at) FROM job_status_changes s
                WHERE s.job_number = c.job_number), 1, 19))) AS hours
    FROM completed c
),
ranked AS (
    SELECT person, hours, row_number() OVER (PARTITION BY person ORDER BY hours) AS place,
        count(*) OVER (PARTITION BY person) AS repairs
    FROM spans
)
SELECT person, repairs,
    round(avg(CASE WHEN place IN ((repairs + 1) / 2, (repairs + 2) / 2) THEN hours END), 2)
        AS median_hours,
    round(max(CASE WHEN place = (9 * repairs + 9) / 10 THEN hours END), 2) AS p90_hours
FROM ranked
GROUP BY person
ORDER BY repairs DESC, person
