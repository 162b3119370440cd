-- standing.jobs = ["number"]
SELECT count(*) AS number
FROM _job_states
WHERE (stage < 'completed' OR stage > 'completed' OR stage IS NULL)
    AND instr('|' || :ready || '|', '|' || status || '|') > 0
