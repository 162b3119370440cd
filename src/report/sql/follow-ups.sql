-- title: Follow-ups due
-- about: The open leads whose next follow-up is due today or was due before.
-- shows: records
-- needs: leads.name, leads.status, leads.status_stage, leads.next_follow_up
SELECT l.id, l.name, l.status, l.next_follow_up AS due,
    CAST(julianday(:today) - julianday(substr(l.next_follow_up, 1, 10)) AS INTEGER) AS days_late
FROM leads l
WHERE l.status_stage = 'open' AND l.next_follow_up < date(:today, '+1 day')
    AND l.next_follow_up GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
    AND (:business IS NULL OR l._business = :business)
ORDER BY l.next_follow_up, l.name
LIMIT 500
