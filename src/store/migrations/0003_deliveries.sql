-- Deliveries cost the same however many are parked: counters in the sink's row, kept by triggers,
-- and one index for each question that a delivery asks.

ALTER TABLE sinks ADD COLUMN retrying INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sinks ADD COLUMN dead INTEGER NOT NULL DEFAULT 0;

-- A `retrying` row always has a time, and no other row has one.
UPDATE deliveries SET next_attempt_at = since WHERE state = 'retrying' AND next_attempt_at IS NULL;
UPDATE deliveries SET next_attempt_at = NULL WHERE state <> 'retrying';

UPDATE sinks SET
    retrying = (SELECT count(*) FROM deliveries d WHERE d.sink = sinks.name AND d.state <> 'dead'),
    dead = (SELECT count(*) FROM deliveries d WHERE d.sink = sinks.name AND d.state = 'dead');

DROP INDEX deliveries_open;
DROP INDEX deliveries_dead;
DROP INDEX deliveries_record;
CREATE INDEX deliveries_state ON deliveries (sink, state, next_attempt_at);
CREATE INDEX deliveries_record ON deliveries (sink, route, record_id, state);

CREATE TRIGGER deliveries_added AFTER INSERT ON deliveries BEGIN
    UPDATE sinks SET retrying = retrying + (new.state <> 'dead'), dead = dead + (new.state = 'dead')
    WHERE name = new.sink;
END;
CREATE TRIGGER deliveries_removed AFTER DELETE ON deliveries BEGIN
    UPDATE sinks SET retrying = retrying - (old.state <> 'dead'), dead = dead - (old.state = 'dead')
    WHERE name = old.sink;
END;
CREATE TRIGGER deliveries_moved AFTER UPDATE OF state ON deliveries WHEN old.state <> new.state BEGIN
    UPDATE sinks SET retrying = retrying + (new.state <> 'dead') - (old.state <> 'dead'),
        dead = dead + (new.state = 'dead') - (old.state = 'dead')
    WHERE name = new.sink;
END;
