-- title = "Money by {by}"
-- about = "What the repairs that were completed in the period cost, by {by}, the highest sum first. It is what was billed, not what was paid."
-- needs_job_link = true
-- needs.jobs = ["created_at", "{field}", "total_amount"]
-- needs.job_status_changes = ["created_at", "status_stage"]
-- counts.job_status_changes = ["repairs", "billed"]
-- completed = ["repairs", "billed"]
-- money = ["billed"]
-- totals = ["repairs", "billed"]
-- {leads_to}
-- chart.bars = ["{by}", "billed"]
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
done AS MATERIALIZED (
    -- In ten-thousandths, because sums of fractions would not be exact.
    SELECT coalesce({column}, '{none}') AS {by}, round(10000 * j._total_amount) AS total,
        r.id IS NOT NULL AS is_unsure,
        -- One without a total, or with one of two positive readings, may cost something.
        j._total_amount IS NULL AND (j._total_amount_sign IS 1 OR j._unreadable IS NULL
            OR NOT EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount'))
            AS is_more,
        j._total_amount IS NULL AND j._total_amount_sign IS NOT 1 AND j._unreadable IS NOT NULL
            AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
            AS is_unread
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        CROSS JOIN worded_jobs j ON j.id = s.id LEFT JOIN recompleted r ON r.id = s.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
SELECT {by}, count(*) AS repairs, total(total) / 10000.0 AS billed,
    (SELECT changes FROM unread) AS _more_repairs, sum(is_unsure) AS _less_repairs,
    (SELECT changes FROM unread) + sum(is_more) AS _more_billed, sum(is_unsure) AS _less_billed,
    sum(is_unread) AS _unsure_billed
FROM done
GROUP BY {by}
ORDER BY billed DESC, {by}
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
