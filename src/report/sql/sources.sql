-- title: Leads by source
-- about: Where the leads of the period came from, and how many of them are closed.
-- needs: leads.created_at, leads.source, leads.status_stage
-- chart: bars source leads closed
SELECT coalesce(source, '(none)') AS source, sum(leads) AS leads, sum(closed) AS closed
FROM (
    SELECT l.source, count(*) AS leads, count(CASE WHEN l.status_stage = 'completed' THEN 1 END) AS closed
    FROM (SELECT min(from_at) AS from_at, max(to_at) AS to_at FROM days) d
        CROSS JOIN leads l ON l.created_at >= d.from_at AND l.created_at < d.to_at
    WHERE :business IS NULL OR l._business = :business
    GROUP BY l.source
) counted
GROUP BY coalesce(counted.source, '(none)')
ORDER BY leads DESC, 1
