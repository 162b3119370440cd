//! The table `_queue`: what each sink is still owed. A row goes when the sink has acknowledged it.
//!
//! A row is `ready`, `retrying` at a time, `waiting` for an earlier row of its record, or `dead`.
//! Which rows wait is decided by triggers of the table alone, so that no statement here can let a
//! version of a record pass an earlier one. No statement here costs more when other rows of the
//! same sink are retried or dead: each names its index. Triggers keep the counters in `_sinks`.
//!
//! The lanes are 0 notices, 1 what a destination has lost, 2 changes, 3 a replay.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, named_params};
use shopmirror_core::record::Change;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::operator::Operator;
use crate::store::outbox::made;
use crate::store::outbox::replays;
use crate::store::outbox::rows::{
    Feed, LatestDue, QueueLane, QueueRow, RemovalReason, RowState, Settlement,
};
use crate::store::outbox::sinks::{self, SinkRow};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The first rows that are ready, in the order in which they go.
const READY: &str = "
    SELECT *
    FROM _queue INDEXED BY _queue_next
    WHERE sink = :sink
        AND state = 'ready'
        AND lane <= :lane
    ORDER BY lane, seq
    LIMIT :most
";

/// The rows that are tried again by now, those first that are due longest.
const DUE: &str = "
    SELECT *
    FROM _queue INDEXED BY _queue_due
    WHERE sink = :sink
        AND state = 'retrying'
        AND due_at <= :now
        AND lane <= :lane
    ORDER BY due_at
    LIMIT :most
";

/// The next row after these that is tried again.
const NEXT_DUE: &str = "
    SELECT *
    FROM _queue INDEXED BY _queue_due
    WHERE sink = :sink
        AND state = 'retrying'
        AND due_at > :now
    ORDER BY due_at
    LIMIT 1
";

/// How many rows of a lane are ready, at most 10,000.
const COUNT_READY: &str = "
    SELECT count(*)
    FROM (
        SELECT 1
        FROM _queue INDEXED BY _queue_next
        WHERE sink = :sink
            AND state = 'ready'
            AND lane = :lane
        LIMIT 10000
    )
";

/// How many rows of a lane are not dead.
const COUNT_OWED: &str = "
    SELECT count(*)
    FROM _queue INDEXED BY _queue_next
    WHERE sink = :sink
        AND state IN ('ready', 'retrying', 'waiting')
        AND lane = :lane
";

/// The bytes of a change; an update is sent with the state before, which is taken for as long.
const CHANGE_BYTES: &str = "
    SELECT octet_length(body) * (1 + (kind = 'updated'))
    FROM changes
    WHERE seq = :seq
";

/// The bytes of a notice.
const NOTICE_BYTES: &str = "
    SELECT octet_length(body)
    FROM _notices
    WHERE id = :seq
";

/// Queues changes, many at a time. No version of a forgotten record is queued but that it was
/// forgotten, and no change twice.
const INSERT: &str = "
    INSERT INTO _queue (sink, lane, seq, route, record_id, since, only_if_newest)
    SELECT :sink, :lane, seq, route, record_id, :at, :only_if_newest
    FROM changes c
    WHERE seq IN (SELECT value FROM json_each(:seqs))
        AND (record_id = '' OR kind = 'forgotten' OR NOT EXISTS (
            SELECT 1
            FROM changes f
            WHERE f.route = c.route
                AND f.record_id = c.record_id
                AND f.kind = 'forgotten'
        ))
    ON CONFLICT DO NOTHING
";

/// Removes rows of one lane, many at a time.
const DELETE: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = :lane
        AND seq IN (SELECT value FROM json_each(:seqs))
";

/// Keeps a row with what is new about it. What a destination has lost and now refuses is owed like
/// any other change.
const KEEP: &str = "
    UPDATE _queue
    SET lane = CASE lane WHEN 1 THEN 2 ELSE lane END,
        state = :state,
        attempts = :attempts,
        faults = :faults,
        due_at = :due_at,
        last_error = :last_error,
        last_error_quotation = :last_error_quotation
    WHERE sink = :sink
        AND lane = :lane
        AND seq = :seq
";

/// Whether anything that a destination has lost is queued: a statement that finds no row still
/// takes the write lock.
const ANY_REFILL: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _queue
        WHERE sink = :sink
            AND lane = 1
    )
";

/// Removes what a destination has lost from the queue.
const DELETE_REFILL: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = 1
";

