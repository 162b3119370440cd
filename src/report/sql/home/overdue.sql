-- needs.jobs = ["estimated_delivery"]
-- standing.jobs = ["number"]
-- open_by = "all"
SELECT count(*) AS number,
    json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS _unheard_number
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
    AND j.estimated_delivery GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
    AND substr(j.estimated_delivery, 1, 10) < :today
-- note
SELECT printf('the delivery date of %,d %s cannot be read', count(*), iif(count(*) = 1, 'repair', 'repairs'))
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL) AND j.estimated_delivery <> ''
    AND j.estimated_delivery NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
HAVING count(*) > 0
