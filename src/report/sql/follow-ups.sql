-- title = "Follow-ups due"
-- about = "The open leads whose next follow-up is due today or was due before, the last due first."
-- is_list = true
-- needs.leads = ["name", "status_stage", "next_follow_up"]
SELECT l.id AS lead_id, l.name, coalesce(l.status, '(no status)') AS status, l.next_follow_up AS due,
    CAST(julianday(:today) - julianday(substr(l.next_follow_up, 1, 10)) AS INTEGER) AS days_late
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l.next_follow_up < date(:today, '+1 day')
    AND l.next_follow_up GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
ORDER BY l.next_follow_up DESC, l.name
-- note
SELECT printf('the state of %,d of %,d leads was not seen since they left the newest page; the oldest was last seen on %s (UTC)',
    count(l._last_seen_at), count(*), substr(min(l._last_seen_at), 1, 10))
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l.next_follow_up < date(:today, '+1 day')
    AND l.next_follow_up GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
HAVING count(l._last_seen_at) > 0
