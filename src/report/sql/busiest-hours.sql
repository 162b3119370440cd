-- title: Busiest hours
-- about: How many repairs were taken in, by weekday and hour.
-- needs: jobs.created_at
-- chart: heat hour weekday repairs
WITH RECURSIVE zones AS MATERIALIZED (
    -- The offsets of the period, each with its bounds in seconds since 1970.
    SELECT unixepoch(from_at) AS from_s, seconds,
        unixepoch(lead(from_at, 1, '9999-12-31T00:00:00') OVER (ORDER BY from_at)) AS to_s
    FROM _time_zone_offsets
    WHERE from_at < (SELECT max(to_at) FROM days)
        AND from_at >= (SELECT max(from_at) FROM _time_zone_offsets
            WHERE from_at <= (SELECT min(from_at) FROM days))
),
hours(from_s, to_s, end_s, seconds) AS (
    -- The local hours. The first of a day may be short, and so may the last before a clock change.
    SELECT max(unixepoch(d.from_at), z.from_s) AS from_s, NULL,
        min(unixepoch(d.to_at), z.to_s), z.seconds
    FROM days d JOIN zones z
        ON z.from_s < unixepoch(d.to_at) AND z.to_s > unixepoch(d.from_at)
    UNION ALL
    SELECT coalesce(to_s, from_s),
        min(end_s, (coalesce(to_s, from_s) + seconds) / 3600 * 3600 + 3600 - seconds), end_s, seconds
    FROM hours
    WHERE coalesce(to_s, from_s) < end_s
),
counted AS MATERIALIZED (
    SELECT (h.from_s + h.seconds) / 86400 % 7 AS weekday, (h.from_s + h.seconds) / 3600 % 24 AS hour,
        (SELECT count(*) FROM jobs j
            WHERE j.created_at >= strftime('%Y-%m-%dT%H:%M:%S', h.from_s, 'unixepoch')
                AND j.created_at < strftime('%Y-%m-%dT%H:%M:%S', h.to_s, 'unixepoch')
                AND (:business IS NULL OR j._business = :business)) AS repairs
    FROM hours h
    WHERE h.to_s IS NOT NULL
)
-- The first of January 1970 was a Thursday.
SELECT CASE weekday WHEN 4 THEN 'Mon' WHEN 5 THEN 'Tue' WHEN 6 THEN 'Wed' WHEN 0 THEN 'Thu'
        WHEN 1 THEN 'Fri' WHEN 2 THEN 'Sat' ELSE 'Sun' END AS weekday,
    hour, sum(repairs) AS repairs
FROM counted
GROUP BY counted.weekday, hour
HAVING sum(repairs) > 0
ORDER BY (counted.weekday + 3) % 7, hour
