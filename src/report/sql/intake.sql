-- title = "Intake"
-- about = "How many repairs, leads and customers came in, by day, week or month."
-- needs.jobs = ["created_at"]
-- needs.leads = ["created_at"]
-- needs.customers = ["created_at"]
-- counts.jobs = ["jobs"]
-- counts.leads = ["leads"]
-- counts.customers = ["customers"]
-- totals = ["jobs", "leads", "customers"]
-- chart.bars = ["period", "jobs", "leads", "customers"]
-- leads_to.jobs = { list = "repairs", state = "taken_in", from = "{from}", to = "{to}" }
-- leads_to.leads = { list = "records", route = "leads", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.customers = { list = "records", route = "customers", "created.from" = "{from}", "created.to" = "{to}" }
WITH unread AS MATERIALIZED (
    -- A record whose time of creation cannot be read may belong to any day until it was first seen.
    SELECT 'jobs' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM jobs r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
    UNION ALL
    SELECT 'leads' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM leads r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
    UNION ALL
    SELECT 'customers' AS route, count(*) AS records, max(r._first_seen_at) AS until
    FROM customers r
    WHERE r._created_at IS NULL
        AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)
)
SELECT period, sum(jobs) AS jobs, sum(leads) AS leads, sum(customers) AS customers,
    sum(untimed_jobs) AS _more_jobs, sum(untimed_leads) AS _more_leads,
    sum(untimed_customers) AS _more_customers
FROM (
    SELECT d.period,
        (SELECT count(*) FROM jobs r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS jobs,
        (SELECT count(*) FROM leads r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS leads,
        (SELECT count(*) FROM customers r WHERE r._created_at >= d.from_at AND r._created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS customers,
        (SELECT records FROM unread WHERE route = 'jobs' AND until >= d.from_at) AS untimed_jobs,
        (SELECT records FROM unread WHERE route = 'leads' AND until >= d.from_at) AS untimed_leads,
        (SELECT records FROM unread WHERE route = 'customers' AND until >= d.from_at)
            AS untimed_customers
    FROM days d
)
GROUP BY period
ORDER BY period
