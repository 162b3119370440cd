-- Since when the next change of a replay fails; a replay that gets nowhere for too long is given up, and
-- its `state` is then 'failed'.
ALTER TABLE _replays ADD COLUMN failing_since TEXT;
