-- needs.leads = ["created_at"]
-- counts.leads = ["number"]
SELECT (SELECT count(*) FROM leads r WHERE r.created_at >= d.from_at AND r.created_at < d.to_at) AS number,
    d.period
FROM days d
ORDER BY d.day
