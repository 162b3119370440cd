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
SELECT period, sum(jobs) AS jobs, sum(leads) AS leads, sum(customers) AS customers
FROM (
    SELECT d.period,
        (SELECT count(*) FROM jobs r WHERE r.created_at >= d.from_at AND r.created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS jobs,
        (SELECT count(*) FROM leads r WHERE r.created_at >= d.from_at AND r.created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS leads,
        (SELECT count(*) FROM customers r WHERE r.created_at >= d.from_at AND r.created_at < d.to_at
            AND (:business IS NULL OR coalesce(r._business, :default_business) = :business)) AS customers
    FROM days d
)
GROUP BY period
ORDER BY period
