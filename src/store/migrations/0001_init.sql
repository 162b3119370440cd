-- The program's own tables. The six mirror tables are made by `mirror.rs`, since their columns grow.
-- `changes` and `gaps` are for everyone; the names of the others begin with `_`.

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
);
CREATE UNIQUE INDEX changes_version ON changes (route, record_id, version);

-- Intervals in which records may have been missed. `certainty` is 'gap' or 'suspect'; `state` is
-- 'open', 'partly_repaired', 'repaired' or 'accepted'. The log was searched for names up to `searched_seq`.
-- `before_id` is NULL until a record is shown that was created after `found_at`. The page after the gap shows `shown`
-- ids between the two, up to `shown_to`. It shows a part of an import if `imported_from` is not NULL: the oldest date of it.
-- `left_out_id` is the JSON text of the id of the one record that is shown and cannot be stored.
CREATE TABLE gaps (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    route          TEXT NOT NULL,
    business       TEXT NOT NULL,
    certainty      TEXT NOT NULL,
    found_at       TEXT NOT NULL,
    from_at        TEXT NOT NULL,
    to_at          TEXT NOT NULL,
    after_id       TEXT,
    before_id      TEXT,
    estimate       INTEGER,
    state          TEXT NOT NULL DEFAULT 'open',
    repaired       INTEGER NOT NULL DEFAULT 0,
    note           TEXT,
    searched_seq   INTEGER NOT NULL DEFAULT 0,
    searches       INTEGER NOT NULL DEFAULT 0,
    shown          INTEGER NOT NULL DEFAULT 0,
    shown_to       INTEGER,
    imported_from  TEXT,
    import_may_be_older INTEGER NOT NULL DEFAULT 0,
    left_out_id    TEXT
);
CREATE UNIQUE INDEX gaps_left_out ON gaps (route, left_out_id) WHERE left_out_id IS NOT NULL;
CREATE INDEX gaps_state ON gaps (state, route, business);
CREATE INDEX gaps_without_upper_id ON gaps (route, business) WHERE before_id IS NULL AND after_id IS NOT NULL;

-- Single values under a name: the random identity that event ids are derived from, the default business, and
-- the values that other modules have to find again after a restart.
CREATE TABLE _meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The state of each poller; `business` is '' for the workspace default. A record that was changed after the row
-- `head_seq` of the log proves nothing. Since `emptied_at` the route shows no record although it showed some
-- before. `served_business` is the business that answered, from `X-Business` of the last page. Every
-- record created after `complete_since` was seen, but for gaps; NULL: the first page held the whole list.
-- `list_profile` is what the pages have shown of how the list is ordered and how far apart its ids are.
-- Since `set_aside_at` requests by its name lead to another business, so that it is known by its own.
-- The last `older_pages` pages may have been older than the one before. The records in `waiting` were shown in an
-- earlier version, each with its row of the log; the next page that shows one decides whether it was changed back.
-- `vanishing` holds the records that may be gone from the list. The last page that was no gap and no suspect was
-- requested at `proven_at`.
-- `newest_gone` has the newest records that the pages do not show any more, with nothing newer in their place. At
-- `ids_reused_at` an id came with another record, as after the workspace was restored from a backup.
CREATE TABLE _pollers (
    route           TEXT NOT NULL,
    business        TEXT NOT NULL,
    first_polled_at TEXT NOT NULL,
    complete_since  TEXT,
    last_success_at TEXT NOT NULL,
    high_id         INTEGER,
    page_limit      INTEGER NOT NULL,
    head            TEXT NOT NULL,
    head_seq        INTEGER NOT NULL,
    learned         TEXT,
    emptied_at      TEXT,
    served_business TEXT,
    list_profile    TEXT NOT NULL,
    set_aside_at    TEXT,
    older_pages     INTEGER NOT NULL DEFAULT 0,
    waiting         TEXT NOT NULL DEFAULT '{}',
    vanishing       TEXT NOT NULL DEFAULT '{}',
    proven_at       TEXT,
    newest_gone     TEXT NOT NULL DEFAULT 'null',
    ids_reused_at   TEXT,
    PRIMARY KEY (route, business)
) WITHOUT ROWID;

