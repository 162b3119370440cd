-- # A refund that is missing would make it less.
-- needs.payments = ["created_at", "amount"]
-- measures.payments = ["number"]
WITH unread AS MATERIALIZED (
    -- A payment whose time cannot be read may belong to any day until it was first seen.
    SELECT count(*) AS payments, max(_first_seen_at) AS until
    FROM payments
    WHERE _created_at IS NULL AND _kind IS NOT 'void'
)
SELECT (
        -- In ten-thousandths, because sums of fractions would not be exact.
        SELECT total(round(10000 * r._amount)) / 10000.0
        FROM payments r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND r._kind IS NOT 'void'
    ) AS number,
    (
        SELECT count(*)
        FROM payments r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND r._amount IS NULL AND r._kind = 'payment'
    ) AS _more_number,
    (
        SELECT count(*)
        FROM payments r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND r._amount IS NULL AND r._kind = 'refund'
    ) AS _less_number,
    (
        SELECT count(*)
        FROM payments r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND r._amount IS NULL AND r._kind IS NULL
    ) + coalesce((SELECT payments FROM unread WHERE until >= d.from_at), 0) AS _unsure_number,
    d.period
FROM days d
ORDER BY d.day
-- note
SELECT printf('the amount of %,d %s cannot be read: payment %s', payments,
    iif(payments = 1, 'payment', 'payments'), id)
FROM (
    SELECT count(*) AS payments, max(p._seq), p.id
    FROM payments p
    WHERE p._created_at >= (SELECT min(from_at) FROM days) AND p._created_at < (SELECT max(to_at) FROM days)
        AND p._amount IS NULL AND p._kind IS NOT 'void'
)
WHERE payments > 0