/// Whether `RETRY_FAULTED` would find a row.
const ANY_FAULTED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _queue INDEXED BY _queue_next
        WHERE sink = :sink
            AND state IN ('retrying', 'waiting')
            AND due_at IS NOT NULL
            AND (attempts = 0 OR due_at > json_extract(
                iif(faults = 0, :latest_refused, :latest_failed),
                '$[' || min(attempts, :last) || ']'
            ))
    )
";

/// Has rows tried again at once that only the destination failed with, and those that are planned
/// for a time which is later than that of their number of attempts: the clock was set back. They
/// stay `retrying`, so that no later row of their records passes them.
const RETRY_FAULTED: &str = "
    UPDATE _queue INDEXED BY _queue_next
    SET due_at = ''
    WHERE sink = :sink
        AND state IN ('retrying', 'waiting')
        AND due_at IS NOT NULL
        AND (attempts = 0 OR due_at > json_extract(
            iif(faults = 0, :latest_refused, :latest_failed),
            '$[' || min(attempts, :last) || ']'
        ))
";

/// Counts the changes of a record as skipped at each sink that is owed them.
const COUNT_SKIPPED: &str = "
    UPDATE _sinks
    SET skipped = skipped + (
        SELECT count(*)
        FROM _queue INDEXED BY _queue_record
        WHERE route = :route
            AND record_id = :record_id
            AND sink = _sinks.name
            AND state <> 'dead'
            AND lane = 2
    )
";

/// Counts the changes of a record as left out of each replay that has them queued.
const COUNT_LEFT_OUT: &str = "
    UPDATE _replays
    SET left_out = left_out + (
        SELECT count(*)
        FROM _queue INDEXED BY _queue_record
        WHERE route = :route
            AND record_id = :record_id
            AND sink = _replays.sink
            AND lane = 3
    )
";

/// Removes the changes of a record at every sink.
const DELETE_RECORD: &str = "
    DELETE FROM _queue
    WHERE route = :route
        AND record_id = :record_id
        AND lane > 0
";

/// Whether a sink is owed a change, or refused it for good.
const QUEUED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _queue
        WHERE sink = :sink
            AND lane = 2
            AND seq = :seq
    )
";

/// The oldest changes of a sink in one state.
const EXCEPTIONS: &str = "
    SELECT *
    FROM _queue INDEXED BY _queue_next
    WHERE sink = :sink
        AND state = :state
        AND lane = 2
    ORDER BY seq
    LIMIT :most
";

/// Whether an earlier change of a record is to be tried again, or waits for such a one.
const ANY_TRIED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _queue INDEXED BY _queue_record
        WHERE route = :route
            AND record_id = :record_id
            AND sink = :sink
            AND state IN ('retrying', 'waiting')
            AND lane = 2
            AND seq < :seq
    )
";

/// A change that a sink refused, or that waits for such a one.
const EXCEPTION: &str = "
    SELECT *
    FROM _queue
    WHERE sink = :sink
        AND lane = 2
        AND seq = :seq
        AND state <> 'ready'
";

/// Drops a number of dead letters, all that there are or one.
const DROP_DEAD: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = 2
        AND seq IN (
            SELECT seq
            FROM _queue INDEXED BY _queue_next
            WHERE sink = :sink
                AND state = 'dead'
                AND lane = 2
                AND (:seq IS NULL OR seq = :seq)
            LIMIT 10000
        )
";

/// Has a refused change sent again now, with all its attempts. A dead one may be older than what the
/// sink has; one that is to be tried again is newer. It is `retrying` and due, unless an earlier row
/// of its record is: then it waits.
const RESEND: &str = "
    UPDATE _queue
    SET attempts = 0,
        faults = 0,
        due_at = '',
        only_if_newest = CASE WHEN state = 'dead' THEN :only_if_newest ELSE only_if_newest END,
        state = 'retrying'
    WHERE sink = :sink
        AND lane = 2
        AND seq = :seq
        AND (state = 'dead' OR due_at IS NOT NULL)
";

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Numbers as a parameter of a statement, which reads them with `json_each`.
fn list(seqs: &[i64]) -> String {
    serde_json::to_string(seqs).expect("numbers are JSON")
}