-- What the workspace has shown of each record beside its text; the log does not say it. `business` showed it. It is on
-- the newest page of its poller if `is_on_page`: then it came there, or changed, at `last_seen_at`. The columns of the
-- mirror that begin with `_` follow from this.
CREATE TABLE _sightings (
    route         TEXT NOT NULL,
    record_id     TEXT NOT NULL,
    business      TEXT,
    first_seen_at TEXT NOT NULL,
    last_seen_at  TEXT NOT NULL,
    is_on_page    INTEGER NOT NULL,
    via           TEXT,
    vanished_at   TEXT,
    PRIMARY KEY (route, record_id)
) WITHOUT ROWID;

-- Records that are gone from their list and still count: they were too many in a day to be marked without a
-- question. `since` is when the first page was read that lacked one.
CREATE TABLE _withheld (
    route     TEXT NOT NULL,
    record_id TEXT NOT NULL,
    business  TEXT NOT NULL,
    since     TEXT NOT NULL,
    PRIMARY KEY (route, record_id)
) WITHOUT ROWID;

-- The routes whose lists hide records, as the operator said: nothing is marked there.
CREATE TABLE _hiding_routes (
    route TEXT PRIMARY KEY NOT NULL
) WITHOUT ROWID;

-- When the last request of each poller was sent, as far as a later process has to know, and whether what came of it
-- was handled. The workspace asked its route to wait until `retry_at`, when it responded with `retry_status` to this `account`.
CREATE TABLE _attempts (
    route        TEXT NOT NULL,
    business     TEXT NOT NULL,
    attempted_at TEXT NOT NULL,
    is_handled   INTEGER NOT NULL DEFAULT 0,
    account      TEXT,
    retry_at     TEXT,
    retry_status INTEGER,
    PRIMARY KEY (route, business)
) WITHOUT ROWID;

-- One row a sink: the changes up to `position` are in `_queue`, were acknowledged, or were not asked for.
-- Triggers keep `retrying` and `dead`. `skipped` counts changes before the place where the sink began, dead
-- letters that were dropped, and changes that were no longer in the log. A sink with `hold_above` is held when
-- too many changes come at once, until an operator releases it; those up to `released_to` are not counted.
CREATE TABLE _sinks (
    name            TEXT PRIMARY KEY NOT NULL,
    type            TEXT NOT NULL,
    state           TEXT NOT NULL,
    position        INTEGER NOT NULL,
    delivered       INTEGER NOT NULL DEFAULT 0,
    retrying        INTEGER NOT NULL DEFAULT 0,
    dead            INTEGER NOT NULL DEFAULT 0,
    filtered        INTEGER NOT NULL DEFAULT 0,
    skipped         INTEGER NOT NULL DEFAULT 0,
    gate            TEXT NOT NULL DEFAULT 'open',
    released_to     INTEGER NOT NULL DEFAULT 0,
    created_at      TEXT NOT NULL,
    last_success_at TEXT,
    last_error      TEXT,
    -- What the receiver said with it: not our words.
    last_error_quotation TEXT,
    -- The sink's own note about its last delivery.
    mark            TEXT,
    -- The destination was given the changes after one row of the log, and has acknowledged those up to another.
    given_after     INTEGER NOT NULL DEFAULT 0,
    given_upto      INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- What each sink is still owed: a row goes when the sink has acknowledged it. `seq` is a row of `changes`, in
-- lane 0 one of `_notices`. The lanes are 0 alerts and reports, 1 what a destination has lost, 2 changes,
-- 3 replay; lower ones go first. A row is 'ready', 'retrying' at `due_at`, 'waiting' for an earlier row of its
-- record, or 'dead'. A row that was tried and is to be tried again has a `due_at`, also while it is waiting.
-- `attempts` counts refusals, `faults` how often the destination failed with this row.
-- `only_if_newest` is 1 for what is sent only while the sink has no newer version of the record.
CREATE TABLE _queue (
    sink           TEXT NOT NULL,
    lane           INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    route          TEXT NOT NULL,
    record_id      TEXT NOT NULL,
    state          TEXT NOT NULL DEFAULT 'ready',
    attempts       INTEGER NOT NULL DEFAULT 0,
    faults         INTEGER NOT NULL DEFAULT 0,
    due_at         TEXT,
    last_error     TEXT,
    -- What the receiver said with it: not our words.
    last_error_quotation TEXT,
    since          TEXT NOT NULL,
    only_if_newest INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, lane, seq)
) WITHOUT ROWID;
CREATE INDEX _queue_next ON _queue (sink, state, lane, seq);
CREATE INDEX _queue_due ON _queue (sink, state, due_at);
CREATE INDEX _queue_record ON _queue (route, record_id, sink, state);
CREATE INDEX _queue_seq ON _queue (seq);

