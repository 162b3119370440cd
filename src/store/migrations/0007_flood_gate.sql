-- A sink with `hold_above` is held when too many changes come at once, until an operator releases it.

ALTER TABLE sinks ADD COLUMN gate TEXT NOT NULL DEFAULT 'open';
-- Changes up to this row of the log are not counted: they were there before the sink, or were released.
ALTER TABLE sinks ADD COLUMN released_to INTEGER NOT NULL DEFAULT 0;

UPDATE sinks SET released_to = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0);
