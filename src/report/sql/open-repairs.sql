-- title = "Open repairs"
-- about = "The repairs that are not completed, by stage, status and age in days. One that was deleted after it had left the newest page still counts."
-- needs.jobs = ["created_at", "status_stage"]
-- standing.jobs = ["open", "under_1_day", "from_1_to_3_days", "from_3_to_7_days", "over_7_days", "oldest_days"]
-- open_by = "status"
-- max_days = { under_1_day = 1, from_1_to_3_days = 3, from_3_to_7_days = 7 }
-- totals = ["open", "under_1_day", "from_1_to_3_days", "from_3_to_7_days", "over_7_days"]
-- chart.bars = ["status", "under_1_day", "from_1_to_3_days", "from_3_to_7_days", "over_7_days"]
-- leads_to.open = { list = "repairs", status = "{status}", stage = "{stage}" }
-- leads_to.under_1_day = { list = "repairs", status = "{status}", stage = "{stage}", open_days_under = "1" }
-- leads_to.from_1_to_3_days = { list = "repairs", status = "{status}", stage = "{stage}", open_days = "1", open_days_under = "3" }
-- leads_to.from_3_to_7_days = { list = "repairs", status = "{status}", stage = "{stage}", open_days = "3", open_days_under = "7" }
-- leads_to.over_7_days = { list = "repairs", status = "{status}", stage = "{stage}", open_days = "7" }
WITH ages AS MATERIALIZED (
    SELECT s.stage, s.status, max(julianday(:now) - julianday(substr(j._created_at, 1, 19)), 0) AS age,
        u.stretch
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id LEFT JOIN unheard u ON u.id = s.id
    WHERE s.stage IS NOT 'completed'
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
),
doubt AS MATERIALIZED (
    -- Each may be in any status.
    SELECT count(*) AS repairs FROM _job_states WHERE untimed_changes > 0
)
SELECT coalesce(stage, '(no stage)') AS stage, coalesce(status, '(no status)') AS status,
    count(*) AS open, count(CASE WHEN age < 1 THEN 1 END) AS under_1_day,
    count(CASE WHEN age >= 1 AND age < 3 THEN 1 END) AS from_1_to_3_days,
    count(CASE WHEN age >= 3 AND age < 7 THEN 1 END) AS from_3_to_7_days,
    count(CASE WHEN age >= 7 THEN 1 END) AS over_7_days, round(max(age), 1) AS oldest_days,
    count(*) - count(age) AS _more_under_1_day,
    count(*) - count(age) AS _more_from_1_to_3_days,
    count(*) - count(age) AS _more_from_3_to_7_days,
    count(*) - count(age) AS _more_over_7_days,
    count(*) - count(age) AS _more_oldest_days,
    (SELECT repairs FROM doubt) AS _unsure_open,
    (SELECT repairs FROM doubt) AS _unsure_under_1_day,
    (SELECT repairs FROM doubt) AS _unsure_from_1_to_3_days,
    (SELECT repairs FROM doubt) AS _unsure_from_3_to_7_days,
    (SELECT repairs FROM doubt) AS _unsure_over_7_days,
    (SELECT repairs FROM doubt) AS _unsure_oldest_days,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL) AS _unheard_open,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL AND age < 1) AS _unheard_under_1_day,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL AND age >= 1 AND age < 3)
        AS _unheard_from_1_to_3_days,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL AND age >= 3 AND age < 7)
        AS _unheard_from_3_to_7_days,
    json_group_array(stretch) FILTER (WHERE stretch IS NOT NULL AND age >= 7) AS _unheard_over_7_days,
    round(max(age) FILTER (WHERE stretch IS NOT NULL), 1) AS _unheard_oldest_days,
    round(max(age) FILTER (WHERE stretch IS NULL), 1) AS _heard_oldest_days
FROM ages
GROUP BY ages.stage, ages.status
ORDER BY open DESC, ages.status
-- note
SELECT printf('%,d of these repairs %s no time of creation that can be read, so %s in no column of an age: repair %s',
    repairs, iif(repairs = 1, 'has', 'have'), iif(repairs = 1, 'it is', 'they are'), id)
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE s.stage IS NOT 'completed' AND j._created_at IS NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d %s a status change without a time that can be read, and may be in another state: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (SELECT count(*) AS repairs, max(id) AS id FROM _job_states WHERE untimed_changes > 0)
WHERE repairs > 0