-- The order of a record, at one sink and in one lane: while a row that was tried is neither gone nor dead, every
-- later one is 'waiting'. These three triggers keep it, so that no statement can let a row pass another one.
-- Without a waiting row, each costs one look into the index of records, which `+` makes SQLite choose.
CREATE TRIGGER _queue_behind AFTER INSERT ON _queue
WHEN new.record_id <> '' AND new.state = 'ready' AND EXISTS (
    SELECT 1 FROM _queue INDEXED BY _queue_record
    WHERE route = new.route AND record_id = new.record_id AND sink = new.sink
        AND state IN ('retrying', 'waiting') AND +lane = new.lane AND +seq < new.seq
) BEGIN
    UPDATE _queue SET state = 'waiting'
    WHERE sink = new.sink AND lane = new.lane AND seq = new.seq;
END;
CREATE TRIGGER _queue_ordered AFTER UPDATE OF state, lane ON _queue
WHEN new.record_id <> '' AND (old.state <> new.state OR old.lane <> new.lane) BEGIN
    UPDATE _queue SET state = 'waiting'
    WHERE route = new.route AND record_id = new.record_id AND +sink = new.sink
        AND state IN ('ready', 'retrying') AND +lane = new.lane AND +seq > (
            SELECT min(seq) FROM _queue INDEXED BY _queue_record
            WHERE route = new.route AND record_id = new.record_id AND sink = new.sink
                AND state IN ('retrying', 'waiting') AND +lane = new.lane AND due_at IS NOT NULL
        );
    UPDATE _queue SET state = iif(due_at IS NULL, 'ready', 'retrying')
    WHERE route = new.route AND record_id = new.record_id AND +sink = new.sink
        AND state = 'waiting' AND +lane = new.lane AND +seq <= (
            SELECT coalesce(min(seq), 9223372036854775807) FROM _queue INDEXED BY _queue_record
            WHERE route = new.route AND record_id = new.record_id AND sink = new.sink
                AND state IN ('retrying', 'waiting') AND +lane = new.lane AND due_at IS NOT NULL
        );
END;
CREATE TRIGGER _queue_released AFTER DELETE ON _queue
WHEN old.record_id <> '' AND old.due_at IS NOT NULL BEGIN
    UPDATE _queue SET state = iif(due_at IS NULL, 'ready', 'retrying')
    WHERE route = old.route AND record_id = old.record_id AND +sink = old.sink
        AND state = 'waiting' AND +lane = old.lane AND +seq <= (
            SELECT coalesce(min(seq), 9223372036854775807) FROM _queue INDEXED BY _queue_record
            WHERE route = old.route AND record_id = old.record_id AND sink = old.sink
                AND state IN ('retrying', 'waiting') AND +lane = old.lane AND due_at IS NOT NULL
        );
END;

CREATE TRIGGER _queue_removed AFTER DELETE ON _queue WHEN old.lane = 2 AND old.state <> 'ready' BEGIN
    UPDATE _sinks SET retrying = retrying - (old.state <> 'dead'), dead = dead - (old.state = 'dead'),
        skipped = skipped + (old.state = 'dead')
    WHERE name = old.sink;
