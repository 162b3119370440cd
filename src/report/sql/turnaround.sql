-- title = "Turnaround by {by}"
-- about = "Days that the repairs completed in the period were open, by {by}: half of them took at most the median, nine of ten at most p90. The time between a completion and a reopening is left out."
-- needs_job_link = true
-- needs.jobs = ["created_at", "{field}"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.job_status_changes = ["repairs"]
-- completed = ["repairs"]
-- samples.job_status_changes = ["median_days", "p90_days"]
-- totals = ["repairs"]
-- chart.bars = ["{by}", "median_days", "p90_days"]
-- leads_to.repairs = { list = "repairs", state = "completed", {by} = "{{by}}", from = "{from}", to = "{to}" }
WITH unread AS MATERIALIZED (
    -- A status change whose time cannot be read may have completed any repair, and so may one that was
    -- missed since a repair was completed before.
    SELECT (
        SELECT count(*)
        FROM job_status_changes c
        WHERE c._created_at IS NULL AND c._first_seen_at >= (SELECT min(from_at) FROM days)
            AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)
    ) + (
        SELECT count(*)
        FROM recompleted r
        WHERE r.completed_at < (SELECT min(from_at) FROM days)
            AND r.completed_again_at >= (SELECT min(from_at) FROM days)
    ) AS changes
),
spans AS MATERIALIZED (
    SELECT coalesce({column}, '{none}') AS {by}, s.open_seconds AS seconds, r.id IS NOT NULL AS is_unsure,
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
-- The times of each in their order, the unknown ones last: a list takes half the time of window functions.
lists AS MATERIALIZED (
    SELECT {by}, count(*) AS repairs, count(seconds) AS known,
        json_group_array(seconds ORDER BY seconds NULLS LAST) AS list,
        sum(is_unsure) AS unsure, sum(is_unmeasured) AS unmeasured
    FROM spans
    GROUP BY {by}
)
SELECT {by}, repairs,
    round(((list ->> ((known + 1) / 2 - 1)) + (list ->> ((known + 2) / 2 - 1))) / 172800.0, 2) AS median_days,
    round((list ->> ((9 * known + 9) / 10 - 1)) / 86400.0, 2) AS p90_days,
    (SELECT changes FROM unread) AS _more_repairs, unsure AS _less_repairs,
    repairs - known + unsure + unmeasured + (SELECT changes FROM unread) AS _unsure_median_days,
    repairs - known + unsure + unmeasured + (SELECT changes FROM unread) AS _unsure_p90_days
FROM lists
ORDER BY repairs DESC, {by}
-- note
SELECT printf('of %,d of these repairs nothing says when they were taken in: they are in no median and no p90', count(*))
FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
    CROSS JOIN jobs j ON j.id = s.id
WHERE s.open_seconds IS NULL
    AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
HAVING count(*) > 0
