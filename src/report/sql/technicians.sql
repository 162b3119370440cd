-- title: Technician load
-- about: For each person: repairs that are open now, taken in during the period and completed during the period.
-- needs: jobs.created_at, jobs.assigned_to, jobs.status_stage, jobs.job_number, job_status_changes.created_at, job_status_changes.status_stage, job_status_changes.job_number
-- chart: bars person open taken_in completed
SELECT person, sum(open) AS open, sum(taken_in) AS taken_in, sum(completed) AS completed
FROM (
    SELECT coalesce(assigned_to, '(not assigned)') AS person, count(*) AS open, 0 AS taken_in,
        0 AS completed
    FROM jobs
    WHERE status_stage <> 'completed' AND (:business IS NULL OR _business = :business)
    GROUP BY assigned_to
    UNION ALL
    SELECT coalesce(j.assigned_to, '(not assigned)'), 0, count(*), 0
    FROM days d CROSS JOIN jobs j ON j.created_at >= d.from_at AND j.created_at < d.to_at
    WHERE :business IS NULL OR j._business = :business
    GROUP BY j.assigned_to
    UNION ALL
    SELECT coalesce((SELECT j.assigned_to FROM jobs j WHERE j.job_number = c.job_number), '(not assigned)')
            AS person, 0, 0, count(*)
    FROM (
        SELECT DISTINCT s.job_number
        FROM days d CROSS JOIN job_status_changes s
            ON s.created_at >= d.from_at AND s.created_at < d.to_at
        -- The + keeps SQLite from another index, by which it would read the whole table.
        WHERE +s.status_stage = 'completed' AND (:business IS NULL OR s._business = :business)
    ) c
    GROUP BY person
)
GROUP BY person
ORDER BY open DESC, person