END;
CREATE TRIGGER _queue_added AFTER INSERT ON _queue WHEN new.lane = 2 AND new.state <> 'ready' BEGIN
    UPDATE _sinks SET retrying = retrying + (new.state <> 'dead'), dead = dead + (new.state = 'dead')
    WHERE name = new.sink;
END;
CREATE TRIGGER _queue_moved AFTER UPDATE OF state ON _queue WHEN new.lane = 2 AND old.state <> new.state BEGIN
    UPDATE _sinks SET
        retrying = retrying + (new.state IN ('retrying', 'waiting')) - (old.state IN ('retrying', 'waiting')),
        dead = dead + (new.state = 'dead') - (old.state = 'dead')
    WHERE name = new.sink;
END;

-- What a sink of the type `intake` made of a change in the other workspace: 'made', a 'duplicate' of a record that was
-- there, or 'parked' until its form is set up there. `made_id` is the id of the record there, `request_id` what its
-- people need to find the request.
CREATE TABLE _made (
    sink       TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    made_id    TEXT,
    request_id TEXT,
    at         TEXT NOT NULL,
    PRIMARY KEY (sink, event_id)
) WITHOUT ROWID;

-- Alerts and reports, each until every sink that it is for has taken it.
CREATE TABLE _notices (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    kind     TEXT NOT NULL,
    about    TEXT NOT NULL,
    version  INTEGER NOT NULL,
    made_at  TEXT NOT NULL,
    body     TEXT NOT NULL
);
CREATE TRIGGER _notices_taken AFTER DELETE ON _queue WHEN old.lane = 0 BEGIN
    DELETE FROM _notices WHERE id = old.seq
        AND NOT EXISTS (SELECT 1 FROM _queue WHERE seq = old.seq AND lane = 0);
END;

-- What is wrong now, for each sink that gets alerts; `reported_severity` is that of the last alert, 0 before it;
-- `reported_at` is when the last message about it was made.
CREATE TABLE _alerts (
    sink  TEXT NOT NULL,
    about TEXT NOT NULL,
    since TEXT NOT NULL,
    reported_severity INTEGER NOT NULL,
    reported_at TEXT NOT NULL,
    PRIMARY KEY (sink, about)
) WITHOUT ROWID;

-- One row a sink: the changes after `from_seq` up to `to_seq` that are sent to it again. Those up to
-- `position` are in `_queue`, were acknowledged, refused or left out. `state` is 'running', 'done' or 'cancelled'.
CREATE TABLE _replays (
    sink           TEXT PRIMARY KEY NOT NULL,
    id             TEXT NOT NULL,
    from_seq       INTEGER NOT NULL,
    to_seq         INTEGER NOT NULL,
    wanted         TEXT NOT NULL,
    rate           REAL NOT NULL,
    position       INTEGER NOT NULL,
    sent           INTEGER NOT NULL DEFAULT 0,
    refused        INTEGER NOT NULL DEFAULT 0,
    left_out       INTEGER NOT NULL DEFAULT 0,
    state          TEXT NOT NULL,
    last_error     TEXT,
    begun_at       TEXT NOT NULL,
    ended_at       TEXT
) WITHOUT ROWID;

-- The search terms of a backfill, so that it can continue where it was.
CREATE TABLE _backfill_terms (
    business TEXT NOT NULL,
    term     TEXT NOT NULL,
    returned INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    PRIMARY KEY (business, term)
) WITHOUT ROWID;

-- Field definitions as `integrations/custom-fields` showed them last.
CREATE TABLE _custom_fields (
    form_type  TEXT NOT NULL,
    business   TEXT NOT NULL,
    definition TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (form_type, business)
) WITHOUT ROWID;

-- How the records of a route name their job: `field` of the route has the value of `job_field` of jobs.
CREATE TABLE _links (
    route     TEXT PRIMARY KEY NOT NULL,
    field     TEXT NOT NULL,
    job_field TEXT NOT NULL
) WITHOUT ROWID;

