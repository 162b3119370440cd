-- title: The mirror itself
-- about: How fresh each route is, and what may have been missed.
SELECT p.route, nullif(p.business, '') AS business,
    round(1440 * (julianday(:now) - julianday(substr(p.last_success_at, 1, 19))), 1) AS minutes_old,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS open_gaps,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business) AS all_gaps,
    (SELECT coalesce(sum(max(g.estimate - g.repaired, 0)), 0) FROM gaps g
        WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS missing_about,
    (SELECT coalesce(sum(l.polls), 0) FROM polls l WHERE l.route = p.route
        AND l.business = p.business AND l.to_at >= d.from_at AND l.to_at < d.to_at) AS polls
FROM pollers p, (SELECT min(from_at) AS from_at, max(to_at) AS to_at FROM days) d
WHERE :business IS NULL OR p.business = :business
ORDER BY p.route, p.business
