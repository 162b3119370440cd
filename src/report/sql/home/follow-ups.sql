-- # A lead that left the newest page may be in another state than it was seen in last.
-- needs.leads = ["next_follow_up", "status_stage"]
-- standing.leads = ["number"]
SELECT count(*) AS number, EXISTS (SELECT 1 FROM leads l
    WHERE l.status_stage IS NOT 'completed' AND l._last_seen_at IS NOT NULL) AS _unsure_number
FROM leads l
WHERE l.status_stage IS NOT 'completed' AND l.next_follow_up < date(:today, '+1 day')
    AND l.next_follow_up GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
