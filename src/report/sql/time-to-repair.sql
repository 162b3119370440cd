-- title = "Time to repair"
-- about = "Days that completed repairs were open, by day, week or month of their completion: half of them took at most the median, nine of ten at most p90. The time between a completion and a reopening is left out."
-- needs_job_link = true
-- needs.jobs = ["created_at"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.job_status_changes = ["repairs"]
-- completed = ["repairs"]
-- measures.job_status_changes = ["median_days", "p90_days"]
-- totals = ["repairs"]
-- leads_to.repairs = { list = "repairs", state = "completed", from = "{from}", to = "{to}" }
-- chart.bars = ["period", "median_days", "p90_days"]
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
spans AS MATERIALIZED (
    SELECT d.period, s.open_seconds AS seconds, r.id IS NOT NULL AS is_unsure,
        -- It may have been completed and opened again while status changes were missed.
        r.id IS NULL AND EXISTS (
            SELECT 1
            FROM missed_changes m
            WHERE m.from_at < s.completed_at AND (j._created_at IS NULL OR m.until > j._created_at)
        ) AS is_unmeasured
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        CROSS JOIN jobs j ON j.id = s.id LEFT JOIN recompleted r ON r.id = s.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
-- The times of each period in their order, the unknown ones last.
lists AS MATERIALIZED (
    SELECT period, count(*) AS repairs, count(seconds) AS known,
        json_group_array(seconds ORDER BY seconds NULLS LAST) AS list,
        sum(is_unsure) AS unsure, sum(is_unmeasured) AS unmeasured
    FROM spans
    GROUP BY period
),
typical AS (
    SELECT period, repairs, unsure, repairs - known + unsure + unmeasured AS unmeasured,
        round(((list ->> ((known + 1) / 2 - 1)) + (list ->> ((known + 2) / 2 - 1))) / 172800.0, 2) AS median_days,
        round((list ->> ((9 * known + 9) / 10 - 1)) / 86400.0, 2) AS p90_days
    FROM lists
)
SELECT p.period, coalesce(t.repairs, 0) AS repairs, t.median_days, t.p90_days,
    p.unread AS _more_repairs, t.unsure AS _less_repairs,
    p.unread + coalesce(t.unmeasured, 0) AS _unsure_median_days,
    p.unread + coalesce(t.unmeasured, 0) AS _unsure_p90_days
FROM periods p LEFT JOIN typical t ON t.period = p.period
ORDER BY p.period
-- note
SELECT printf('of %,d of these repairs nothing says when they were taken in: they are in no median and no p90', count(*))
FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
    CROSS JOIN jobs j ON j.id = s.id
WHERE s.open_seconds IS NULL
    AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
HAVING count(*) > 0
