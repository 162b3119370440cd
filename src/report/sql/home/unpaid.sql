-- # All repairs ever would take too long. One of which nothing says what was paid is owed in full.
-- needs_job_link = true
-- needs.jobs = ["total_amount"]
-- standing.jobs = ["number"]
WITH untimed AS MATERIALIZED (
    -- Of which nothing says when they were completed: in the last 90 days only if a status change may
    -- have been missed then, or if they are not older. They were completed before their last edit, and
    -- before an import found them completed.
    SELECT count(*) AS repairs
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at IS NULL AND s.stage = 'completed' AND NOT s.is_cancelled
        AND (j._total_amount > coalesce(s.paid, 0) OR j._total_amount IS NULL)
        AND (s.source = 'status change' OR (
            min(j._changed_at, coalesce(j._updated_at, '9'), iif(j._via IS 'import', j._last_seen_at, '9'))
                >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
            AND (coalesce(j._created_at, '9') >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
                OR EXISTS (
                    SELECT 1
                    FROM missed_changes m
                    WHERE m.until > strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
                        AND m.from_at < min(j._changed_at, coalesce(j._updated_at, '9'))
                ))
        ))
)
SELECT total(CASE WHEN total > 0 THEN max(total - coalesce(paid_upto, paid, 0), 0) END) / 10000.0 AS number,
    total(CASE WHEN total > 0 THEN max(total - coalesce(paid, 0), 0) END) / 10000.0 AS _upto_number,
    total(is_more) + (SELECT repairs FROM untimed) AS _more_number,
    total(is_unsure) AS _unsure_number,
    -- Of which nothing says what was paid, at most all of it is owed. So it is if more was paid than
    -- can be read.
    count(CASE WHEN total > 0 AND (paid IS NULL OR is_less) THEN 1 END) AS _less_number
FROM (
    SELECT round(10000 * j._total_amount) AS total, round(s.paid * 10000) AS paid,
        round(s.paid_upto * 10000) AS paid_upto,
        -- One without a total may owe something.
        j._total_amount IS NULL AND (j._total_amount_sign IS 1 OR j._total_amount_sign IS NULL
            AND NOT EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount'))
            AS is_more,
        s.paid_more > 0 AS is_less,
        s.paid_unsure + (
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
-- note
SELECT printf('%,d completed %s that less was paid than %s payments add up to: repair %s', repairs,
    iif(repairs = 1, 'repair says', 'repairs say'), iif(repairs = 1, 'its', 'their'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.completed_at >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
        AND s.paid_upto IS NOT NULL AND j._total_amount > s.paid
)
WHERE repairs > 0
-- note
SELECT printf('of %,d more completed %s nothing says when %s completed: repair %s', count(*),
    iif(count(*) = 1, 'repair', 'repairs'), iif(count(*) = 1, 'it was', 'they were'), max(j.id))
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
WHERE s.completed_at IS NULL AND s.stage = 'completed' AND NOT s.is_cancelled
    AND (j._total_amount > coalesce(s.paid, 0) OR j._total_amount IS NULL)
    AND (s.source = 'status change' OR (
        min(j._changed_at, coalesce(j._updated_at, '9'), iif(j._via IS 'import', j._last_seen_at, '9'))
            >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
        AND (coalesce(j._created_at, '9') >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
            OR EXISTS (
                SELECT 1
                FROM missed_changes m
                WHERE m.until > strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
                    AND m.from_at < min(j._changed_at, coalesce(j._updated_at, '9'))
            ))
    ))
HAVING count(*) > 0
