-- title = "Repairs"
-- about = "Each repair that is not completed, the first taken in first; or each one that was taken in, or completed, on the days that are asked for."
-- is_list = true
-- needs.jobs = ["job_number", "customer_name", "created_at", "status_stage", "estimated_delivery"]
-- parameters.state = { default = "open", about = "state", choices = ["open", "taken_in", "completed"] }
-- # What is open now is of no day.
-- timeless = { state = "open" }
-- parameters.status = { default = "", about = "status, or several divided by |" }
-- parameters.stage = { default = "", about = "stage" }
-- parameters.person = { default = "", about = "person; of a completed repair the one who completed it" }
-- parameters.brand = { default = "", about = "brand" }
-- parameters.model = { default = "", about = "a part of the model" }
-- parameters.problem = { default = "", about = "a part of the problem" }
-- parameters.amount_from = { default = 0, about = "total at least" }
-- parameters.amount_to = { default = 0, about = "total at most" }
-- parameters.status_days = { default = 0, about = "in its status for more than … days" }
-- parameters.open_days = { default = 0, about = "taken in … days ago or earlier" }
-- parameters.open_days_under = { default = 0, about = "taken in less than … days ago" }
-- parameters.late = { default = 0, about = "only overdue ones", is_flag = true }
-- parameters.unheard = { default = 0, about = "only those not heard of since status changes may have been missed", is_flag = true }
WITH chosen AS MATERIALIZED (
    SELECT s.id
    FROM _job_states s
    WHERE :state = 'open' AND s.stage IS NOT 'completed'
    UNION ALL
    SELECT j.id
    FROM days d CROSS JOIN jobs j ON j._created_at >= d.from_at AND j._created_at < d.to_at
    WHERE :state = 'taken_in'
    UNION ALL
    SELECT s.id
    FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
    WHERE :state = 'completed'
),
described AS (
    SELECT s.id, s.status, s.stage, s.since, s.is_since_seen, s.completed_by, j.job_number, j.customer_name,
        j._created_at AS created_at, j._estimated_delivery AS due, j._total_amount AS total,
        CASE WHEN j._estimated_delivery < :today
            THEN CAST(julianday(:today) - julianday(j._estimated_delivery) AS INTEGER)
        END AS days_late,
        -- From the log, because there is no column for what is never sent.
        (SELECT l.body FROM changes l WHERE l.seq = j._seq) AS body
    FROM chosen c CROSS JOIN _job_states s ON s.id = c.id CROSS JOIN jobs j ON j.id = c.id
    WHERE (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
SELECT id AS job_id, job_number, customer_name, coalesce(status, '(no status)') AS status,
    CAST(julianday(:now) - julianday(substr(since, 1, 19)) AS INTEGER) AS days_in_status,
    CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER) AS days_open, due, days_late,
    -- Its status may be as old as the repair.
    is_since_seen AND CAST(julianday(:now) - julianday(substr(since, 1, 19)) AS INTEGER)
        IS NOT CAST(julianday(:now) - julianday(substr(created_at, 1, 19)) AS INTEGER) AS _more_days_in_status,
    -- It may have another status since.
    id IN (SELECT u.id FROM unheard u) AS _less_days_in_status
FROM described
WHERE (:status = '' OR instr('|' || :status || '|', '|' || coalesce(status, '(no status)') || '|') > 0)
    AND (:stage = '' OR CAST(coalesce(stage, '(no stage)') AS TEXT) = :stage)
    -- What is sent as a number is asked for as text.
    AND (:person = '' OR :person = CAST(coalesce(
        iif(:state = 'completed', completed_by, NULL),
        nullif(body ->> '$.assigned_to', ''),
        '(not assigned)'
    ) AS TEXT))
    AND (:brand = '' OR CAST(coalesce(nullif(body ->> '$.device_brand', ''), '(none)') AS TEXT) = :brand)
    AND (:model = '' OR instr(lower(body ->> '$.device_model'), lower(:model)) > 0)
    AND (:problem = '' OR instr(lower(body ->> '$.problem'), lower(:problem)) > 0)
    AND (:amount_from = 0 OR total >= :amount_from)
    AND (:amount_to = 0 OR total <= :amount_to)
    AND (:late = 0 OR days_late > 0)
    AND (:unheard = 0 OR id IN (SELECT u.id FROM unheard u))
    AND (:status_days = 0 OR julianday(:now) - julianday(substr(since, 1, 19)) > :status_days)
    AND (:open_days = 0 OR julianday(:now) - julianday(substr(created_at, 1, 19)) >= :open_days)
    AND (:open_days_under = 0
        OR max(julianday(:now) - julianday(substr(created_at, 1, 19)), 0) < :open_days_under)
ORDER BY created_at, id
-- note
SELECT printf('%,d open %s an estimated_delivery that cannot be read, so that nothing says if %s late: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), iif(repairs = 1, 'it is', 'they are'), id),
    iif(:late, 'rows', '')
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE :state = 'open' AND s.stage IS NOT 'completed' AND j._unreadable IS NOT NULL
        AND EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'estimated_delivery')
        AND (:status = '' OR instr('|' || :status || '|', '|' || s.status || '|') > 0)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d open %s no time of creation that can be read: repair %s', repairs,
    iif(repairs = 1, 'repair has', 'repairs have'), id),
    iif(:open_days > 0 OR :open_days_under > 0, 'rows', '')
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE :state = 'open' AND s.stage IS NOT 'completed' AND j._created_at IS NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d %s a status change without a time that can be read, and may be in another state: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), id)
FROM (SELECT count(*) AS repairs, max(id) AS id FROM _job_states WHERE untimed_changes > 0)
WHERE repairs > 0
-- note
SELECT printf('of %,d more %s nothing says for how long %s status has been the same: repair %s', repairs,
    iif(repairs = 1, 'repair', 'repairs'), iif(repairs = 1, 'its', 'their'), id), 'rows'
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM _job_states s CROSS JOIN jobs j ON j.id = s.id
    WHERE :state = 'open' AND :status_days > 0 AND s.stage IS NOT 'completed' AND (s.since IS NULL OR s.is_since_seen)
        AND (s.since IS NULL OR julianday(:now) - julianday(substr(s.since, 1, 19)) <= :status_days)
        AND (j._created_at IS NULL
            OR julianday(:now) - julianday(substr(j._created_at, 1, 19)) > :status_days)
        AND (:status = '' OR instr('|' || :status || '|', '|' || s.status || '|') > 0)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d more %s no time of creation that can be read and may have been taken in on these days: repair %s',
    repairs, iif(repairs = 1, 'repair has', 'repairs have'), id), 'rows'
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM jobs j
    WHERE :state = 'taken_in' AND j._created_at IS NULL AND j._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
