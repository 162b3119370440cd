-- title = "The mirror itself"
-- about = "How fresh each route is, and what may have been missed. The time of the last reading is written once a minute."
SELECT p.route, nullif(p.business, '') AS business,
    round(1440 * (julianday(:now) - julianday(substr(p.last_success_at, 1, 19))), 1) AS minutes_old,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS open_gaps,
    (SELECT count(*) FROM gaps g WHERE g.route = p.route AND g.business = p.business) AS all_gaps,
    (SELECT coalesce(sum(max(g.estimate - g.repaired, 0)), 0) FROM gaps g
        WHERE g.route = p.route AND g.business = p.business
        AND g.state IN ('open', 'partly_repaired')) AS missing_about
FROM _pollers p
WHERE :business IS NULL OR coalesce(nullif(p.business, ''), p.served_business) = :business
ORDER BY p.route, p.business
