//! The table `_queue`: what each sink is still owed. A row goes when the sink has acknowledged it.
//!
//! A row is `ready`, `retrying` at a time, `waiting` for an earlier row of its record, or `dead`. A
//! refused row makes the later rows of its record wait; they are ready again once it is gone or
//! dead. No statement here costs more when other rows of the same sink are retried or dead.
//! Triggers keep the counters in `_sinks`.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::log;
use crate::store::open::write_tx;
use crate::store::operate::Operator;
use crate::store::outbox::replays;
use crate::store::outbox::rows::{Feed, Gone, Lane, Outcomes, QueueRow, RowState};
use crate::store::outbox::sinks::{self, SinkRow};
use crate::store::reader::Reader;
use crate::store::sql::{Sql, word};

const READY: &str = "SELECT * FROM _queue WHERE sink = ?1 AND state = 'ready' AND lane <= ?3 ORDER BY lane, seq LIMIT ?2";

const DUE: &str = "SELECT * FROM _queue WHERE sink = ?1 AND state = 'retrying' AND due_at <= ?2 ORDER BY due_at LIMIT ?3";

const NEXT_DUE: &str =
    "SELECT min(due_at) FROM _queue WHERE sink = ?1 AND state = 'retrying' AND due_at > ?2";

const COUNT_READY: &str = "SELECT count(*) FROM (SELECT 1 FROM _queue WHERE sink = ?1 AND state = 'ready' AND lane = ?2 LIMIT 10000)";

const CHANGE_BYTES: &str =
    "SELECT octet_length(body) * (1 + (kind = 'updated')) FROM changes WHERE seq = ?1";

const NOTICE_BYTES: &str = "SELECT octet_length(body) FROM _notices WHERE id = ?1";

const COUNT_OWED: &str = "SELECT count(*) FROM _queue INDEXED BY _queue_next \
     WHERE sink = ?1 AND state IN ('ready', 'retrying', 'waiting') AND lane = ?2";

/// A forgotten record's versions are not queued.
const INSERT: &str = "INSERT INTO _queue (sink, lane, seq, route, record_id, state, since, only_if_newest) \
     SELECT ?1, ?2, seq, route, record_id, CASE WHEN record_id <> '' AND EXISTS \
     (SELECT 1 FROM _queue q WHERE q.route = changes.route AND q.record_id = changes.record_id AND q.sink = ?1 \
     AND q.state IN ('retrying', 'waiting') AND q.lane = ?2) THEN 'waiting' ELSE 'ready' END, ?4, ?5 \
     FROM changes WHERE seq = ?3 ON CONFLICT DO NOTHING";

const DELETE: &str = "DELETE FROM _queue WHERE sink = ?1 AND lane = ?2 AND seq = ?3";

/// What a destination has lost and now refuses counts no longer as delivered.
const KEEP: &str = "UPDATE _queue SET lane = CASE lane WHEN 1 THEN 2 ELSE lane END, state = ?4, attempts = ?5, faults = ?6, due_at = ?7, last_error = ?8 \
     WHERE sink = ?1 AND lane = ?2 AND seq = ?3";

/// Lanes do not wait for each other.
const HOLD_BACK: &str = "UPDATE _queue INDEXED BY _queue_record SET state = 'waiting', due_at = NULL \
     WHERE route = ?2 AND record_id = ?3 AND sink = ?1 AND state IN ('ready', 'retrying') AND lane = ?4 AND seq > ?5";

const RELEASE: &str = "UPDATE _queue INDEXED BY _queue_record SET state = 'ready' \
     WHERE route = ?2 AND record_id = ?3 AND sink = ?1 AND state = 'waiting' AND lane = ?4";

/// Asked first, because a statement that finds no row still takes the write lock.
const ANY_REFILL: &str = "SELECT EXISTS (SELECT 1 FROM _queue WHERE sink = ?1 AND lane = 1)";

