-- standing.jobs = ["number"]
SELECT count(*) AS number,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s LEFT JOIN unheard u ON u.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND instr('|' || :ready || '|', '|' || s.status || '|') > 0
