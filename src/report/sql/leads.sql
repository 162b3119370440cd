-- title = "Lead conversion"
-- about = "How many leads of each period became customers: a customer with the same mobile number or e-mail address was created at the same time or later. Spaces, hyphens and case are ignored; the same number in another country is another person."
-- needs.leads = ["created_at", "mobile_number", "email"]
-- needs.customers = ["created_at", "mobile_number", "email"]
-- counts.leads = ["leads", "converted"]
-- after.customers = ["converted", "converted_percent"]
-- measures.leads = ["converted_percent"]
-- every_business = ["customers"]
-- totals = ["leads", "converted"]
-- percent = ["converted_percent"]
-- chart.bars = ["period", "leads", "converted"]
-- leads_to.leads = { list = "records", route = "leads", "created.from" = "{from}", "created.to" = "{to}" }
WITH unread AS MATERIALIZED (
    -- A record whose time of creation cannot be read may belong to any day until it was first seen.
    SELECT 'leads' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM leads r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
    UNION ALL
    SELECT 'customers', count(*), max(r._first_seen_at)
    FROM customers r
    WHERE r._created_at IS NULL
)
SELECT period, leads, converted, round(100.0 * converted / nullif(leads, 0), 1) AS converted_percent,
    (SELECT records FROM unread WHERE route = 'leads' AND until >= first_at) AS _more_leads,
    (SELECT sum(records) FROM unread WHERE until >= first_at) AS _more_converted,
    (SELECT sum(records) FROM unread WHERE until >= first_at) AS _unsure_converted_percent
FROM (
    SELECT period, min(from_at) AS first_at, sum(leads) AS leads, sum(converted) AS converted
    FROM (
        SELECT d.period, d.from_at, l._created_at IS NOT NULL AS leads,
            EXISTS (SELECT 1 FROM customers c
                -- From the log, because there is no such column where no code is ever sent.
                CROSS JOIN changes cc ON cc.seq = c._seq CROSS JOIN changes lc ON lc.seq = l._seq
                WHERE {c.number} = {l.number} AND {l.number} <> '' AND c._created_at >= l._created_at
                    AND coalesce(ltrim(replace(cc.body ->> '$.mobile_country_code', ' ', ''), '+0')
                        = ltrim(replace(lc.body ->> '$.mobile_country_code', ' ', ''), '+0'), 1))
            OR EXISTS (SELECT 1 FROM customers c
                WHERE {c.email} = {l.email} AND {l.email} <> ''
                    AND c._created_at >= l._created_at) AS converted
        FROM days d LEFT JOIN leads l ON l._created_at >= d.from_at AND l._created_at < d.to_at
            AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
    )
    GROUP BY period
)
ORDER BY period
