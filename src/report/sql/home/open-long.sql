-- needs.jobs = ["created_at"]
-- standing.jobs = ["number"]
-- open_by = "all"
SELECT count(CASE WHEN j._created_at IS NOT NULL THEN 1 END) AS number,
    count(CASE WHEN j._created_at IS NULL THEN 1 END) AS _more_number,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND (j._created_at IS NULL OR j._created_at <= strftime('%Y-%m-%dT%H:%M:%S', :now, '-30 days'))
-- note
SELECT printf('%,d open %s no time of creation that can be read: repair %s', repairs,
    iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._created_at IS NULL
        AND (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
)
WHERE repairs > 0
