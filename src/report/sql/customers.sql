-- title = "Customers"
-- about = "New customers, and returning ones: different mobile numbers with a repair in the period and an earlier one."
-- needs.customers = ["created_at"]
-- needs.jobs = ["created_at", "mobile_number"]
-- counts.customers = ["new"]
-- before.jobs = ["returned"]
-- every_business = ["jobs"]
-- totals = ["new"]
-- chart.bars = ["period", "new", "returned"]
-- leads_to.new = { list = "records", route = "customers", "created.from" = "{from}", "created.to" = "{to}" }
WITH unread AS MATERIALIZED (
    -- A record whose time of creation cannot be read may belong to any day until it was first seen.
    SELECT 'customers' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM customers r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
    UNION ALL
    SELECT 'jobs' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM jobs r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
)
SELECT p.period,
    (SELECT count(*) FROM customers c WHERE c._created_at >= p.from_at AND c._created_at < p.to_at
        AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)) AS new,
    -- Takes about half as long as count(DISTINCT ...).
    (SELECT count(*) FROM (SELECT DISTINCT j.mobile_number FROM jobs j
        WHERE j._created_at >= p.from_at AND j._created_at < p.to_at
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
        AND EXISTS (SELECT 1 FROM jobs e WHERE e.mobile_number = j.mobile_number AND j.mobile_number <> ''
            AND e._created_at < j._created_at))) AS returned,
    (SELECT records FROM unread WHERE route = 'customers' AND until >= p.from_at) AS _more_new,
    -- One of another time makes a number known that came back.
    (SELECT records FROM unread WHERE route = 'jobs') AS _more_returned
FROM (SELECT period, min(from_at) AS from_at, max(to_at) AS to_at FROM days GROUP BY period) p
ORDER BY p.period
