-- title = "Payments"
-- about = "Money received and paid back, by day, week or month. A payment with a negative amount is a refund."
-- needs.payments = ["created_at", "amount"]
-- money = ["received", "refunded", "net"]
-- counts.payments = ["payments", "received", "refunds", "refunded"]
-- measures.payments = ["net"]
-- totals = ["payments", "received", "refunds", "refunded", "net"]
-- chart.bars = ["period", "received", "refunded"]
SELECT period, sum(payments) AS payments, sum(received) / 10000.0 AS received,
    sum(refunds) AS refunds, sum(refunded) / 10000.0 AS refunded, sum(net) / 10000.0 AS net
FROM (
    -- In ten-thousandths, because sums of fractions would not be exact. total() has no overflow.
    SELECT period, count(amount) - count(CASE WHEN amount < 0 THEN 1 END) AS payments,
        count(CASE WHEN amount < 0 THEN 1 END) AS refunds,
        total(round(amount * 10000)) AS net,
        total(CASE WHEN amount > 0 THEN round(amount * 10000) END) AS received,
        0 - total(CASE WHEN amount < 0 THEN round(amount * 10000) END) AS refunded
    FROM (
        -- A text is more than any number for SQLite, so an amount that was sent as text is made one.
        SELECT d.day, d.period, CASE WHEN typeof(p.amount) <> 'text' THEN p.amount
            WHEN p.amount GLOB '*[0-9]*' AND p.amount NOT GLOB '*[^-0-9.]*'
                AND p.amount NOT GLOB '?*-*' AND p.amount NOT GLOB '*.*.*'
                THEN CAST(p.amount AS NUMERIC) END AS amount
        FROM days d LEFT JOIN payments p ON p.created_at >= d.from_at AND p.created_at < d.to_at
            AND (:business IS NULL OR coalesce(p._business, :default_business) = :business)
    )
    GROUP BY day
)
GROUP BY period
ORDER BY period
