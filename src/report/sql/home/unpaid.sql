-- # All repairs ever would take too long. One of which nothing says what was paid is owed in full.
-- needs_job_link = true
-- needs.jobs = ["total_amount"]
-- standing.jobs = ["number"]
SELECT total(CASE WHEN total > 0 THEN max(total - coalesce(paid, 0), 0) END) / 10000.0 AS number,
    total(is_more) AS _more_number,
    total(is_unsure) AS _unsure_number,
    -- Of which nothing says what was paid, at most all of it is owed.
    count(CASE WHEN total > 0 AND paid IS NULL THEN 1 END) AS _less_number
FROM (
    SELECT round(10000 * j._total_amount) AS total, round(s.paid * 10000) AS paid,
        -- One without a total may owe something.
        j._total_amount IS NULL AND (j._total_amount_sign IS 1 OR j._total_amount_sign IS NULL
            AND NOT EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount'))
            AS is_more,
        s.paid_more + s.paid_unsure + (
            j._unreadable IS NOT NULL AND j._total_amount_sign IS NULL
            AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
        ) AS is_unsure
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
)
-- note
SELECT printf('the amounts of %,d completed %s cannot all be read: repair %s', repairs,
    iif(repairs = 1, 'repair', 'repairs'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
        AND (s.paid_more + s.paid_unsure > 0 OR j._total_amount IS NULL)
)
WHERE repairs > 0
