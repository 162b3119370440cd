-- needs.jobs = ["created_at"]
-- standing.jobs = ["number"]
-- open_by = "all"
SELECT count(*) AS number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND j.created_at BETWEEN '0' AND strftime('%Y-%m-%dT%H:%M:%S', :now, '-30 days')
