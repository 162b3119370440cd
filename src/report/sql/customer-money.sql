-- before.jobs = ["paid", "owed"]
-- # A payment that was missed makes more paid and less owed.
-- grown_by.payments = ["paid"]
-- reduced_by.payments = ["owed"]
-- # What the repairs of the JSON list :repairs paid and owe. Who cancels owes nothing, whatever was paid.
WITH own AS MATERIALIZED (
    -- In ten-thousandths, because sums of fractions would not be exact.
    SELECT round(s.paid * 10000) AS paid, round(coalesce(s.paid_upto, s.paid) * 10000) AS paid_upto,
        s.paid_more + (s.paid IS NULL) AS paid_more, s.paid_unsure,
        iif(s.is_cancelled, 0, round(10000 * j._total_amount)) AS total,
        NOT s.is_cancelled AND j._total_amount IS NULL AND j._total_amount_sign IS NOT -1 AS is_unpriced
    FROM json_each(:repairs) r CROSS JOIN jobs j ON j.id = r.value CROSS JOIN _job_states s ON s.id = j.id
)
SELECT total(paid) / 10000.0 AS paid,
    total(paid_upto) / 10000.0 AS _upto_paid,
    total(paid_more) AS _more_paid,
    total(paid_unsure) AS _unsure_paid,
    total(CASE WHEN total > 0 THEN max(total - coalesce(paid_upto, 0), 0) END) / 10000.0 AS owed,
    total(CASE WHEN total > 0 THEN max(total - coalesce(paid, 0), 0) END) / 10000.0 AS _upto_owed,
    total(is_unpriced) AS _more_owed,
    -- Of which nothing says what was paid, at most all of it is owed.
    total(CASE WHEN total > 0 THEN paid_more END) AS _less_owed,
    total(CASE WHEN total > 0 THEN paid_unsure END) AS _unsure_owed
FROM own
-- note
SELECT printf('of %,d %s it is not known what was paid', count(*), iif(count(*) = 1, 'repair', 'repairs'))
FROM json_each(:repairs) r CROSS JOIN jobs j ON j.id = r.value CROSS JOIN _job_states s ON s.id = j.id
WHERE s.paid IS NULL OR s.paid_more + s.paid_unsure > 0
HAVING count(*) > 0
-- note
SELECT printf('of %,d %s it is not known what %s', count(*), iif(count(*) = 1, 'repair', 'repairs'),
    iif(count(*) = 1, 'it costs', 'they cost'))
FROM json_each(:repairs) r CROSS JOIN jobs j ON j.id = r.value CROSS JOIN _job_states s ON s.id = j.id
WHERE NOT s.is_cancelled AND j._total_amount IS NULL AND j._total_amount_sign IS NOT -1
HAVING count(*) > 0
-- note
SELECT printf('%,d %s that less was paid than %s payments add up to', count(*),
    iif(count(*) = 1, 'repair says', 'repairs say'), iif(count(*) = 1, 'its', 'their'))
FROM json_each(:repairs) r CROSS JOIN jobs j ON j.id = r.value CROSS JOIN _job_states s ON s.id = j.id
WHERE s.paid_upto IS NOT NULL
HAVING count(*) > 0
-- note
SELECT printf('%,d cancelled %s not owed', count(*), iif(count(*) = 1, 'repair is', 'repairs are'))
FROM json_each(:repairs) r CROSS JOIN jobs j ON j.id = r.value CROSS JOIN _job_states s ON s.id = j.id
WHERE s.is_cancelled AND j._total_amount > coalesce(s.paid, 0)
HAVING count(*) > 0
-- note
SELECT printf('%,d %s gone from the list and counted in neither sum', count(*), iif(count(*) = 1, 'repair is', 'repairs are'))
FROM json_each(:repairs) r
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = r.value)
HAVING count(*) > 0