const DELETE_REFILL: &str = "DELETE FROM _queue WHERE sink = ?1 AND lane = 1";

const ANY_FAULTED: &str = "SELECT EXISTS (SELECT 1 FROM _queue \
     WHERE sink = ?1 AND state = 'retrying' AND (attempts = 0 OR due_at > ?2))";

/// They stay `retrying`, so that no later row of their records passes them.
const RETRY_FAULTED: &str = "UPDATE _queue SET due_at = '' \
     WHERE sink = ?1 AND state = 'retrying' AND (attempts = 0 OR due_at > ?2)";

const COUNT_SKIPPED: &str = "UPDATE _sinks SET skipped = skipped + (SELECT count(*) FROM _queue q \
     WHERE q.route = ?1 AND q.record_id = ?2 AND q.sink = _sinks.name AND q.state <> 'dead' AND q.lane = 2)";

const COUNT_LEFT_OUT: &str = "UPDATE _replays SET left_out = left_out + (SELECT count(*) FROM _queue q \
     WHERE q.route = ?1 AND q.record_id = ?2 AND q.sink = _replays.sink AND q.lane = 3)";

const DELETE_RECORD: &str = "DELETE FROM _queue WHERE route = ?1 AND record_id = ?2 AND lane > 0";

const QUEUED: &str =
    "SELECT EXISTS (SELECT 1 FROM _queue WHERE sink = ?1 AND lane = 2 AND seq = ?2)";

const EXCEPTIONS: &str =
    "SELECT * FROM _queue WHERE sink = ?1 AND state = ?2 AND lane = 2 ORDER BY seq LIMIT ?3";

const EXCEPTION: &str =
    "SELECT * FROM _queue WHERE sink = ?1 AND lane = 2 AND seq = ?2 AND state <> 'ready'";

const DROP_DEAD: &str = "DELETE FROM _queue WHERE sink = ?1 AND lane = 2 AND seq IN ( \
     SELECT seq FROM _queue WHERE sink = ?1 AND state = 'dead' AND lane = 2 AND (?2 IS NULL OR seq = ?2) \
     LIMIT 10000)";

