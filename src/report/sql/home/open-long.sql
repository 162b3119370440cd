-- needs.jobs = ["created_at"]
-- standing.jobs = ["number"]
SELECT count(*) AS number
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND j.created_at BETWEEN '0' AND strftime('%Y-%m-%dT%H:%M:%S', :now, '-30 days')
