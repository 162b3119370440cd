-- standing.jobs = ["number"]
SELECT count(*) AS number
FROM _job_states
WHERE (stage < 'completed' OR stage > 'completed' OR stage IS NULL)
    AND instr('|' || :ready || '|', '|' || status || '|') > 0
    AND since BETWEEN '0' AND strftime('%Y-%m-%dT%H:%M:%S', :now, '-14 days')
