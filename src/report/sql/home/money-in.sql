-- # A refund that is missing would make it less.
-- needs.payments = ["created_at", "amount"]
-- measures.payments = ["number"]
SELECT (
        -- In ten-thousandths, because sums of fractions would not be exact.
        SELECT total(round(10000 * {amount})) / 10000.0
        FROM payments r WHERE r.created_at >= d.from_at AND r.created_at < d.to_at
    ) AS number,
    d.period
FROM days d
ORDER BY d.day
