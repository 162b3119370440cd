-- Each stored change is accounted for at each sink: delivered, still to come, parked, dead, filtered
-- or skipped.

-- Changes that the sink did not ask for.
ALTER TABLE sinks ADD COLUMN filtered INTEGER NOT NULL DEFAULT 0;
-- Changes before the place where the sink began, dead letters that were dropped, and changes that
-- were no longer in the log.
ALTER TABLE sinks ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;

-- Up to now nothing told these two apart.
UPDATE sinks SET filtered = position - delivered - retrying - dead;

CREATE TRIGGER deliveries_dropped AFTER DELETE ON deliveries WHEN old.state = 'dead' BEGIN
    UPDATE sinks SET skipped = skipped + 1 WHERE name = old.sink;
END;
