//! The table `deliveries`: changes that a sink has not taken, and when each is tried again.
//!
//! A row is `retrying`, `waiting` for an earlier change of the same record, or `dead`. Of one record
//! at most one row is `retrying`, the oldest that is not dead, so that order per record is kept. No
//! statement here costs more when other rows of the same sink are parked. Triggers keep the counters
//! in `sinks`.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use serde::Serialize;

use crate::store::log;
use crate::store::outbox::sink_state::DeliveryState;

/// One change that one sink has not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PendingDelivery {
    /// The change's number in the log.
    pub seq: i64,
    /// The route of its record.
    pub route: String,
    /// The record's id; empty for a gap.
    pub record_id: String,
    /// What happens next.
    pub state: DeliveryState,
    /// Attempts made.
    pub attempts: i64,
    /// When the next attempt is due; only while `retrying`.
    pub next_attempt_at: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// When the change was first parked.
    pub since: String,
    /// It was revived, and is delivered only while the sink has no newer version of its record.
    #[serde(skip)]
    pub only_if_newest: bool,
}

/// Which deliveries are due; stamps as [`crate::clock::stamp`] writes them.
#[derive(Debug, Clone, Copy)]
pub struct DueBy<'a> {
    /// Due at or before this time.
    pub now: &'a str,
    /// No attempt is planned for later than this. One that is was planned while the clock was
    /// wrong, and is due as well.
    pub latest: &'a str,
}

const COLUMNS: &str = "seq, route, record_id, state, attempts, next_attempt_at, last_error, since, only_if_newest FROM _deliveries d";

/// Skips a delivery while an older one of its record is open, for example after a redrive.
const OLDEST_OPEN: &str = "(record_id = '' OR NOT EXISTS (SELECT 1 FROM _deliveries e WHERE e.sink = d.sink \
     AND e.route = d.route AND e.record_id = d.record_id AND e.state IN ('retrying', 'waiting') AND e.seq < d.seq))";

fn due_sql() -> String {
    format!(
        "SELECT {COLUMNS} WHERE sink = ?1 AND state = 'retrying' AND next_attempt_at <= ?2 AND {OLDEST_OPEN} \
         ORDER BY next_attempt_at LIMIT ?3"
    )
}

fn mistimed_sql() -> String {
    format!(
        "SELECT {COLUMNS} WHERE sink = ?1 AND state = 'retrying' AND next_attempt_at > ?2 AND {OLDEST_OPEN} \
         ORDER BY next_attempt_at DESC LIMIT ?3"
    )
}

const NEXT_DUE: &str = "SELECT min(next_attempt_at) FROM _deliveries \
     WHERE sink = ?1 AND state = 'retrying' AND next_attempt_at > ?2";

const PARKED_SINCE: &str = "SELECT min(since) FROM _deliveries INDEXED BY _deliveries_state WHERE sink = ?1 AND state IN ('retrying', 'waiting')";

const OPEN_FOR_RECORD: &str = "SELECT EXISTS (SELECT 1 FROM _deliveries WHERE sink = ?1 AND route = ?2 \
     AND record_id = ?3 AND state IN ('retrying', 'waiting'))";

const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM _deliveries WHERE sink = ?1 AND seq = ?2)";

const PUT: &str = "INSERT INTO _deliveries (sink, seq, route, record_id, state, attempts, next_attempt_at, last_error, since) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (sink, seq) DO UPDATE SET state = excluded.state, \
     attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error";

const DELETE: &str = "DELETE FROM _deliveries WHERE sink = ?1 AND seq = ?2";

const DELETE_OPEN: &str =
    "DELETE FROM _deliveries WHERE sink = ?1 AND seq = ?2 AND state <> 'dead'";

/// A trigger counts the dead ones.
const COUNT_SKIPPED: &str = "UPDATE _sinks SET skipped = skipped + (SELECT count(*) FROM _deliveries d \
     WHERE d.sink = _sinks.name AND d.route = ?1 AND d.record_id = ?2 AND d.state <> 'dead')";

const DELETE_RECORD: &str = "DELETE FROM _deliveries WHERE route = ?1 AND record_id = ?2";

/// Sends a record's `retrying` row back to `waiting` if an older row waits.
const HOLD_BACK: &str = "UPDATE _deliveries SET state = 'waiting', next_attempt_at = NULL \
     WHERE sink = ?1 AND route = ?2 AND record_id = ?3 AND state = 'retrying' \
     AND seq > (SELECT seq FROM _deliveries WHERE sink = ?1 AND route = ?2 AND record_id = ?3 AND state = 'waiting' ORDER BY seq LIMIT 1)";

