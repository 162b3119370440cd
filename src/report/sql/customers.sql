-- title = "Customers"
-- about = "New customers, and returning ones: different mobile numbers with a repair in the period and an earlier one."
-- needs.customers = ["created_at"]
-- needs.jobs = ["created_at", "mobile_number"]
-- counts.customers = ["new"]
-- before.jobs = ["returned"]
-- totals = ["new"]
-- chart.bars = ["period", "new", "returned"]
SELECT p.period,
    (SELECT count(*) FROM customers c WHERE c.created_at >= p.from_at AND c.created_at < p.to_at
        AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)) AS new,
    -- Takes about half as long as count(DISTINCT ...).
    (SELECT count(*) FROM (SELECT DISTINCT j.mobile_number FROM jobs j
        WHERE j.created_at >= p.from_at AND j.created_at < p.to_at
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
        AND EXISTS (SELECT 1 FROM jobs e WHERE e.mobile_number = j.mobile_number AND j.mobile_number <> ''
            AND e.created_at < j.created_at))) AS returned
FROM (SELECT period, min(from_at) AS from_at, max(to_at) AS to_at FROM days GROUP BY period) p
ORDER BY p.period
