-- title = "Lead conversion"
-- about = "How many leads of each period became customers: a customer with the same mobile number or e-mail address was created at the same time or later."
-- needs.leads = ["created_at", "mobile_number", "email"]
-- needs.customers = ["created_at", "mobile_number", "email"]
-- counts.leads = ["leads", "converted"]
-- after.customers = ["converted", "converted_percent"]
-- measures.leads = ["converted_percent"]
-- totals = ["leads", "converted"]
-- percent = ["converted_percent"]
-- chart.bars = ["period", "leads", "converted"]
SELECT period, sum(leads) AS leads, sum(converted) AS converted,
    round(100.0 * sum(converted) / nullif(sum(leads), 0), 1) AS converted_percent
FROM (
    SELECT d.period, l.created_at IS NOT NULL AS leads,
        EXISTS (SELECT 1 FROM customers c
            WHERE c.mobile_number = l.mobile_number AND l.mobile_number <> '' AND c.created_at >= l.created_at)
        OR EXISTS (SELECT 1 FROM customers c
            WHERE c.email = l.email AND l.email <> '' AND c.created_at >= l.created_at) AS converted
    FROM days d LEFT JOIN leads l ON l.created_at >= d.from_at AND l.created_at < d.to_at
        AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
)
GROUP BY period
ORDER BY period