/// A dead row may be older than what the sink has; one that is retried never is. It is `retrying`
/// and due, so that no later row of its record passes it.
const RESEND: &str = "UPDATE _queue SET attempts = 0, faults = 0, due_at = '', \
     only_if_newest = CASE WHEN state = 'dead' THEN ?3 ELSE only_if_newest END, state = 'retrying' \
     WHERE sink = ?1 AND lane = 2 AND seq = ?2 AND state IN ('dead', 'retrying')";

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
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
        lane: Lane,
        now: &str,
        limit: usize,
    ) -> Result<(Vec<QueueRow>, bool), StoreError> {
        let connection = &self.connection;
        let most = count(limit);
        let ready: Vec<QueueRow> = connection.rows(READY, (sink, most, lane))?;
        let due: Vec<QueueRow> = connection.rows(DUE, (sink, now, most))?;
        let is_cut = ready.len() >= limit || due.len() >= limit;
        let mut rows = [ready, due].concat();
        rows.retain(|row| row.lane <= lane);
        rows.sort_by_key(|row| (row.faults, row.lane, row.seq));
        Ok((rows, is_cut))
    }

    /// When the next row of a sink becomes due after `now`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_due(&self, sink: &str, now: &str) -> Result<Option<String>, StoreError> {
        Ok(self.connection.value(NEXT_DUE, (sink, now))?)
    }

    /// How many rows of this lane are ready for a sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn ready_rows(&self, sink: &str, lane: Lane) -> Result<i64, StoreError> {
        Ok(self.connection.value(COUNT_READY, (sink, lane))?)
    }

    /// How many rows of this lane a sink is owed, those that it refused among them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn owed_rows(&self, sink: &str, lane: Lane) -> Result<i64, StoreError> {
        Ok(self.connection.value(COUNT_OWED, (sink, lane))?)
    }

    /// How many rows of the log a sink that is no longer configured was not given: those after its
    /// position, and those in its queue that are not dead.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn undelivered(&self, sink: &SinkRow) -> Result<i64, StoreError> {
        let unread = (self.last_seq()? - sink.position).max(0);
        Ok(unread + self.owed_rows(&sink.name, Lane::Change)?)
    }

    /// The bytes of the records of a row; `None` if it is no longer there. An update is sent with
    /// the state before, which is taken for as long.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn weight(&self, lane: Lane, seq: i64) -> Result<Option<usize>, StoreError> {
        let sql = if lane == Lane::Notice {
            NOTICE_BYTES
        } else {
            CHANGE_BYTES
        };
        let bytes: Option<i64> = self.connection.value(sql, [seq]).optional()?;
        Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or_default()))
    }

    /// Whether a sink is still owed this change, or refused it for good.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_queued(&self, sink: &str, seq: i64) -> Result<bool, StoreError> {
        Ok(self.connection.value(QUEUED, (sink, seq))?)
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
        let of = |state: &RowState| {
            self.connection
                .rows(EXCEPTIONS, (sink, word(state), count(limit)))
        };
        Ok(states
            .iter()
            .map(of)
            .collect::<rusqlite::Result<Vec<_>>>()?
            .concat())
    }

    /// One such change, by its number in the log.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn exception(&self, sink: &str, seq: i64) -> Result<Option<QueueRow>, StoreError> {
        Ok(self.connection.row(EXCEPTION, (sink, seq))?)
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

    /// Removes what was queued because the destination had lost it: it says anew what it lacks.
    /// Costs no write if there is nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn clear_refill(&self, sink: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            if connection.value(ANY_REFILL, [&sink])? {
                connection.execute(DELETE_REFILL, [&sink])?;
            }
            Ok(())
        })
        .await
    }

    /// Has everything tried again at once that a failing destination was given, and what is planned
    /// for later than `latest`, which it was while the clock was wrong. Costs no write if there is
    /// nothing.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn retry_faulted(&self, sink: String, latest: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            let connection = &writer.connection;
            if connection.value(ANY_FAULTED, [&sink, &latest])? {
                connection.execute(RETRY_FAULTED, [&sink, &latest])?;
            }
            Ok(())
        })
        .await
    }

    /// Saves what became of rows; returns the sink's row.
    ///
    /// # Errors
    /// Nothing is saved; the rows are handed over again under the same event ids.
    pub async fn settle(
        &self,
        sink: String,
        outcomes: Outcomes,
        at: String,
    ) -> Result<Option<SinkRow>, StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            save(&tx, &sink, &outcomes, &at)?;
            tx.commit()?;
            Ok(sinks::find(&writer.connection, &sink)?)
        })
        .await
    }
}

/// Queues rows; false if the position is another one meanwhile.
fn insert(tx: &Connection, sink: &str, feed: &Feed) -> rusqlite::Result<bool> {
    let mut absent = 0;
    for seq in &feed.rows {
        let new = (sink, feed.lane, seq, &feed.at, feed.only_if_newest);
        let is_inserted = !tx.value::<bool>(log::IS_ERASED, [seq])? && tx.run(INSERT, new)? > 0;
        absent += i64::from(!is_inserted);
    }
    match feed.lane {
        Lane::Change => sinks::advance(tx, sink, feed, absent),
        Lane::Replay => replays::advance(tx, sink, feed, absent),
        Lane::Notice | Lane::Refill => Ok(true),
    }
}

