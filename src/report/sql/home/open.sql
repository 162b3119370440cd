-- standing.jobs = ["number"]
-- open_by = "all"
SELECT count(*) AS number,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s LEFT JOIN unheard u ON u.id = s.id
WHERE s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL
-- note
SELECT printf('%,d %s a status change without a time that can be read, and may be in another state: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (SELECT count(*) AS repairs, max(id) AS id FROM _job_states WHERE untimed_changes > 0)
WHERE repairs > 0
