-- What a sink gets beside new changes: older ones once more, and notices, which are in no log.

-- 1: a revived dead letter, delivered only while the sink has no newer version of its record.
ALTER TABLE deliveries ADD COLUMN only_if_newest INTEGER NOT NULL DEFAULT 0;

-- What this program says by itself, until the sink has taken it.
CREATE TABLE _notices (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    sink            TEXT NOT NULL,
    event_id        TEXT NOT NULL,
    kind            TEXT NOT NULL,
    about           TEXT NOT NULL,
    version         INTEGER NOT NULL,
    made_at         TEXT NOT NULL,
    body            TEXT NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at TEXT,
    last_error      TEXT
) STRICT;
CREATE UNIQUE INDEX _notices_event ON _notices (sink, event_id);

-- What is wrong now, for each sink that is told; `told` is how bad it was then, 0 before.
CREATE TABLE _alerts (
    sink    TEXT NOT NULL,
    about   TEXT NOT NULL,
    since   TEXT NOT NULL,
    told    INTEGER NOT NULL,
    PRIMARY KEY (sink, about)
) STRICT, WITHOUT ROWID;

-- One row a sink: the changes after `from_seq` up to `to_seq` that it is given once more. Those up to
-- `position` were handed over. `state` is 'running', 'done' or 'cancelled'.
CREATE TABLE _replays (
    sink       TEXT PRIMARY KEY NOT NULL,
    id         TEXT NOT NULL,
    from_seq   INTEGER NOT NULL,
    to_seq     INTEGER NOT NULL,
    wanted     TEXT NOT NULL,
    rate       REAL NOT NULL,
    position   INTEGER NOT NULL,
    sent       INTEGER NOT NULL DEFAULT 0,
    refused    INTEGER NOT NULL DEFAULT 0,
    left_out   INTEGER NOT NULL DEFAULT 0,
    state      TEXT NOT NULL,
    last_error TEXT,
    begun_at   TEXT NOT NULL,
    ended_at   TEXT
) STRICT, WITHOUT ROWID;
