-- needs.jobs = ["created_at"]
-- standing.jobs = ["number"]
WITH ready AS MATERIALIZED (
    SELECT coalesce(s.since <= strftime('%Y-%m-%dT%H:%M:%S', :now, '-14 days'), 0) AS is_long,
        -- Nothing says since when, and the repair is old enough.
        (s.since IS NULL OR s.is_since_seen) AND (j._created_at IS NULL
            OR j._created_at <= strftime('%Y-%m-%dT%H:%M:%S', :now, '-14 days')) AS may_be_long,
        u.stretch
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
    WHERE (s.stage < 'completed' OR s.stage > 'completed' OR s.stage IS NULL)
        AND instr('|' || :ready || '|', '|' || s.status || '|') > 0
)
SELECT count(*) FILTER (WHERE is_long) AS number,
    count(*) FILTER (WHERE NOT is_long AND may_be_long) AS _more_number,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_number,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL AND is_long) AS _unheard_number
FROM ready
