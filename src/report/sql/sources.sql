-- title = "Leads by source"
-- about = "Where the leads of the period came from, and how many of them are closed."
-- needs.leads = ["created_at", "source", "status_stage"]
-- counts.leads = ["leads", "closed", "no_stage"]
-- totals = ["leads", "closed", "no_stage"]
-- chart.bars = ["source", "leads", "closed"]
SELECT coalesce(source, '(none)') AS source, sum(leads) AS leads, sum(closed) AS closed,
    sum(no_stage) AS no_stage
FROM (
    SELECT l.source, count(*) AS leads,
        count(CASE WHEN l.status_stage = 'completed' THEN 1 END) AS closed,
        count(CASE WHEN l.status_stage IS NULL THEN 1 END) AS no_stage
    FROM leads l
    WHERE l.created_at >= (SELECT min(from_at) FROM days) AND l.created_at < (SELECT max(to_at) FROM days)
        AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
    GROUP BY l.source
) counted
GROUP BY coalesce(counted.source, '(none)')
ORDER BY leads DESC, 1
-- note
SELECT printf('the state of %,d of %,d leads was not seen since they left the newest page; the oldest was last seen on %s (UTC)',
    count(l._last_seen_at), count(*), substr(min(l._last_seen_at), 1, 10))
FROM leads l
WHERE l.created_at >= (SELECT min(from_at) FROM days) AND l.created_at < (SELECT max(to_at) FROM days)
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
HAVING count(l._last_seen_at) > 0
