-- title = "Follow-ups due"
-- about = "The open leads whose next follow-up is due today or was due before, the last due first."
-- is_list = true
-- needs.leads = ["name", "status_stage", "next_follow_up"]
SELECT l.id AS lead_id, l.name, coalesce(nullif(l.status, ''), '(no status)') AS status, l._next_follow_up AS due,
    CAST(julianday(:today) - julianday(l._next_follow_up) AS INTEGER) AS days_late
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l._next_follow_up <= :today
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
ORDER BY l._next_follow_up DESC, l.name
-- note
SELECT printf('the state of %,d of %,d leads was not seen since they left the newest page; the oldest was last seen on %s (UTC)',
    count(l._last_seen_at), count(*), substr(min(l._last_seen_at), 1, 10))
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l._next_follow_up <= :today
    AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
HAVING count(l._last_seen_at) > 0
-- note
SELECT printf('%,d open %s a next_follow_up that cannot be read and %s not in this list: lead %s', leads,
    iif(leads = 1, 'lead has', 'leads have'), iif(leads = 1, 'is', 'are'), id)
FROM (
    SELECT count(*) AS leads, max(l._seq), l.id
    FROM leads l
    WHERE l._unreadable IS NOT NULL AND l.status_stage IS NOT 'completed'
        AND EXISTS (SELECT 1 FROM json_each(l._unreadable) WHERE value = 'next_follow_up')
        AND (:business IS NULL OR coalesce(l._business, :default_business) = :business)
)
WHERE leads > 0
