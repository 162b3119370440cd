-- needs.jobs = ["created_at"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.jobs = ["number"]
-- counts.job_status_changes = ["number"]
-- completed = ["number"]
WITH unread AS MATERIALIZED (
    -- A status change whose time cannot be read may have completed a repair until it was first seen.
    SELECT count(*) AS changes, max(_first_seen_at) AS until
    FROM job_status_changes
    WHERE _created_at IS NULL
)
SELECT (SELECT count(*) FROM _job_states s WHERE s.completed_at >= d.from_at AND s.completed_at < d.to_at)
        AS number,
    coalesce((SELECT changes FROM unread WHERE until >= d.from_at), 0) + (
        SELECT count(*) FROM recompleted c
        WHERE c.completed_again_at >= d.from_at AND c.completed_again_at < d.to_at
    ) AS _more_number,
    (
        SELECT count(*) FROM recompleted c WHERE c.completed_at >= d.from_at AND c.completed_at < d.to_at
    ) AS _less_number,
    d.period
FROM days d
ORDER BY d.day