impl Reader {
    /// Up to `limit` rows of a sink that are ready, in lanes up to this one, and as many that are
    /// due again, in the order in which they go; and whether there may be more.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_rows(
        &self,
        sink: &str,
        lane: QueueLane,
        now: &str,
        limit: usize,
    ) -> Result<(Vec<QueueRow>, bool), StoreError> {
        // One snapshot: what an operator changes between the two reads would let a row pass.
        let snapshot = self.connection.unchecked_transaction()?;
        let most = count(limit);
        let ready: Vec<QueueRow> = snapshot.rows(
            READY,
            named_params! {":sink": sink, ":lane": lane, ":most": most},
        )?;
        let due: Vec<QueueRow> = snapshot.rows(
            DUE,
            named_params! {":sink": sink, ":now": now, ":lane": lane, ":most": most},
        )?;
        drop(snapshot);
        let is_cut = ready.len() >= limit || due.len() >= limit;
        let mut rows = [ready, due].concat();
        rows.sort_by_key(|row| (row.faults, row.lane, row.seq));
        Ok((rows, is_cut))
    }

    /// The next row of a sink that becomes due after `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_due(&self, sink: &str, now: &str) -> Result<Option<QueueRow>, StoreError> {
        Ok(self
            .connection
            .row(NEXT_DUE, named_params! {":sink": sink, ":now": now})?)
    }

    /// How many rows of this lane are ready for a sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn ready_rows(&self, sink: &str, lane: QueueLane) -> Result<i64, StoreError> {
        Ok(self
            .connection
            .value(COUNT_READY, named_params! {":sink": sink, ":lane": lane})?)
    }

    /// How many rows of this lane a sink is owed, those that it refused among them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn owed_rows(&self, sink: &str, lane: QueueLane) -> Result<i64, StoreError> {
        Ok(self
            .connection
            .value(COUNT_OWED, named_params! {":sink": sink, ":lane": lane})?)
    }

    /// How many rows of the log a sink that is no longer configured was not given: those after its
    /// position, and those in its queue that are not dead.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn undelivered(&self, sink: &SinkRow) -> Result<i64, StoreError> {
        let unread = (self.last_seq()? - sink.position).max(0);
        Ok(unread + self.owed_rows(&sink.name, QueueLane::Change)?)
    }

    /// The bytes of the records of a row; `None` if it is no longer there. An update is sent with
    /// the state before, which is taken for as long.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn weight(&self, lane: QueueLane, seq: i64) -> Result<Option<usize>, StoreError> {
        let sql = if lane == QueueLane::Notice {
            NOTICE_BYTES
        } else {
            CHANGE_BYTES
        };
        let bytes: Option<i64> = self
            .connection
            .value(sql, named_params! {":seq": seq})
            .optional()?;
        Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or_default()))
    }

    /// Whether a change has to wait for an earlier version of its record at a sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_held_up(&self, sink: &str, change: &Change) -> Result<bool, StoreError> {
        let Some(record_id) = &change.record_id else {
            return Ok(false);
        };
        let values = named_params! {
            ":sink": sink,
            ":route": change.route.as_str(),
            ":record_id": record_id,
            ":seq": change.seq,
        };
        Ok(self.connection.value(ANY_TRIED, values)?)
    }

    /// Whether a sink is still owed this change, or refused it for good.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_queued(&self, sink: &str, seq: i64) -> Result<bool, StoreError> {
        Ok(self
            .connection
            .value(QUEUED, named_params! {":sink": sink, ":seq": seq})?)
    }

    /// Up to `limit` changes in each of these states that a sink has refused or that wait for such
    /// a one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn exceptions(
        &self,
        sink: &str,
        states: &[RowState],
        limit: usize,
    ) -> Result<Vec<QueueRow>, StoreError> {
        let mut found = Vec::new();
        for state in states {
            let rows: Vec<QueueRow> = self.connection.rows(
                EXCEPTIONS,
                named_params! {":sink": sink, ":state": state, ":most": count(limit)},
            )?;
            found.extend(rows);
        }
        Ok(found)
    }

    /// One such change, by its number in the log.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn exception(&self, sink: &str, seq: i64) -> Result<Option<QueueRow>, StoreError> {
        Ok(self
            .connection
            .row(EXCEPTION, named_params! {":sink": sink, ":seq": seq})?)
    }
}

