-- title = "Till by payment method"
-- about = "Money received and paid back in the period, by the method of the payment, the highest net sum first. A payment with a negative amount, or of a type that means a refund, is a refund; one whose amount cannot be read may be either. Void payments are left out."
-- needs.payments = ["created_at", "amount", "method"]
-- money = ["received", "refunded", "net"]
-- counts.payments = ["payments", "received", "refunds", "refunded"]
-- measures.payments = ["net"]
-- totals = ["payments", "received", "refunds", "refunded", "net"]
-- leads_to.payments = { list = "records", route = "payments", "payment_mode.is" = "{method}", "kind.is" = "payment", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.received = { list = "records", route = "payments", "payment_mode.is" = "{method}", "kind.not" = "void", "amount.from" = "0", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.refunds = { list = "records", route = "payments", "payment_mode.is" = "{method}", "kind.is" = "refund", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.refunded = { list = "records", route = "payments", "payment_mode.is" = "{method}", "kind.not" = "void", "amount.to" = "0", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.net = { list = "records", route = "payments", "payment_mode.is" = "{method}", "kind.not" = "void", "created.from" = "{from}", "created.to" = "{to}" }
-- chart.bars = ["method", "received", "refunded"]
WITH unread AS MATERIALIZED (
    -- A payment whose time cannot be read may belong to any day until it was first seen.
    SELECT count(*) AS payments
    FROM payments p
    WHERE p._created_at IS NULL AND p._kind IS NOT 'void'
        AND p._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
)
SELECT method, payments, received / 10000.0 AS received, refunds, refunded / 10000.0 AS refunded,
    net / 10000.0 AS net,
    -- What may be a payment or a refund makes ranges of both counts.
    payments + either AS _upto_payments, refunds + either AS _upto_refunds,
    untimed AS _more_payments, positive + either + untimed AS _more_received,
    untimed AS _more_refunds, negative + either + untimed AS _more_refunded,
    positive AS _more_net, negative AS _less_net, either + untimed AS _unsure_net
FROM (
    -- In ten-thousandths, because sums of fractions would not be exact. total() has no overflow.
    -- Of an amount that cannot be read, the sign may be known.
    SELECT method, count(CASE WHEN kind = 'payment' THEN 1 END) AS payments,
        count(CASE WHEN kind = 'refund' THEN 1 END) AS refunds,
        count(*) - count(kind) AS either,
        total(round(amount * 10000)) AS net,
        total(CASE WHEN amount > 0 THEN round(amount * 10000) END) AS received,
        0 - total(CASE WHEN amount < 0 THEN round(amount * 10000) END) AS refunded,
        count(CASE WHEN amount IS NULL AND kind = 'payment' THEN 1 END) AS positive,
        count(CASE WHEN amount IS NULL AND kind = 'refund' THEN 1 END) AS negative,
        (SELECT payments FROM unread) AS untimed
    FROM (
        SELECT coalesce(p.method, '(none)') AS method, p._amount AS amount, p._kind AS kind
        FROM days d CROSS JOIN worded_payments p ON p._created_at >= d.from_at AND p._created_at < d.to_at
        WHERE p._kind IS NOT 'void'
            AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
    )
    GROUP BY method
)
ORDER BY net DESC, method
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
