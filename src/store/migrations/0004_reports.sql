-- What reports need: the workspace's time zone for plain SQL, and a description of everything here.

-- The offsets of the workspace's time zone from UTC. A time counts from the row with the latest
-- `from_at` (UTC) that is not after it.
CREATE TABLE _time_zone_offsets (
    from_at TEXT PRIMARY KEY NOT NULL,
    seconds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO _time_zone_offsets (from_at, seconds) VALUES ('0001-01-01T00:00:00', 0);

-- What each table, view and column holds; `column_name` is '' for a table or a view itself.
CREATE TABLE _about (
    name        TEXT NOT NULL,
    column_name TEXT NOT NULL,
    about       TEXT NOT NULL,
    PRIMARY KEY (name, column_name)
) STRICT, WITHOUT ROWID;
