-- title = "Leads by source"
-- about = "Where the leads of the period came from, and how many of them are closed."
-- needs.leads = ["created_at", "source", "status_stage"]
-- counts.leads = ["leads", "closed", "no_stage"]
-- totals = ["leads", "closed", "no_stage"]
-- chart.bars = ["source", "leads", "closed"]
-- leads_to.leads = { list = "records", route = "leads", "source.is" = "{source}", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.closed = { list = "records", route = "leads", "source.is" = "{source}", "status_stage.is" = "completed", "created.from" = "{from}", "created.to" = "{to}" }
-- leads_to.no_stage = { list = "records", route = "leads", "source.is" = "{source}", "status_stage.is" = "(none)", "created.from" = "{from}", "created.to" = "{to}" }
SELECT coalesce(source, '(none)') AS source, sum(leads) AS leads, sum(closed) AS closed,
    sum(no_stage) AS no_stage, sum(untimed) AS _more_leads, sum(untimed) AS _more_closed,
    sum(untimed) AS _more_no_stage
FROM (
    SELECT nullif(l.source, '') AS source, count(*) AS leads,
        count(CASE WHEN l.status_stage = 'completed' THEN 1 END) AS closed,
        count(CASE WHEN nullif(l.status_stage, '') IS NULL THEN 1 END) AS no_stage, 0 AS untimed
    FROM leads l
    WHERE l._created_at >= (SELECT min(from_at) FROM days) AND l._created_at < (SELECT max(to_at) FROM days)
        AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
    GROUP BY l.source
    UNION ALL
    -- A lead whose time cannot be read may belong to any day until it was first seen.
    SELECT nullif(l.source, ''), 0, 0, 0, count(*)
    FROM leads l
    WHERE l._created_at IS NULL AND l._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
    GROUP BY l.source
) counted
GROUP BY coalesce(counted.source, '(none)')
ORDER BY leads DESC, 1
-- note
SELECT printf('the state of %,d of %,d leads was not seen since they left the newest page; the oldest was last seen on %s (UTC)',
    count(l._last_seen_at), count(*), substr(min(l._last_seen_at), 1, 10))
FROM leads l
WHERE l._created_at >= (SELECT min(from_at) FROM days) AND l._created_at < (SELECT max(to_at) FROM days)
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
HAVING count(l._last_seen_at) > 0
