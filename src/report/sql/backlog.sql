-- title = "Backlog"
-- about = "How many repairs were open at the end of each day, week or month; of the last one, now."
-- needs_job_link = true
-- needs.jobs = ["created_at", "status_stage"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- stood.jobs = ["open"]
-- chart.bars = ["period", "open"]
WITH ends AS MATERIALIZED (
    SELECT period, min(max(to_at), strftime('%Y-%m-%dT%H:%M:%S', :now)) AS at
    FROM days
    GROUP BY period
),
-- Those that were completed since then, or cancelled, or are open now.
recent AS (
    SELECT id FROM _job_states WHERE completed_at >= (SELECT min(at) FROM ends)
    UNION ALL
    SELECT id FROM _job_states WHERE stage < 'completed'
    UNION ALL
    SELECT id FROM _job_states WHERE stage > 'completed'
    UNION ALL
    SELECT id FROM _job_states WHERE stage IS NULL
    UNION ALL
    SELECT id FROM _job_states WHERE is_cancelled
),
repair AS MATERIALIZED (
    SELECT s.id, j._created_at AS created_at, j._changed_at AS changed_at,
        -- When a page showed it first, if it was open then.
        CASE
            WHEN EXISTS (SELECT 1 FROM missed_changes)
                AND (SELECT c.body ->> '$.status_stage' IS NOT 'completed' FROM changes c
                    WHERE c.route = 'jobs' AND c.record_id = s.id AND c.version = 1)
                THEN j._first_seen_at
        END AS seen_open_at, coalesce(s.turns, '[]') AS turns,
        s.stage IS NOT 'completed' AS is_open,
        EXISTS (SELECT 1 FROM json_each(s.turns) WHERE value IS NULL) AS is_untimed
    FROM recent r CROSS JOIN _job_states s ON s.id = r.id CROSS JOIN jobs j ON j.id = s.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
-- Each time that one was open. The last one began where the list of turns ends, if it is open now.
life AS MATERIALIZED (
    SELECT iif(t.key = 0, r.created_at, r.turns ->> (t.key - 1)) AS from_at, t.value AS to_at,
        iif(t.key = 0, r.seen_open_at, NULL) AS seen_open_at
    FROM repair r CROSS JOIN json_each(r.turns) t
    WHERE t.key % 2 = 0 AND NOT r.is_untimed
    UNION ALL
    SELECT
        CASE
            WHEN r.turns = '[]' THEN r.created_at
            WHEN json_array_length(r.turns) % 2 = 0 THEN r.turns ->> '$[#-1]'
            ELSE r.changed_at
        END,
        NULL,
        iif(r.turns = '[]', r.seen_open_at, NULL)
    FROM repair r
    WHERE r.is_open AND NOT r.is_untimed
),
-- Of which nothing says when they were completed, or taken in, or opened again.
doubt AS MATERIALIZED (
    SELECT coalesce(r.created_at, '') AS from_at, '9' AS to_at
    FROM repair r
    WHERE r.is_untimed OR r.created_at IS NULL
    UNION ALL
    SELECT r.turns ->> '$[#-1]', r.changed_at
    FROM repair r
    WHERE r.is_open AND json_array_length(r.turns) % 2 = 1 AND NOT r.is_untimed
    UNION ALL
    SELECT coalesce(j._created_at, ''), iif(s.source = 'job', j._changed_at, '9')
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at IS NULL AND s.stage = 'completed'
        AND (s.turns IS NULL OR NOT s.is_cancelled)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
counted AS MATERIALIZED (
    SELECT e.period, e.at, count(l.from_at) AS open,
        -- After status changes were missed, only those that were taken in, opened or seen open since are
        -- sure.
        count(l.from_at) FILTER (
            WHERE l.from_at >= e.missed_until
                OR l.seen_open_at >= e.missed_until AND l.seen_open_at < e.at
        ) AS sure,
        e.missed_until > '' AS is_unsure
    FROM (
        SELECT period, at,
            coalesce((SELECT max(m.until) FROM missed_changes m WHERE m.from_at < at), '') AS missed_until
        FROM ends
    ) e
    LEFT JOIN life l ON l.from_at < e.at AND (l.to_at IS NULL OR l.to_at >= e.at)
    GROUP BY e.period
)
SELECT c.period, iif(c.is_unsure, c.sure, c.open) AS open,
    c.is_unsure + (SELECT count(*) FROM doubt d WHERE d.from_at < c.at AND d.to_at >= c.at) AS _more_open
FROM counted c
ORDER BY c.period