/// Makes a record's oldest `waiting` row due if no row is `retrying`.
const RELEASE: &str = "UPDATE _deliveries SET state = 'retrying', next_attempt_at = ?4 WHERE sink = ?1 \
     AND seq = (SELECT seq FROM _deliveries WHERE sink = ?1 AND route = ?2 AND record_id = ?3 AND state = 'waiting' ORDER BY seq LIMIT 1) \
     AND NOT EXISTS (SELECT 1 FROM _deliveries WHERE sink = ?1 AND route = ?2 AND record_id = ?3 AND state = 'retrying')";

/// Dead letters by number. The planner would otherwise read past all other rows of the sink.
fn dead_sql() -> String {
    format!(
        "SELECT {COLUMNS} INDEXED BY _deliveries_state WHERE sink = ?1 AND state = 'dead' AND next_attempt_at IS NULL \
         AND seq > ?2 ORDER BY seq LIMIT ?3"
    )
}

fn dead_letter_sql() -> String {
    format!("SELECT {COLUMNS} WHERE sink = ?1 AND seq = ?2 AND state = 'dead'")
}

const DROP_DEAD: &str = "DELETE FROM _deliveries WHERE sink = ?1 AND seq IN (SELECT seq FROM _deliveries INDEXED BY _deliveries_state \
     WHERE sink = ?1 AND state = 'dead' AND next_attempt_at IS NULL ORDER BY seq LIMIT ?2)";

const DROP_ONE: &str = "DELETE FROM _deliveries WHERE sink = ?1 AND seq = ?2 AND state = 'dead'";

const REVIVE: &str = "UPDATE _deliveries SET state = 'waiting', attempts = 0, only_if_newest = ?3 \
     WHERE sink = ?1 AND seq = ?2 AND state = 'dead'";

const REVIVE_GAP: &str = "UPDATE _deliveries SET state = 'retrying', attempts = 0, next_attempt_at = ?3 \
     WHERE sink = ?1 AND seq = ?2 AND state = 'dead'";

fn read(row: &Row<'_>) -> rusqlite::Result<PendingDelivery> {
    Ok(PendingDelivery {
        seq: row.get(0)?,
        route: row.get(1)?,
        record_id: row.get(2)?,
        state: row.get(3)?,
        attempts: row.get(4)?,
        next_attempt_at: row.get(5)?,
        last_error: row.get(6)?,
        since: row.get(7)?,
        only_if_newest: row.get(8)?,
    })
}

fn collect(
    mut statement: CachedStatement<'_>,
    parameters: impl rusqlite::Params,
) -> rusqlite::Result<Vec<PendingDelivery>> {
    let rows = statement.query_map(parameters, read)?;
    rows.collect()
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Up to `limit` deliveries that are due, the longest due first.
pub(in crate::store) fn due(
    connection: &Connection,
    sink: &str,
    by: &DueBy<'_>,
    limit: usize,
) -> rusqlite::Result<Vec<PendingDelivery>> {
    let mut found = collect(connection.prepare_cached(&due_sql())?, (sink, by.now, count(limit)))?;
    if found.len() < limit {
        let room = count(limit - found.len());
        found
            .extend(collect(connection.prepare_cached(&mistimed_sql())?, (sink, by.latest, room))?);
    }
    Ok(found)
}

/// When the next delivery that is not due yet becomes due.
pub(in crate::store) fn next_due(
    connection: &Connection,
    sink: &str,
    now: &str,
) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached(NEXT_DUE)?.query_row((sink, now), |row| row.get(0))
}

/// When the first change that is still parked for a sink was parked.
pub(in crate::store) fn parked_since(
    connection: &Connection,
    sink: &str,
) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached(PARKED_SINCE)?.query_row([sink], |row| row.get(0))
}

/// Whether a change of this record is `retrying` or `waiting`.
pub(in crate::store) fn is_open(
    connection: &Connection,
    sink: &str,
    route: &str,
    record_id: &str,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(OPEN_FOR_RECORD)?
        .query_row((sink, route, record_id), |row| row.get(0))
}

/// Whether this change is parked or dead.
pub(in crate::store) fn exists(
    connection: &Connection,
    sink: &str,
    seq: i64,
) -> rusqlite::Result<bool> {
    connection.prepare_cached(EXISTS)?.query_row((sink, seq), |row| row.get(0))
}

