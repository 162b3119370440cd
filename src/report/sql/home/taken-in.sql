-- needs.jobs = ["created_at"]
-- counts.jobs = ["number"]
WITH unread AS MATERIALIZED (
    -- One whose time of creation cannot be read may belong to any day until it was first seen.
    SELECT count(*) AS records, max(_first_seen_at) AS until
    FROM jobs
    WHERE _created_at IS NULL
)
SELECT (SELECT count(*) FROM jobs r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at) AS number,
    (SELECT records FROM unread WHERE until >= d.from_at) AS _more_number,
    d.period
FROM days d
ORDER BY d.day
