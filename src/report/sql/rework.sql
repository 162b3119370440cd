-- title = "Rework"
-- about = "How many of the repairs that were completed first in each day, week or month were opened again since. Cancelled repairs are left out."
-- needs_job_link = true
-- needs.jobs = ["created_at"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.job_status_changes = ["completed", "reopened"]
-- after.job_status_changes = ["reopened", "reopened_percent"]
-- measures.job_status_changes = ["reopened_percent"]
-- totals = ["completed", "reopened"]
-- percent = ["reopened_percent"]
-- chart.bars = ["period", "completed", "reopened"]
WITH untimed AS MATERIALIZED (
    -- A status change whose time cannot be read may have completed a repair, or opened it again.
    SELECT count(*) AS changes, max(c._first_seen_at) AS until
    FROM job_status_changes c
    WHERE c._created_at IS NULL
        AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)
),
starts AS (
    SELECT period, min(from_at) AS from_at
    FROM days
    GROUP BY period
),
-- Those that were completed since the period began, or are open now: few of all.
recent AS (
    SELECT id FROM _job_states WHERE completed_at >= (SELECT min(from_at) FROM days)
    UNION ALL
    SELECT id FROM _job_states WHERE stage < 'completed'
    UNION ALL
    SELECT id FROM _job_states WHERE stage > 'completed'
    UNION ALL
    SELECT id FROM _job_states WHERE stage IS NULL
),
first AS MATERIALIZED (
    SELECT s.turns ->> 0 AS completed_at,
        json_array_length(s.turns) > 1 OR s.stage IS NOT 'completed' AS is_reopened,
        -- It may have been completed and opened again while status changes were missed.
        EXISTS (
            SELECT 1
            FROM missed_changes m
            WHERE m.from_at < s.turns ->> 0 AND (j._created_at IS NULL OR m.until > j._created_at)
        ) AS is_unsure
    FROM recent r CROSS JOIN _job_states s ON s.id = r.id CROSS JOIN jobs j ON j.id = s.id
    WHERE s.turns IS NOT NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
counted AS MATERIALIZED (
    SELECT period, count(*) AS completed, total(is_reopened) AS reopened, total(is_unsure) AS unsure,
        total(is_unsure AND is_reopened) AS unsure_reopened
    FROM (
        -- The day of each is found by its index: there is none of the repairs.
        SELECT (SELECT d.period FROM days d WHERE d.from_at <= f.completed_at ORDER BY d.from_at DESC LIMIT 1)
                AS period, f.is_reopened, f.is_unsure
        FROM first f
        WHERE f.completed_at >= (SELECT min(from_at) FROM days) AND f.completed_at < (SELECT max(to_at) FROM days)
    )
    GROUP BY period
)
SELECT p.period, coalesce(n.completed, 0) AS completed, CAST(coalesce(n.reopened, 0) AS INTEGER) AS reopened,
    round(100.0 * n.reopened / n.completed, 1) AS reopened_percent,
    p.unread AS _more_completed, n.unsure AS _less_completed,
    p.unread AS _more_reopened, n.unsure_reopened AS _less_reopened,
    p.unread + coalesce(n.unsure, 0) AS _unsure_reopened_percent
FROM (
    SELECT period, coalesce((SELECT changes FROM untimed WHERE until >= from_at), 0) AS unread
    FROM starts
) p LEFT JOIN counted n ON n.period = p.period
ORDER BY p.period
