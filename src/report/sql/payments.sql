-- title = "Payments"
-- about = "Money received and paid back, by day, week or month. A payment with a negative amount is a refund; one whose amount cannot be read counts as a payment."
-- needs.payments = ["created_at", "amount"]
-- money = ["received", "refunded", "net"]
-- counts.payments = ["payments", "received", "refunds", "refunded"]
-- measures.payments = ["net"]
-- totals = ["payments", "received", "refunds", "refunded", "net"]
-- chart.bars = ["period", "received", "refunded"]
WITH unread AS MATERIALIZED (
    -- A payment whose time cannot be read may belong to any day until it was first seen.
    SELECT count(*) AS payments, max(p._first_seen_at) AS until
    FROM payments p
    WHERE p._created_at IS NULL
        AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
)
SELECT period, sum(payments) AS payments, sum(received) / 10000.0 AS received,
    sum(refunds) AS refunds, sum(refunded) / 10000.0 AS refunded, sum(net) / 10000.0 AS net,
    sum(untimed) AS _more_payments, sum(positive + untimed) AS _more_received,
    sum(unsigned) AS _unsure_received, sum(untimed) AS _more_refunds,
    sum(negative + untimed) AS _more_refunded, sum(unsigned) AS _unsure_refunded,
    sum(positive) AS _more_net, sum(negative + unsigned + untimed) AS _unsure_net
FROM (
    -- In ten-thousandths, because sums of fractions would not be exact. total() has no overflow.
    -- Of an amount that cannot be read, the sign may be known.
    SELECT period, count(at) - count(CASE WHEN sign < 0 THEN 1 END) AS payments,
        count(CASE WHEN sign < 0 THEN 1 END) AS refunds,
        total(round(amount * 10000)) AS net,
        total(CASE WHEN amount > 0 THEN round(amount * 10000) END) AS received,
        0 - total(CASE WHEN amount < 0 THEN round(amount * 10000) END) AS refunded,
        count(CASE WHEN amount IS NULL AND sign > 0 THEN 1 END) AS positive,
        count(CASE WHEN amount IS NULL AND sign < 0 THEN 1 END) AS negative,
        count(at) - count(sign) AS unsigned,
        coalesce((SELECT payments FROM unread WHERE until >= from_at), 0) AS untimed
    FROM (
        SELECT d.day, d.period, d.from_at, p._created_at AS at, p._amount AS amount,
            coalesce(p._amount, p._amount_sign) AS sign
        FROM days d LEFT JOIN payments p ON p._created_at >= d.from_at AND p._created_at < d.to_at
            AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
    )
    GROUP BY day
)
GROUP BY period
ORDER BY period
-- note
SELECT printf('%,d of these payments %s no amount that can be read and %s in no sum: payment %s', payments,
    iif(payments = 1, 'has', 'have'), iif(payments = 1, 'is', 'are'), id)
FROM (
    SELECT count(*) AS payments, max(p._seq), p.id
    FROM payments p
    WHERE p._created_at >= (SELECT min(from_at) FROM days) AND p._created_at < (SELECT max(to_at) FROM days)
        AND p._amount IS NULL
        AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
)
WHERE payments > 0
