-- # The statuses that repairs were given in the last 90 days: of one of these a count of none says something.
-- needs.job_status_changes = ["created_at", "status"]
SELECT DISTINCT status FROM job_status_changes
WHERE _created_at >= strftime('%Y-%m-%dT%H:%M:%S', :now, '-90 days')