impl Store {
    /// Queues rows for a sink and moves its position; returns the sink's row.
    ///
    /// # Errors
    /// Nothing is queued.
    pub async fn feed(&self, sink: String, feed: Feed) -> Result<Option<SinkRow>, StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            if insert(&tx, &sink, &feed)? {
                tx.commit()?;
            } else {
                tx.rollback()?;
            }
            Ok(sinks::find(&writer.connection, &sink)?)
        })
        .await
    }

    /// Removes what was queued because the destination had lost it: it reports again what it lacks.
    /// Costs no write if there is nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn clear_refill(&self, sink: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            let values = named_params! {":sink": sink};
            if connection.value(ANY_REFILL, values)? {
                connection.run(DELETE_REFILL, values)?;
            }
            Ok(())
        })
        .await
    }

    /// Has everything tried again at once that a failing destination was given, and what is planned
    /// for later than the `latest` time of its number of attempts, which it was while the clock was
    /// wrong. Costs no write if there is nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn retry_faulted(&self, sink: String, latest: LatestDue) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            let last = latest.refused.len().saturating_sub(1);
            let texts = |times: &[String]| serde_json::to_string(times).expect("texts are JSON");
            let values = named_params! {
                ":sink": sink,
                ":latest_refused": texts(&latest.refused),
                ":latest_failed": texts(&latest.failed),
                ":last": count(last),
            };
            if connection.value(ANY_FAULTED, values)? {
                connection.run(RETRY_FAULTED, values)?;
            }
            Ok(())
        })
        .await
    }

    /// Moves the positions of sinks over changes that they do not want. A position that is another
    /// one meanwhile stays.
    ///
    /// # Errors
    /// None is moved.
    pub async fn advance_sinks(&self, moves: Vec<(String, Feed)>) -> Result<(), StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            for (sink, feed) in &moves {
                sinks::advance(&tx, sink, feed, 0)?;
            }
            Ok(tx.commit()?)
        })
        .await
    }

    /// Saves what became of rows; returns the sink's row.
    ///
    /// # Errors
    /// Nothing is saved; the rows are sent again under the same event ids.
    pub async fn settle(
        &self,
        sink: String,
        settlement: Settlement,
        at: String,
    ) -> Result<Option<SinkRow>, StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            save(&tx, &sink, &settlement, &at)?;
            tx.commit()?;
            Ok(sinks::find(&writer.connection, &sink)?)
        })
        .await
    }
}

/// Queues rows; false if the position is another one meanwhile.
fn insert(tx: &Connection, sink: &str, feed: &Feed) -> rusqlite::Result<bool> {
    let mut absent = count(feed.rows.len());
    if !feed.rows.is_empty() {
        let values = named_params! {
            ":sink": sink,
            ":lane": feed.lane,
            ":seqs": list(&feed.rows),
            ":at": feed.at,
            ":only_if_newest": feed.only_if_newest,
        };
        absent -= count(tx.run(INSERT, values)?);
    }
    match feed.lane {
        QueueLane::Change => sinks::advance(tx, sink, feed, absent),
        QueueLane::Replay => replays::advance(tx, sink, feed, absent),
        QueueLane::Notice | QueueLane::Refill => Ok(true),
    }
}

/// A row that is no longer there belonged to a record that was forgotten meanwhile, and was counted
/// then.
fn save(tx: &Connection, sink: &str, settlement: &Settlement, at: &str) -> rusqlite::Result<()> {
    let direct = feed_late(tx, sink, settlement)?;
    let gone = delete(tx, sink, &settlement.gone, &direct)?;
    let gone = |lane, why| gone.get(&(lane, why)).copied().unwrap_or(0);
    let mut delivered = gone(QueueLane::Change, RemovalReason::Delivered);
    let left_out = gone(QueueLane::Change, RemovalReason::Refused)
        + gone(QueueLane::Change, RemovalReason::LeftOut);
    for row in &settlement.kept {
        let values = named_params! {
            ":sink": sink,
            ":lane": row.lane,
            ":seq": row.seq,
            ":state": row.state,
            ":attempts": row.attempts,
            ":faults": row.faults,
            ":due_at": row.due_at,
            ":last_error": row.last_error,
            ":last_error_quotation": row.last_error_quotation,
        };
        let is_there = tx.run(KEEP, values)? > 0;
        // What a destination has lost and now refuses counts no longer as delivered.
        if is_there && row.lane == QueueLane::Refill {
            delivered -= 1;
        }
    }
    for record in &settlement.made {
        made::insert(tx, sink, record, at)?;
    }
    sinks::count(tx, sink, (delivered, left_out), settlement, at)?;
    let replayed = [
        RemovalReason::Delivered,
        RemovalReason::Refused,
        RemovalReason::LeftOut,
    ]
    .map(|why| gone(QueueLane::Replay, why));
    replays::count(tx, sink, replayed, settlement.last_error.as_deref(), at)?;
    match settlement.acknowledged {
        Some(acknowledged) => sinks::set_acknowledged(tx, sink, acknowledged),
        None => Ok(()),
    }
}