-- note
SELECT printf('%,d status %s no time that can be read and may have completed a repair on these days: status change %s',
    changes, iif(changes = 1, 'change has', 'changes have'), id), 'rows'
FROM (
    SELECT count(*) AS changes, max(c._seq), c.id
    FROM job_status_changes c
    WHERE :state = 'completed' AND c._created_at IS NULL
        AND c._first_seen_at >= (SELECT min(from_at) FROM days)
        AND (:business IS NULL OR coalesce(c._business, :default_business) = :business)
)
WHERE changes > 0
-- note
SELECT printf('%,d %s no total that can be compared: repair %s', repairs,
    iif(repairs = 1, 'repair has', 'repairs have'), id), 'rows'
FROM (
    SELECT count(*) AS repairs, max(j._seq), j.id
    FROM (
        SELECT s.id
        FROM _job_states s
        WHERE :state = 'open' AND s.stage IS NOT 'completed'
        UNION ALL
        SELECT j.id
        FROM days d CROSS JOIN jobs j ON j._created_at >= d.from_at AND j._created_at < d.to_at
        WHERE :state = 'taken_in'
        UNION ALL
        SELECT s.id
        FROM days d CROSS JOIN _job_states s ON s.completed_at >= d.from_at AND s.completed_at < d.to_at
        WHERE :state = 'completed'
    ) c CROSS JOIN jobs j ON j.id = c.id
    WHERE (:amount_from <> 0 OR :amount_to <> 0) AND j._total_amount IS NULL
        AND (:business IS NULL OR coalesce(j._business, :default_business) = :business)
)
WHERE repairs > 0
