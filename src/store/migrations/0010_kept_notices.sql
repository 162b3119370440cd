-- A notice that the sink refused for good is kept: a reload, or an operator, has it handed over again.
ALTER TABLE _notices ADD COLUMN given_up_at TEXT;
-- How many notices of a sink wait or were refused, and why, without reading their bodies.
CREATE INDEX _notices_of_sink ON _notices (sink, given_up_at, last_error);
-- Which of them are due, likewise.
CREATE INDEX _notices_due ON _notices (sink, given_up_at, next_attempt_at);

-- For how long the daemon has run since `failing_since`, which held both until now (`TIME/PT90S`). A replay
-- that fails during the update begins to count anew.
ALTER TABLE _replays ADD COLUMN failing_for_ms INTEGER NOT NULL DEFAULT 0;
UPDATE _replays SET failing_since = substr(failing_since, 1, instr(failing_since || '/', '/') - 1);
