-- title: Busiest hours
-- about: How many repairs were taken in, by weekday and hour.
-- needs: jobs.created_at
-- chart: heat hour weekday repairs
WITH minutes AS MATERIALIZED (
    SELECT substr(j.created_at, 1, 16) || ':00' AS minute, count(*) AS repairs
    FROM days d CROSS JOIN jobs j ON j.created_at >= d.from_at AND j.created_at < d.to_at
    WHERE :business IS NULL OR j._business = :business
    GROUP BY substr(j.created_at, 1, 16)
),
hours AS MATERIALIZED (
    SELECT strftime('%w %H', minute, (SELECT z.seconds FROM _time_zone_offsets z
            WHERE z.from_at <= minute ORDER BY z.from_at DESC LIMIT 1) || ' seconds') AS local,
        repairs
    FROM minutes
)
SELECT CASE substr(local, 1, 1) WHEN '1' THEN 'Mon' WHEN '2' THEN 'Tue' WHEN '3' THEN 'Wed'
        WHEN '4' THEN 'Thu' WHEN '5' THEN 'Fri' WHEN '6' THEN 'Sat' ELSE 'Sun' END AS weekday,
    CAST(substr(local, 3) AS INTEGER) AS hour, sum(repairs) AS repairs
FROM hours
GROUP BY local
ORDER BY (substr(local, 1, 1) + 6) % 7, hour