-- The current state of each job by its newest source, which `source` names: 'job' or 'status change'. It was
-- open for `open_seconds` before `completed_at`. `last_change` is the highest id of its status changes, while
-- ids are integers. Of the payments in `paid`, the amounts of `paid_more` cannot be read but are positive, and those
-- of `paid_unsure` may be negative. If the job says that less was paid than its payments say, `paid` is the job's
-- word and `paid_upto` that of the payments. The time of `untimed_changes` cannot be read: one of them may be the
-- newest. `completed_by` is the person who completed it, where status changes say so. A job whose status means
-- cancelled is not completed, although its stage says so. `turns` is a JSON list of the times at which it was
-- completed and opened again in turns, cancelled ones too; null for one that cannot be read.
CREATE TABLE _job_states (
    id           TEXT PRIMARY KEY NOT NULL,
    status       TEXT,
    stage        TEXT,
    since        TEXT,
    is_since_seen INTEGER NOT NULL DEFAULT 0,
    source       TEXT NOT NULL,
    completed_at TEXT,
    open_seconds INTEGER,
    paid         REAL,
    paid_upto    REAL,
    paid_more    INTEGER NOT NULL DEFAULT 0,
    paid_unsure  INTEGER NOT NULL DEFAULT 0,
    untimed_changes INTEGER NOT NULL DEFAULT 0,
    last_change  INTEGER,
    completed_by,
    completed_again_at TEXT,
    is_cancelled INTEGER NOT NULL DEFAULT 0,
    turns        TEXT
) WITHOUT ROWID;
CREATE INDEX _job_states_stage ON _job_states (stage);
CREATE INDEX _job_states_completed ON _job_states (completed_at);
CREATE INDEX _job_states_untimed ON _job_states (id) WHERE untimed_changes > 0;
CREATE INDEX _job_states_again ON _job_states (id, completed_at, completed_again_at)
    WHERE completed_again_at IS NOT NULL;
CREATE INDEX _job_states_cancelled ON _job_states (id) WHERE is_cancelled;

-- The businesses that jobs were moved from. Their older status changes and payments stay there.
CREATE TABLE _job_moves (
    id       TEXT NOT NULL,
    business TEXT NOT NULL,
    PRIMARY KEY (id, business)
) WITHOUT ROWID;

-- Which column of a mirror table holds which field.
CREATE TABLE _columns (
    route    TEXT NOT NULL,
    field    TEXT NOT NULL,
    "column" TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (route, field)
) WITHOUT ROWID;
-- The fields that the contract promises, so that a query works before the first record arrives.
INSERT INTO _columns (route, field, "column", position) VALUES
    ('leads', 'name', 'name', 0),
    ('leads', 'status', 'status', 1),
    ('leads', 'status_stage', 'status_stage', 2),
    ('leads', 'created_at', 'created_at', 3);

-- What the values of the fields that reports calculate with have shown. `records` have a value that speaks for
-- `rule`, a way to read the ambiguous values of the field; since the row `found_seq` of the log they are read so.
-- The rule 'absent' counts the records stored last that lack the field, since one had it.
CREATE TABLE _field_facts (
    route     TEXT NOT NULL,
    field     TEXT NOT NULL,
    rule      TEXT NOT NULL,
    records   INTEGER NOT NULL,
    found_seq INTEGER,
    PRIMARY KEY (route, field, rule)
) WITHOUT ROWID;

-- The routes whose derived columns are read again from the log, in the order of the ids: `done` of about `total`
-- records, up to `after_id`.
CREATE TABLE _rereads (
    route    TEXT PRIMARY KEY NOT NULL,
    after_id TEXT NOT NULL,
    done     INTEGER NOT NULL,
    total    INTEGER NOT NULL
) WITHOUT ROWID;

-- The offsets of the shop's time zone from UTC, for plain SQL. A time counts from the row with the latest
-- `from_at` (UTC) that is not after it.
CREATE TABLE _time_zone_offsets (
    from_at TEXT PRIMARY KEY NOT NULL,
    seconds INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO _time_zone_offsets (from_at, seconds) VALUES ('0001-01-01T00:00:00', 0);

-- It has no rows: its columns give those of the views `report_*` a type.
CREATE TABLE _types (
    i INTEGER,
    r REAL,
    t TEXT
);
