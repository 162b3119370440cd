-- title: Leads by source
-- about: Where the leads of the period came from, and how many of them are closed.
-- needs: leads.created_at, leads.source, leads.status_stage
-- chart: bars source leads closed
SELECT coalesce(l.source, '(none)') AS source, count(*) AS leads,
    sum(coalesce(l.status_stage = 'completed', 0)) AS closed
FROM days d CROSS JOIN leads l ON l.created_at >= d.from_at AND l.created_at < d.to_at
WHERE :business IS NULL OR l._business = :business
GROUP BY coalesce(l.source, '(none)')
ORDER BY leads DESC, source
