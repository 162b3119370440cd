-- standing.jobs = ["open"]
SELECT coalesce(status, '(no status)') AS status, count(*) AS open
FROM _job_states
WHERE stage < 'completed' OR stage > 'completed' OR stage IS NULL
GROUP BY 1
ORDER BY open DESC, 1
