-- title: Leads by source
-- about: Where the leads of the period came from, and how many of them are closed.
-- needs: leads.created_at, leads.source, leads.status_stage
-- chart: bars source leads closed
SELECT coalesce(source, '(none)') AS source, sum(leads) AS leads, coalesce(sum(closed), 0) AS closed
FROM (
    SELECT l.source, count(*) AS leads, sum(l.status_stage = 'completed') AS closed
    FROM leads l
    WHERE l.created_at >= (SELECT min(from_at) FROM days) AND l.created_at < (SELECT max(to_at) FROM days)
        AND (:business IS NULL OR l._business = :business)
    GROUP BY l.source
) counted
GROUP BY coalesce(counted.source, '(none)')
ORDER BY leads DESC, 1
