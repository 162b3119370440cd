-- title: The mirror itself
-- about: How fresh each route is, and what may have been missed. The time of the last reading is written once a minute.
WITH counted AS MATERIALIZED (
    SELECT l.route, l.business, sum(l.polls) AS polls
    FROM _polls l
    WHERE l.to_at >= (SELECT min(from_at) FROM days) AND l.to_at < (SELECT max(to_at) FROM days)
    GROUP BY l.route, l.business
)
SELECT p.route, nullif(p.business, '') AS business,
    round(1440 * (julianday(:now) - julianday(substr(p.last_success_at, 1, 19))), 1) AS minutes_old,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS open_gaps,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business) AS all_gaps,
    (SELECT coalesce(sum(max(g.estimate - g.repaired, 0)), 0) FROM gaps g
        WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS missing_about,
    -- Each + keeps SQLite from making an index of these few rows.
    coalesce((SELECT c.polls FROM counted c WHERE +c.route = p.route
        AND +c.business = p.business), 0) AS polls
FROM _pollers p
WHERE :business IS NULL OR coalesce(nullif(p.business, ''), p.served_business) = :business
ORDER BY p.route, p.business
