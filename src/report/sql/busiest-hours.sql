-- title = "Busiest hours"
-- about = "How many repairs were taken in, by hour and weekday."
-- needs.jobs = ["created_at"]
-- counts.jobs = ["repairs", "mon", "tue", "wed", "thu", "fri", "sat", "sun"]
-- totals = ["repairs", "mon", "tue", "wed", "thu", "fri", "sat", "sun"]
-- chart.bars = ["hour", "repairs"]
-- shaded = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WITH RECURSIVE zones AS MATERIALIZED (
    -- The offsets of the period, each with its bounds in seconds since 1970.
    SELECT unixepoch(from_at) AS from_s, seconds,
        unixepoch(lead(from_at, 1, '9999-12-31T00:00:00') OVER (ORDER BY from_at)) AS to_s
    FROM _time_zone_offsets
    WHERE from_at < (SELECT max(to_at) FROM days)
        AND from_at >= (SELECT max(from_at) FROM _time_zone_offsets
            WHERE from_at <= (SELECT min(from_at) FROM days))
),
hours(from_s, from_at, to_s, to_at, end_s, seconds) AS (
    -- The local hours. The first of a day may be short, and so may the last before a clock change.
    -- Each end is written as text once and is the start of the next hour.
    SELECT NULL, NULL, from_s, strftime('%Y-%m-%dT%H:%M:%S', from_s, 'unixepoch'), end_s, seconds
    FROM (
        SELECT max(unixepoch(d.from_at), z.from_s) AS from_s, min(unixepoch(d.to_at), z.to_s) AS end_s,
            z.seconds
        FROM days d JOIN zones z
            ON z.from_s < unixepoch(d.to_at) AND z.to_s > unixepoch(d.from_at)
    )
    UNION ALL
    SELECT to_s, to_at, min(end_s, (to_s + seconds) / 3600 * 3600 + 3600 - seconds),
        strftime('%Y-%m-%dT%H:%M:%S',
            min(end_s, (to_s + seconds) / 3600 * 3600 + 3600 - seconds), 'unixepoch'),
        end_s, seconds
    FROM hours
    WHERE to_s < end_s
),
counted AS MATERIALIZED (
    SELECT (h.from_s + h.seconds) / 86400 % 7 AS weekday, (h.from_s + h.seconds) / 3600 % 24 AS hour,
        (SELECT count(*) FROM jobs j WHERE j._created_at >= h.from_at AND j._created_at < h.to_at
            AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)) AS repairs
    FROM hours h
    WHERE h.from_s IS NOT NULL
),
unread AS MATERIALIZED (
    -- A repair whose time cannot be read may belong to any hour until it was first seen.
    SELECT count(*) AS repairs
    FROM jobs j
    WHERE j._created_at IS NULL AND j._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
-- The first of January 1970 was a Thursday, which is day 0.
SELECT hour, sum(repairs) AS repairs, sum(repairs * (weekday = 4)) AS mon,
    sum(repairs * (weekday = 5)) AS tue, sum(repairs * (weekday = 6)) AS wed,
    sum(repairs * (weekday = 0)) AS thu, sum(repairs * (weekday = 1)) AS fri,
    sum(repairs * (weekday = 2)) AS sat, sum(repairs * (weekday = 3)) AS sun,
    (SELECT repairs FROM unread) AS _more_repairs,
    (SELECT repairs FROM unread) AS _more_mon,
    (SELECT repairs FROM unread) AS _more_tue,
    (SELECT repairs FROM unread) AS _more_wed,
    (SELECT repairs FROM unread) AS _more_thu,
    (SELECT repairs FROM unread) AS _more_fri,
    (SELECT repairs FROM unread) AS _more_sat,
    (SELECT repairs FROM unread) AS _more_sun
FROM counted
GROUP BY hour
HAVING sum(repairs) > 0
ORDER BY hour
