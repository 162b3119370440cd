-- title = "Outstanding amounts"
-- about = "The repairs that are not paid in full, the highest amount first. Cancelled repairs are left out. A repair of which nothing says what was paid is owed in full."
-- is_list = true
-- needs.jobs = ["job_number", "customer_name", "created_at", "total_amount"]
-- before.jobs = ["total", "paid", "outstanding"]
-- # A payment that was missed makes more paid and less owed; with it, a repair may be paid in full.
-- grown_by.payments = ["paid"]
-- reduced_by.payments = ["outstanding"]
-- filters_by_state = ["completed_days"]
-- parameters.completed_days = { default = 0, about = "completed in the last … days" }
-- money = ["total", "paid", "outstanding"]
-- totals = ["total", "paid", "outstanding"]
WITH billed AS (
    SELECT j.id, s.status, round(s.paid * 10000) AS paid, round(s.paid_upto * 10000) AS paid_upto,
        s.paid_more, s.paid_unsure,
        -- In ten-thousandths, because sums of fractions would not be exact.
        round(10000 * j._total_amount) AS total
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._total_amount > 0 AND NOT s.is_cancelled
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
-- Few of all, so that the other columns are read of these only.
owing AS MATERIALIZED (
    SELECT id, status, total, paid, paid_upto, total - coalesce(paid, 0) AS owed,
        max(total - coalesce(paid_upto, paid, 0), 0) AS least_owed, paid_more, paid_unsure,
        0 AS more, 0 AS unsure
    FROM billed
    WHERE total > coalesce(paid, 0)
    UNION ALL
    -- Those whose total cannot be read. They owe something, unless the total is negative.
    SELECT j.id, s.status, NULL, round(s.paid * 10000), round(s.paid_upto * 10000), NULL, NULL,
        s.paid_more, s.paid_unsure,
        j._total_amount_sign IS 1, j._total_amount_sign IS NOT 1
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._unreadable IS NOT NULL AND j._total_amount_sign IS NOT -1
        AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
SELECT j.job_number, j.customer_name, coalesce(o.status, '(no status)') AS status,
    o.total / 10000.0 AS total, o.paid / 10000.0 AS paid, o.least_owed / 10000.0 AS outstanding,
    CAST(julianday(:now) - julianday(substr(j._created_at, 1, 19)) AS INTEGER) AS days_old, j.id AS job_id,
    o.paid_upto / 10000.0 AS _upto_paid, o.owed / 10000.0 AS _upto_outstanding,
    o.more AS _more_total, o.unsure AS _unsure_total, o.paid_more + (o.paid IS NULL) AS _more_paid,
    o.paid_unsure AS _unsure_paid, o.more AS _more_outstanding,
    o.unsure + o.paid_unsure AS _unsure_outstanding,
    -- Of which nothing says what was paid, at most all of it is owed.
    o.paid_more + (o.paid IS NULL) AS _less_outstanding
FROM owing o CROSS JOIN jobs j ON j.id = o.id
ORDER BY o.owed DESC, j._created_at
-- note
SELECT printf('of %,d of these repairs nothing says what was paid: they count as owed in full', count(*))
FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
WHERE j._total_amount > 0 AND s.paid IS NULL AND NOT s.is_cancelled
    AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
    AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
HAVING count(*) > 0
-- note
SELECT printf('%,d of these repairs %s a total_amount that cannot be read and is in no sum: repair %s', repairs,
    iif(repairs = 1, 'has', 'have'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._unreadable IS NOT NULL AND j._total_amount_sign IS NOT -1
        AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('of %,d of these repairs a payment has no amount that can be read: repair %s', repairs, id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._total_amount > 0 AND s.paid_more + s.paid_unsure > 0
        AND j._total_amount > coalesce(s.paid, 0)
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d of these repairs %s that less was paid than %s payments add up to: repair %s', repairs,
    iif(repairs = 1, 'says', 'say'), iif(repairs = 1, 'its', 'their'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE s.paid_upto IS NOT NULL AND j._total_amount > s.paid AND NOT s.is_cancelled
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d more %s no total_amount, so nothing says what %s: repair %s', repairs,
    iif(repairs = 1, 'repair has', 'repairs have'), iif(repairs = 1, 'it owes', 'they owe'), id),
    'total paid outstanding'
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j CROSS JOIN _job_states s ON s.id = j.id
    WHERE j._total_amount IS NULL AND j._total_amount_sign IS NULL
        AND NOT EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'total_amount')
        AND (:completed_days = 0 OR julianday(:now) - julianday(substr(s.completed_at, 1, 19)) <= :completed_days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d cancelled %s left out, of which %,.2f is not paid', count(*),
    iif(count(*) = 1, 'repair is', 'repairs are'), total(j._total_amount - coalesce(s.paid, 0)))
FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
WHERE s.is_cancelled AND j._total_amount > coalesce(s.paid, 0)
    AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
HAVING count(*) > 0