/// A row that is no longer there belonged to a record that was forgotten meanwhile, and was counted
/// then.
fn save(tx: &Connection, sink: &str, outcomes: &Outcomes, at: &str) -> rusqlite::Result<()> {
    let mut gone: HashMap<(Lane, Gone), i64> = HashMap::new();
    for (row, why) in &outcomes.gone {
        if tx.run(DELETE, (sink, row.lane, row.seq))? > 0 {
            tx.run(RELEASE, (sink, &row.route, &row.record_id, row.lane))?;
            *gone.entry((row.lane, *why)).or_default() += 1;
        }
    }
    let gone = |lane, why| gone.get(&(lane, why)).copied().unwrap_or(0);
    let mut delivered = gone(Lane::Change, Gone::Delivered);
    let left_out = gone(Lane::Change, Gone::Refused) + gone(Lane::Change, Gone::LeftOut);
    for row in &outcomes.kept {
        let new = (
            sink,
            row.lane,
            row.seq,
            word(&row.state),
            row.attempts,
            row.faults,
            &row.due_at,
            &row.last_error,
        );
        if tx.run(KEEP, new)? == 0 {
            continue;
        }
        delivered -= i64::from(row.lane == Lane::Refill);
        if row.record_id.is_empty() {
            continue;
        }
        let lane = if row.lane == Lane::Refill {
            Lane::Change
        } else {
            row.lane
        };
        if row.state == RowState::Retrying {
            tx.run(HOLD_BACK, (sink, &row.route, &row.record_id, lane, row.seq))?;
        } else {
            tx.run(RELEASE, (sink, &row.route, &row.record_id, lane))?;
        }
    }
    sinks::count(tx, sink, (delivered, left_out), outcomes, at)?;
    let replayed =
        [Gone::Delivered, Gone::Refused, Gone::LeftOut].map(|why| gone(Lane::Replay, why));
    replays::count(tx, sink, replayed, outcomes.last_error.as_deref(), at)?;
    match outcomes.acknowledged {
        Some(acknowledged) => sinks::set_acknowledged(tx, sink, acknowledged),
        None => Ok(()),
    }
}

/// Deletes all rows of a record at every sink, and counts them as skipped.
pub(in crate::store) fn skip_record(
    connection: &Connection,
    route: &str,
    record_id: &str,
    at: &str,
) -> rusqlite::Result<()> {
    for sql in [COUNT_SKIPPED, COUNT_LEFT_OUT, DELETE_RECORD] {
        connection.execute(sql, (route, record_id))?;
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
        let tx = write_tx(&mut self.connection)?;
        let mut sent = 0;
        for row in rows {
            sent += tx.run(RESEND, (sink, row.seq, only_if_newest))?;
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
            match self.connection.run(DROP_DEAD, (sink, seq))? {
                0 => return Ok(dropped),
                more => dropped += more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{open, plan};

    #[test]
    fn no_statement_of_a_delivery_reads_rows_of_other_states_or_sorts() {
        let (dir, _store) = open();
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        let statements = [
            READY.to_owned(),
            DUE.to_owned(),
            EXCEPTIONS.to_owned(),
            EXCEPTION.to_owned(),
            NEXT_DUE.to_owned(),
            COUNT_OWED.to_owned(),
            COUNT_READY.to_owned(),
            INSERT.to_owned(),
            DELETE.to_owned(),
            KEEP.to_owned(),
            HOLD_BACK.to_owned(),
            RELEASE.to_owned(),
            QUEUED.to_owned(),
            RESEND.to_owned(),
            DELETE_RECORD.to_owned(),
        ];
        let of_sinks = [
            sinks::ADVANCE,
            sinks::COUNT,
            sinks::HOLD,
            sinks::RELEASE,
            sinks::SKIP,
            sinks::FIND,
        ];
        for sql in statements.into_iter().chain(of_sinks.map(str::to_owned)) {
            for step in plan(&connection, &sql) {
                let is_search = !step.starts_with("SCAN ")
                    || step.starts_with("SCAN (")
                    || step == "SCAN CONSTANT ROW";
                assert!(is_search && !step.contains("TEMP B-TREE"), "{step}\n{sql}");
                let reads_sink = step.ends_with("(sink=?)") && step.contains("_queue");
                assert!(!reads_sink, "it reads every row of the sink: {step}\n{sql}");
            }
        }
    }
}
