-- The store's own tables. The six mirror tables are made by `mirror.rs`, since their columns grow.

-- Facts about this file: the random identity that event ids are derived from.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The append-only log. `record_id` is '' for a gap, whose number is then `version`.
CREATE TABLE changes (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id    TEXT NOT NULL,
    route       TEXT NOT NULL,
    record_id   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    observed_at TEXT NOT NULL,
    business    TEXT,
    body        TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX changes_version ON changes (route, record_id, version);

-- What each poller knows; `business` is '' for the workspace default.
CREATE TABLE pollers (
    route           TEXT NOT NULL,
    business        TEXT NOT NULL,
    first_polled_at TEXT NOT NULL,
    last_success_at TEXT NOT NULL,
    last_change_at  TEXT,
    high_id         INTEGER,
    page_limit      INTEGER NOT NULL,
    head            TEXT NOT NULL,
    learned         TEXT,
    PRIMARY KEY (route, business)
) STRICT, WITHOUT ROWID;

-- Runs of polls with the same outcome, newest last; pruned.
CREATE TABLE polls (
    id         INTEGER PRIMARY KEY,
    route      TEXT NOT NULL,
    business   TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    detail     TEXT,
    polls      INTEGER NOT NULL,
    from_at    TEXT NOT NULL,
    to_at      TEXT NOT NULL,
    records    INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    overlap    INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    remaining  INTEGER
) STRICT;
CREATE INDEX polls_to_at ON polls (to_at);

-- Intervals in which records may have been missed. `certainty` is 'gap' or 'suspect'; `state` is
-- 'open', 'partly_repaired', 'repaired' or 'accepted'. The log was searched for names up to `searched_seq`.
CREATE TABLE gaps (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    route      TEXT NOT NULL,
    business   TEXT NOT NULL,
    certainty  TEXT NOT NULL,
    found_at   TEXT NOT NULL,
    from_at    TEXT NOT NULL,
    to_at      TEXT NOT NULL,
    after_id   TEXT,
    before_id  TEXT,
    estimate   INTEGER,
    estimate_error INTEGER,
    state      TEXT NOT NULL DEFAULT 'open',
    repaired   INTEGER NOT NULL DEFAULT 0,
    note       TEXT,
    searched_seq INTEGER NOT NULL DEFAULT 0,
    searches   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX gaps_state ON gaps (state, route, business);

-- One row a sink: everything up to `position` is delivered, filtered out, or in `deliveries`.
CREATE TABLE sinks (
    name            TEXT PRIMARY KEY NOT NULL,
    type            TEXT NOT NULL,
    state           TEXT NOT NULL,
    position        INTEGER NOT NULL,
    delivered       INTEGER NOT NULL DEFAULT 0,
    created_at      TEXT NOT NULL,
    last_success_at TEXT,
    last_error      TEXT,
    last_error_at   TEXT
) STRICT, WITHOUT ROWID;

-- Exceptions only: what a sink is retrying, what waits behind it, what is dead.
CREATE TABLE deliveries (
    sink            TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    route           TEXT NOT NULL,
    record_id       TEXT NOT NULL,
    state           TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    next_attempt_at TEXT,
    last_error      TEXT,
    since           TEXT NOT NULL,
    PRIMARY KEY (sink, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_seq ON deliveries (seq);
CREATE INDEX deliveries_open ON deliveries (sink, seq) WHERE state <> 'dead';
CREATE INDEX deliveries_dead ON deliveries (sink) WHERE state = 'dead';
CREATE INDEX deliveries_record ON deliveries (sink, route, record_id);

-- The search terms a backfill has asked, so that it can go on where it was.
CREATE TABLE backfill_terms (
    business TEXT NOT NULL,
    term     TEXT NOT NULL,
    returned INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    PRIMARY KEY (business, term)
) STRICT, WITHOUT ROWID;

-- Field definitions as `integrations/custom-fields` showed them last.
CREATE TABLE custom_fields (
    form_type  TEXT NOT NULL,
    business   TEXT NOT NULL,
    definition TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (form_type, business)
) STRICT, WITHOUT ROWID;

-- Which column of a mirror table holds which field.
CREATE TABLE columns (
    route    TEXT NOT NULL,
    field    TEXT NOT NULL,
    "column" TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (route, field)
) STRICT, WITHOUT ROWID;
