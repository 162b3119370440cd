-- title = "Technician load"
-- about = "For each person: repairs that are open now, taken in during the period and completed during the period. The person is the one that the repair named when it was last seen; of a completed repair it is the one who completed it, where status changes say so."
-- needs.jobs = ["created_at", "assigned_to", "status_stage"]
-- standing.jobs = ["open"]
-- open_by = "last_seen"
-- counts.jobs = ["taken_in"]
-- counts.job_status_changes = ["completed"]
-- completed = ["completed"]
-- totals = ["open", "taken_in", "completed"]
-- chart.bars = ["person", "open", "taken_in", "completed"]
-- leads_to.open = { list = "repairs", person = "{person}" }
-- leads_to.taken_in = { list = "repairs", person = "{person}", state = "taken_in", from = "{from}", to = "{to}" }
-- leads_to.completed = { list = "repairs", person = "{person}", state = "completed", from = "{from}", to = "{to}" }
WITH unread AS MATERIALIZED (
    -- A status change whose time cannot be read may have completed a repair of anyone, and so may one
    -- that was missed since a repair was completed before.
    SELECT (
        SELECT count(*)
        FROM job_status_changes c
        WHERE c._created_at IS NULL AND c._first_seen_at >= (SELECT min(from_at) FROM days)
            AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)
    ) + (
        SELECT count(*)
        FROM recompleted r
        WHERE r.completed_again_at >= (SELECT min(from_at) FROM days)
            AND r.completed_at < (SELECT max(to_at) FROM days)
    ) AS changes
)
SELECT person, sum(open) AS open, sum(taken_in) AS taken_in, sum(completed) AS completed,
    (SELECT count(*) FROM _job_states WHERE untimed_changes > 0) AS _unsure_open,
    sum(untimed) AS _more_taken_in, (SELECT changes FROM unread) AS _more_completed,
    sum(recompleted) AS _less_completed,
    coalesce(max(unheard), '[]') AS _unheard_open
FROM (
    SELECT coalesce(nullif(j.assigned_to, ''), '(not assigned)') AS person, count(*) AS open, 0 AS taken_in,
        0 AS completed, 0 AS recompleted, 0 AS untimed,
        json_group_array(u.stretch) FILTER (WHERE u.id IS NOT NULL) AS unheard
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
    WHERE s.stage IS NOT 'completed'
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
    GROUP BY j.assigned_to
    UNION ALL
    SELECT coalesce(nullif(j.assigned_to, ''), '(not assigned)'), 0, count(*), 0, 0, 0, NULL
    FROM days d CROSS JOIN jobs j ON j._created_at >= d.from_at AND j._created_at < d.to_at
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
    GROUP BY j.assigned_to
    UNION ALL
    SELECT coalesce(s.completed_by, nullif(j.assigned_to, ''), '(not assigned)'), 0, 0, count(*), count(r.id), 0, NULL
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        CROSS JOIN jobs j ON j.id = s.id LEFT JOIN recompleted r ON r.id = s.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
    GROUP BY coalesce(s.completed_by, j.assigned_to)
    UNION ALL
    -- A repair whose time cannot be read may have been taken in on any day until it was first seen.
    SELECT coalesce(nullif(j.assigned_to, ''), '(not assigned)'), 0, 0, 0, 0, count(*), NULL
    FROM jobs j
    WHERE j._created_at IS NULL AND j._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
    GROUP BY j.assigned_to
)
GROUP BY person
ORDER BY open DESC, person