/// Adds rows or brings them up to date, deletes the settled ones, and releases what waited for them.
/// `before` is the sink's position until now: rows up to it were stored before.
///
/// A record may have been forgotten meanwhile: its changes are not stored, and [`skip_record`] has counted
/// those that were. Returns what the count of skipped changes is to grow by.
pub(in crate::store) fn save(
    connection: &Connection,
    (sink, before): (&str, i64),
    put: &[PendingDelivery],
    settled: &[PendingDelivery],
    at: &str,
) -> rusqlite::Result<i64> {
    let mut skipped = 0;
    let mut insert = connection.prepare_cached(PUT)?;
    for d in put {
        if log::is_erased(connection, d.seq)? {
            let is_open = connection.prepare_cached(DELETE_OPEN)?.execute((sink, d.seq))? > 0;
            skipped += i64::from(is_open || d.seq > before);
            continue;
        }
        insert.execute((
            sink,
            d.seq,
            &d.route,
            &d.record_id,
            d.state,
            d.attempts,
            &d.next_attempt_at,
            &d.last_error,
            &d.since,
        ))?;
    }
    let mut delete = connection.prepare_cached(DELETE)?;
    for d in settled {
        if delete.execute((sink, d.seq))? == 0 {
            // It was counted as skipped, and arrived all the same.
            skipped -= 1;
        }
    }
    for d in put.iter().chain(settled) {
        reorder(connection, sink, &d.route, &d.record_id, at)?;
    }
    Ok(skipped)
}

/// Deletes all rows of a record at every sink, and counts them as skipped.
pub(in crate::store) fn skip_record(
    connection: &Connection,
    route: &str,
    record_id: &str,
) -> rusqlite::Result<()> {
    connection.execute(COUNT_SKIPPED, (route, record_id))?;
    connection.execute(DELETE_RECORD, (route, record_id))?;
    Ok(())
}

/// Makes the oldest open row of a record the one that is `retrying`. A gap belongs to no record.
fn reorder(
    connection: &Connection,
    sink: &str,
    route: &str,
    record_id: &str,
    at: &str,
) -> rusqlite::Result<()> {
    if record_id.is_empty() {
        return Ok(());
    }
    connection.prepare_cached(HOLD_BACK)?.execute((sink, route, record_id))?;
    connection.prepare_cached(RELEASE)?.execute((sink, route, record_id, at))?;
    Ok(())
}

/// Up to `limit` dead letters of one sink after `seq`, oldest first.
pub(in crate::store) fn dead_letters(
    connection: &Connection,
    sink: &str,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<PendingDelivery>> {
    collect(connection.prepare_cached(&dead_sql())?, (sink, after, count(limit)))
}

/// One dead letter of one sink.
pub(in crate::store) fn dead_letter(
    connection: &Connection,
    sink: &str,
    seq: i64,
) -> rusqlite::Result<Option<PendingDelivery>> {
    connection.prepare_cached(&dead_letter_sql())?.query_row((sink, seq), read).optional()
}

/// Makes dead letters due again with all their attempts; returns how many were still dead.
pub(in crate::store) fn revive(
    connection: &Connection,
    sink: &str,
    letters: &[PendingDelivery],
    only_if_newest: bool,
    at: &str,
) -> rusqlite::Result<usize> {
    let mut revived = 0;
    for letter in letters {
        revived += if letter.record_id.is_empty() {
            connection.prepare_cached(REVIVE_GAP)?.execute((sink, letter.seq, at))?
        } else {
            connection.prepare_cached(REVIVE)?.execute((sink, letter.seq, only_if_newest))?
        };
    }
    for letter in letters {
        reorder(connection, sink, &letter.route, &letter.record_id, at)?;
    }
    Ok(revived)
}

/// Deletes up to `limit` dead letters, the oldest first, or one; returns how many. The changes stay
/// in the log.
pub(in crate::store) fn drop_dead(
    connection: &Connection,
    sink: &str,
    seq: Option<i64>,
    limit: usize,
) -> rusqlite::Result<usize> {
    match seq {
        Some(seq) => connection.prepare_cached(DROP_ONE)?.execute((sink, seq)),
        None => connection.prepare_cached(DROP_DEAD)?.execute((sink, count(limit))),
    }
}

#[cfg(test)]
mod tests;
