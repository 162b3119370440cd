-- # A lead that left the newest page may be in another state than it was seen in last.
-- needs.leads = ["next_follow_up", "status_stage"]
-- standing.leads = ["number"]
SELECT count(*) AS number,
    (
        SELECT count(*) FROM leads u
        WHERE u._unreadable IS NOT NULL AND u.status_stage IS NOT 'completed'
            AND EXISTS (SELECT 1 FROM json_each(u._unreadable) WHERE value = 'next_follow_up')
    ) AS _more_number,
    EXISTS (SELECT 1 FROM leads l
        WHERE l.status_stage IS NOT 'completed' AND l._last_seen_at IS NOT NULL) AS _unsure_number
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l._next_follow_up <= :today
-- note
SELECT printf('the next_follow_up of %,d open %s cannot be read: lead %s', leads,
    iif(leads = 1, 'lead', 'leads'), id)
FROM (
    SELECT count(*) AS leads, max(l._seq), l.id
    FROM leads l
    WHERE l._unreadable IS NOT NULL AND l.status_stage IS NOT 'completed'
        AND EXISTS (SELECT 1 FROM json_each(l._unreadable) WHERE value = 'next_follow_up')
)
WHERE leads > 0
