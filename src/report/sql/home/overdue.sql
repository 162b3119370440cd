-- needs.jobs = ["estimated_delivery"]
-- standing.jobs = ["number"]
-- open_by = "all"
SELECT count(*) AS number,
    (
        SELECT count(*) FROM jobs u CROSS JOIN _job_states s ON s.id = u.id
        WHERE u._unreadable IS NOT NULL
            AND EXISTS (SELECT 1 FROM json_each(u._unreadable) WHERE value = 'estimated_delivery')
            AND (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    ) AS _more_number,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND j._estimated_delivery < :today
-- note
SELECT printf('the estimated_delivery of %,d open %s cannot be read: repair %s', repairs,
    iif(repairs = 1, 'repair', 'repairs'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._unreadable IS NOT NULL
        AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'estimated_delivery')
        AND (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
)
WHERE repairs > 0
