-- title = "Payments"
-- about = "Money received and paid back, by day, week or month. A payment with a negative amount, or of a type that means a refund, is a refund; one whose amount cannot be read may be either. Void payments are left out."
-- needs.payments = ["created_at", "amount"]
-- money = ["received", "refunded", "net"]
-- counts.payments = ["payments", "received", "refunds", "refunded"]
-- measures.payments = ["net"]
-- totals = ["payments", "received", "refunds", "refunded", "net"]
-- chart.bars = ["period", "received", "refunded"]
-- leads_to.payments = { list = "records", route = "payments", "kind.is" = "payment", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.received = { list = "records", route = "payments", "kind.not" = "void", "amount.from" = "0", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.refunds = { list = "records", route = "payments", "kind.is" = "refund", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.refunded = { list = "records", route = "payments", "kind.not" = "void", "amount.to" = "0", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.net = { list = "records", route = "payments", "kind.not" = "void", "created.from" = "{from}", "created.to" = "{to}" }
WITH unread AS MATERIALIZED (
    -- A payment whose time cannot be read may belong to any day until it was first seen.
    SELECT count(*) AS payments, max(p._first_seen_at) AS until
    FROM payments p
    WHERE p._created_at IS NULL AND p._kind IS NOT 'void'
        AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
)
SELECT period, sum(payments) AS payments, sum(received) / 10000.0 AS received,
    sum(refunds) AS refunds, sum(refunded) / 10000.0 AS refunded, sum(net) / 10000.0 AS net,
    -- What may be a payment or a refund makes ranges of both counts.
    sum(payments + either) AS _upto_payments, sum(refunds + either) AS _upto_refunds,
    sum(untimed) AS _more_payments, sum(positive + either + untimed) AS _more_received,
    sum(untimed) AS _more_refunds, sum(negative + either + untimed) AS _more_refunded,
    sum(positive) AS _more_net, sum(negative) AS _less_net, sum(either + untimed) AS _unsure_net
FROM (
    -- In ten-thousandths, because sums of fractions would not be exact. total() has no overflow.
    -- Of an amount that cannot be read, the sign may be known.
    SELECT period, count(CASE WHEN kind = 'payment' THEN 1 END) AS payments,
        count(CASE WHEN kind = 'refund' THEN 1 END) AS refunds,
        count(at) - count(kind) AS either,
        total(round(amount * 10000)) AS net,
        total(CASE WHEN amount > 0 THEN round(amount * 10000) END) AS received,
        0 - total(CASE WHEN amount < 0 THEN round(amount * 10000) END) AS refunded,
        count(CASE WHEN amount IS NULL AND kind = 'payment' THEN 1 END) AS positive,
        count(CASE WHEN amount IS NULL AND kind = 'refund' THEN 1 END) AS negative,
        coalesce((SELECT payments FROM unread WHERE until >= from_at), 0) AS untimed
    FROM (
        SELECT d.day, d.period, d.from_at, p._created_at AS at, p._amount AS amount, p._kind AS kind
        FROM days d LEFT JOIN payments p ON p._created_at >= d.from_at AND p._created_at < d.to_at
            AND p._kind IS NOT 'void'
            AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
    )
    GROUP BY day
)
GROUP BY period
ORDER BY period
-- note
SELECT printf('%,d of these payments %s no amount that can be read and %s in no sum%s: payment %s', payments,
    iif(payments = 1, 'has', 'have'), iif(payments = 1, 'is', 'are'),
    CASE WHEN either = 0 THEN '' WHEN payments = 1 THEN '; it may be a refund'
        WHEN either = payments THEN '; they may be refunds' WHEN either = 1 THEN '; 1 of them may be a refund'
        ELSE printf('; %,d of them may be refunds', either) END, id)
FROM (
    SELECT count(*) AS payments, count(*) - count(p._kind) AS either, max(p._seq), p.id
    FROM payments p
    WHERE p._created_at >= (SELECT min(from_at) FROM days) AND p._created_at < (SELECT max(to_at) FROM days)
        AND p._amount IS NULL AND p._kind IS NOT 'void'
        AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
)
WHERE payments > 0
-- note
SELECT printf('%,d void %s left out', count(*), iif(count(*) = 1, 'payment is', 'payments are'))
FROM payments p
WHERE p._created_at >= (SELECT min(from_at) FROM days) AND p._created_at < (SELECT max(to_at) FROM days)
    AND p._kind = 'void'
    AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
HAVING count(*) > 0
