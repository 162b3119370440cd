-- needs.jobs = ["created_at"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.jobs = ["number"]
-- counts.job_status_changes = ["number"]
SELECT (SELECT count(*) FROM _job_states s WHERE s.completed_at >= d.from_at AND s.completed_at < d.to_at)
        AS number,
    d.period
FROM days d
ORDER BY d.day