/// The changes that were sent without a row of the queue.
enum Direct {
    /// None.
    None,
    /// Those after this row of the log. They count when the position passes them.
    After(i64),
    /// Those after this row of the log. An operator has moved the position, and they were counted
    /// then.
    Counted(i64),
}

/// Moves the position over changes that were sent without a row of the queue, and queues those that
/// are not done.
fn feed_late(tx: &Connection, sink: &str, settlement: &Settlement) -> rusqlite::Result<Direct> {
    let Some(feed) = &settlement.fed else {
        return Ok(Direct::None);
    };
    let row = sinks::find(tx, sink)?;
    if row.map(|row| row.position) != Some(feed.after) {
        return Ok(Direct::Counted(feed.after));
    }
    insert(tx, sink, feed)?;
    Ok(Direct::After(feed.after))
}

/// Removes rows from the queue; returns how many of each lane go, by why they do.
fn delete(
    tx: &Connection,
    sink: &str,
    rows: &[(QueueRow, RemovalReason)],
    direct: &Direct,
) -> rusqlite::Result<HashMap<(QueueLane, RemovalReason), i64>> {
    let mut removed: HashMap<(QueueLane, RemovalReason), i64> = HashMap::new();
    let mut seqs: HashMap<(QueueLane, RemovalReason), Vec<i64>> = HashMap::new();
    for (row, why) in rows {
        let key = (row.lane, *why);
        match direct {
            Direct::After(position) if row.lane == QueueLane::Change && row.seq > *position => {
                *removed.entry(key).or_default() += 1;
            }
            Direct::Counted(position) if row.lane == QueueLane::Change && row.seq > *position => {}
            _ => seqs.entry(key).or_default().push(row.seq),
        }
    }
    for (key, seqs) in seqs {
        let (lane, _) = key;
        let values = named_params! {":sink": sink, ":lane": lane, ":seqs": list(&seqs)};
        *removed.entry(key).or_default() += count(tx.run(DELETE, values)?);
    }
    Ok(removed)
}

/// Deletes all rows of a record at every sink, and counts them as skipped.
pub(in crate::store) fn skip_record(
    connection: &Connection,
    route: &str,
    record_id: &str,
    at: &str,
) -> rusqlite::Result<()> {
    for sql in [COUNT_SKIPPED, COUNT_LEFT_OUT, DELETE_RECORD] {
        connection.run(
            sql,
            named_params! {":route": route, ":record_id": record_id},
        )?;
    }
    replays::end_all(connection, at)
}

