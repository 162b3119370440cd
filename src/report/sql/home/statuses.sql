-- standing.jobs = ["open"]
-- open_by = "status"
SELECT coalesce(s.status, '(no status)') AS status, count(*) AS open,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_open,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_open
FROM _job_states s LEFT JOIN unheard u ON u.id = s.id
WHERE s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL
GROUP BY 1
ORDER BY open DESC, 1
