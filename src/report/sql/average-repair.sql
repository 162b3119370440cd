-- title = "Average amount of a repair"
-- about = "What the repairs that were completed cost on average, by day, week or month of their completion. It is what was billed, not what was paid."
-- needs_job_link = true
-- needs.jobs = ["created_at", "total_amount"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.job_status_changes = ["repairs", "billed"]
-- completed = ["repairs", "billed"]
-- measures.job_status_changes = ["average"]
-- money = ["billed", "average"]
-- totals = ["repairs", "billed"]
-- leads_to.repairs = { list = "repairs", state = "completed", from = "{from}", to = "{to}" }
-- chart.bars = ["period", "average"]
WITH untimed AS MATERIALIZED (
    -- A status change whose time cannot be read may have completed a repair until it was first seen.
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
periods AS MATERIALIZED (
    -- One that was missed may have completed a repair again that was completed before.
    SELECT period,
        coalesce((SELECT changes FROM untimed WHERE until >= from_at), 0) + (
            SELECT count(*)
            FROM recompleted r
            WHERE r.completed_at < from_at AND r.completed_again_at >= from_at
        ) AS unread
    FROM starts
),
done AS MATERIALIZED (
    -- In ten-thousandths, because sums of fractions would not be exact.
    SELECT d.period, round(10000 * j._total_amount) AS total,
        r.id IS NOT NULL AS is_unsure,
        -- One without a total, or with one of two positive readings, may cost something.
        j._total_amount IS NULL AND (j._total_amount_sign IS 1 OR j._unreadable IS NULL
            OR NOT EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount'))
            AS is_more,
        j._total_amount IS NULL AND j._total_amount_sign IS NOT 1 AND j._unreadable IS NOT NULL
            AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
            AS is_unread
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        CROSS JOIN jobs j ON j.id = s.id LEFT JOIN recompleted r ON r.id = s.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
sums AS MATERIALIZED (
    SELECT period, count(*) AS repairs, count(total) AS priced, total(total) AS total,
        sum(is_unsure) AS unsure, sum(is_more) AS more, sum(is_unread) AS unread
    FROM done
    GROUP BY period
)
SELECT p.period, coalesce(s.repairs, 0) AS repairs, coalesce(s.total, 0) / 10000.0 AS billed,
    round(s.total / nullif(s.priced, 0) / 10000.0, 2) AS average,
    p.unread AS _more_repairs, s.unsure AS _less_repairs,
    p.unread + coalesce(s.more, 0) AS _more_billed, s.unsure AS _less_billed, s.unread AS _unsure_billed,
    p.unread + coalesce(s.unsure + s.repairs - s.priced, 0) AS _unsure_average
FROM periods p LEFT JOIN sums s ON s.period = p.period
ORDER BY p.period
-- note
SELECT printf('of %,d of these repairs nothing says what %s: repair %s', repairs,
    iif(repairs = 1, 'it cost', 'they cost'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        CROSS JOIN jobs j ON j.id = s.id
    WHERE j._total_amount IS NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