impl Operator {
    /// Has these changes of a sink sent again now, with all their attempts; returns how many were
    /// still refused. With `only_if_newest` a dead one is sent only if the sink has no newer
    /// version of its record when its turn comes.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn resend(
        &mut self,
        sink: &str,
        rows: &[QueueRow],
        only_if_newest: bool,
    ) -> Result<usize, StoreError> {
        let tx = self.write_tx()?;
        let mut sent = 0;
        for row in rows {
            let values = named_params! {
                ":sink": sink,
                ":seq": row.seq,
                ":only_if_newest": only_if_newest,
            };
            sent += tx.run(RESEND, values)?;
        }
        tx.commit()?;
        Ok(sent)
    }

    /// Deletes dead letters of a sink, all or one; returns how many. The log keeps the changes.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn drop_dead(&mut self, sink: &str, seq: Option<i64>) -> Result<usize, StoreError> {
        // In steps, so that the daemon's writes need not wait for all of them.
        let mut dropped = 0;
        loop {
            let more = self.run(DROP_DEAD, named_params! {":sink": sink, ":seq": seq})?;
            if more == 0 {
                return Ok(dropped);
            }
            dropped += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{open, plan};

    /// Each statement of a delivery with the index by which it finds its rows: the key is that of
    /// the table itself.
    const INDEXES: [(&str, &str); 24] = [
        (READY, "INDEX _queue_next (sink=? AND state=? AND lane<?)"),
        (DUE, "INDEX _queue_due (sink=? AND state=? AND due_at<?)"),
        (
            NEXT_DUE,
            "INDEX _queue_due (sink=? AND state=? AND due_at>?)",
        ),
        (
            COUNT_READY,
            "COVERING INDEX _queue_next (sink=? AND state=? AND lane=?)",
        ),
        (
            COUNT_OWED,
            "COVERING INDEX _queue_next (sink=? AND state=? AND lane=?)",
        ),
        (
            INSERT,
            "SEARCH f USING INDEX changes_version (route=? AND record_id=?)",
        ),
        (DELETE, "PRIMARY KEY (sink=? AND lane=? AND seq=?)"),
        (KEEP, "PRIMARY KEY (sink=? AND lane=? AND seq=?)"),
        (ANY_REFILL, "PRIMARY KEY (sink=? AND lane=?)"),
        (DELETE_REFILL, "PRIMARY KEY (sink=? AND lane=?)"),
        (ANY_FAULTED, "INDEX _queue_next (sink=? AND state=?)"),
        (RETRY_FAULTED, "INDEX _queue_next (sink=? AND state=?)"),
        (
            DELETE_RECORD,
            "INDEX _queue_record (route=? AND record_id=?)",
        ),
        (QUEUED, "PRIMARY KEY (sink=? AND lane=? AND seq=?)"),
        (
            EXCEPTIONS,
            "INDEX _queue_next (sink=? AND state=? AND lane=?)",
        ),
        (
            ANY_TRIED,
            "COVERING INDEX _queue_record (route=? AND record_id=? AND sink=? AND state=? AND lane=? AND seq<?)",
        ),
        (EXCEPTION, "PRIMARY KEY (sink=? AND lane=? AND seq=?)"),
        (RESEND, "PRIMARY KEY (sink=? AND lane=? AND seq=?)"),
        (sinks::ADVANCE, "PRIMARY KEY (name=?)"),
        (sinks::COUNT, "PRIMARY KEY (name=?)"),
        (sinks::HOLD, "PRIMARY KEY (name=?)"),
        (sinks::RELEASE, "PRIMARY KEY (name=?)"),
        (sinks::SKIP, "PRIMARY KEY (name=?)"),
        (sinks::FIND, "PRIMARY KEY (name=?)"),
    ];

    #[test]
    fn each_statement_of_a_delivery_finds_its_rows_by_its_index_and_sorts_nothing() {
        let (dir, _store) = open();
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        for (sql, index) in INDEXES {
            let steps = plan(&connection, sql);
            assert!(
                steps.iter().any(|step| step.ends_with(index)),
                "not {index}: {steps:?}\n{sql}"
            );
            for step in steps {
                let is_search = !step.starts_with("SCAN ")
                    || step.starts_with("SCAN (")
                    || step.starts_with("SCAN json_each")
                    || step == "SCAN CONSTANT ROW";
                assert!(is_search && !step.contains("TEMP B-TREE"), "{step}\n{sql}");
                let reads_sink = step.ends_with("(sink=?)") && step.contains("_queue");
                assert!(!reads_sink, "it reads every row of the sink: {step}\n{sql}");
            }
        }
    }

    /// The triggers that keep the order of a record.
    #[test]
    fn the_triggers_of_the_queue_look_only_at_the_rows_of_a_record() {
        let (dir, _store) = open();
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        let bodies: Vec<String> = connection
            .values(
                "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name IN \
                 ('_queue_behind', '_queue_ordered', '_queue_released')",
                [],
            )
            .unwrap();
        assert_eq!(bodies.len(), 3);
        for body in bodies {
            // In a plan, a trigger's row has no name: a parameter takes its place.
            let body = body.replace("new.", ":").replace("old.", ":");
            let statements = body.split("BEGIN").nth(1).unwrap();
            for sql in statements.split(';').map(str::trim) {
                if sql == "END" || sql.is_empty() {
                    continue;
                }
                for step in plan(&connection, sql) {
                    let is_of_record = step.contains("_queue_record (route=? AND record_id=?")
                        || step.contains("PRIMARY KEY (sink=? AND lane=? AND seq=?)")
                        || step.starts_with("SCALAR SUBQUERY");
                    assert!(is_of_record, "{step}\n{sql}");
                }
            }
        }
    }
}
