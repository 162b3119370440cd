-- title: Busiest hours
-- about: How many repairs were taken in, by weekday and hour.
-- needs: jobs.created_at
-- chart: heat hour weekday repairs
SELECT CASE strftime('%u', local) WHEN '1' THEN 'Mon' WHEN '2' THEN 'Tue' WHEN '3' THEN 'Wed'
        WHEN '4' THEN 'Thu' WHEN '5' THEN 'Fri' WHEN '6' THEN 'Sat' ELSE 'Sun' END AS weekday,
    CAST(strftime('%H', local) AS INTEGER) AS hour, sum(repairs) AS repairs
FROM (
    SELECT strftime('%Y-%m-%d %H:%M', minute || ':00', (SELECT z.seconds FROM _time_zone_offsets z
            WHERE z.from_at <= minute || ':00' ORDER BY z.from_at DESC LIMIT 1) || ' seconds') AS local,
        repairs
    FROM (
        SELECT substr(j.created_at, 1, 16) AS minute, count(*) AS repairs
        FROM days d CROSS JOIN jobs j ON j.created_at >= d.from_at AND j.created_at < d.to_at
        WHERE :business IS NULL OR j._business = :business
        GROUP BY substr(j.created_at, 1, 16)
    )
)
GROUP BY strftime('%u', local), hour
ORDER BY strftime('%u', local), hour
