//! Where each sink stands: its position in the log, and the exceptions before it.
//!
//! Everything up to a sink's position was delivered, filtered out, or stands in `deliveries`:
//! `retrying` with its next attempt, `waiting` behind an earlier change of the same record, or
//! `dead`.

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};
use serde::Serialize;

use super::error::StoreError;
use super::log;

/// A sink's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SinkRow {
    /// The sink's name.
    pub name: String,
    /// `webhook`, `file`, `command`
    #[serde(rename = "type")]
    pub type_name: String,
    /// `active`, `disabled` (the endpoint said 410), or `removed` (no longer configured).
    pub state: String,
    /// Everything up to this number is behind the sink.
    pub position: i64,
    /// Changes delivered since the sink was first seen.
    pub delivered: i64,
    /// When a change was last delivered.
    pub last_success_at: Option<String>,
    /// The last fault.
    pub last_error: Option<String>,
    /// When it was.
    pub last_error_at: Option<String>,
    /// Changes being retried, or waiting behind one that is.
    pub retrying: i64,
    /// Changes refused for good.
    pub dead: i64,
}

/// Where a new sink begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// After the last row of the log.
    Now,
    /// At its first row.
    Beginning,
    /// At the first row observed at or after this stamp.
    At(String),
}

/// An exception: one change that one sink has not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingDelivery {
    /// The change's number in the log.
    pub seq: i64,
    /// The route of its record.
    pub route: String,
    /// The record's id; empty for a gap.
    pub record_id: String,
    /// `retrying`, `waiting` or `dead`
    pub state: String,
    /// Attempts made.
    pub attempts: i64,
    /// When the next one is due.
    pub next_attempt_at: Option<String>,
    /// Why the last one failed.
    pub last_error: Option<String>,
    /// When the change was first refused.
    pub since: String,
}

/// What one round of a sink's work came to; saved in one transaction.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The new position, if it moved.
    pub position: Option<i64>,
    /// Changes delivered.
    pub delivered: i64,
    /// Exceptions to add or to bring up to date.
    pub put: Vec<PendingDelivery>,
    /// Exceptions that are settled.
    pub settled: Vec<i64>,
    /// A fault of the endpoint, told once.
    pub fault: Option<String>,
    /// Whether the sink is to be disabled.
    pub disable: bool,
    /// When this was.
    pub at: String,
}

const SELECT: &str = "SELECT s.name, s.type, s.state, s.position, s.delivered, s.last_success_at, s.last_error, s.last_error_at, \
     (SELECT count(*) FROM deliveries d WHERE d.sink = s.name AND d.state <> 'dead'), \
     (SELECT count(*) FROM deliveries d WHERE d.sink = s.name AND d.state = 'dead') FROM sinks s";

fn read(row: &Row<'_>) -> rusqlite::Result<SinkRow> {
    Ok(SinkRow {
        name: row.get(0)?,
        type_name: row.get(1)?,
        state: row.get(2)?,
        position: row.get(3)?,
        delivered: row.get(4)?,
        last_success_at: row.get(5)?,
        last_error: row.get(6)?,
        last_error_at: row.get(7)?,
        retrying: row.get(8)?,
        dead: row.get(9)?,
    })
}

pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<SinkRow>> {
    let mut statement =
        connection.prepare_cached(&format!("{SELECT} ORDER BY s.name LIMIT 10000"))?;
    let rows = statement.query_map([], read)?;
    rows.collect()
}

pub(super) fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<SinkRow>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE s.name = ?1"))?
        .query_row([name], read)
        .optional()
}

/// Makes the sink's row at its beginning if it has none, marks it active, and returns it. A row that
/// says so already costs no write: it must not matter that the disk is full or the store locked.
pub(super) fn open(
    connection: &mut Connection,
    name: &str,
    type_name: &str,
    begin: &Begin,
    at: &str,
) -> Result<SinkRow, StoreError> {
    if let Some(row) = find(connection, name)?
        && row.state == "active"
        && row.type_name == type_name
    {
        return Ok(row);
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let exists = tx
        .query_row("SELECT 1 FROM sinks WHERE name = ?1", [name], |_| Ok(()))
        .optional()?
        .is_some();
    if exists {
        tx.execute(
            "UPDATE sinks SET type = ?2, state = 'active' WHERE name = ?1",
            (name, type_name),
        )?;
    } else {
        let position = match begin {
            Begin::Now => log::last_seq(&tx)?,
            Begin::Beginning => 0,
            Begin::At(stamp) => log::position_at(&tx, stamp)?,
        };
        tx.execute(
            "INSERT INTO sinks (name, type, state, position, created_at) VALUES (?1, ?2, 'active', ?3, ?4)",
            (name, type_name, position, at),
        )?;
    }
    let row = tx.query_row(&format!("{SELECT} WHERE s.name = ?1"), [name], read)?;
    tx.commit()?;
    Ok(row)
}

/// Marks every sink that is not in `configured` as removed, so that it no longer holds the log back;
/// returns their names, each with what it had not got yet: rows of the log and open exceptions.
pub(super) fn retire(
    connection: &mut Connection,
    configured: &[String],
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut present = connection
        .prepare("SELECT name FROM sinks WHERE state <> 'removed'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    present.retain(|name| !configured.contains(name));
    if present.is_empty() {
        return Ok(Vec::new());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let retired = present.into_iter().map(|name| {
        let behind = tx.query_row(
            "UPDATE sinks SET state = 'removed' WHERE name = ?1 \
             RETURNING (SELECT coalesce(max(seq), 0) FROM changes) - position \
             + (SELECT count(*) FROM deliveries d WHERE d.sink = name AND d.state <> 'dead')",
            [&name],
            |row| row.get(0),
        )?;
        Ok((name, behind))
    });
    let retired = retired.collect::<rusqlite::Result<_>>()?;
    tx.commit()?;
    Ok(retired)
}

/// Saves one round in one transaction.
pub(super) fn save(
    connection: &mut Connection,
    name: &str,
    progress: &Progress,
) -> Result<(), StoreError> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.prepare_cached(
        "UPDATE sinks SET position = max(position, coalesce(?2, position)), delivered = delivered + ?3, \
         last_success_at = CASE WHEN ?3 > 0 THEN ?4 ELSE last_success_at END, \
         last_error = coalesce(?5, last_error), last_error_at = CASE WHEN ?5 IS NULL THEN last_error_at ELSE ?4 END, \
         state = CASE WHEN ?6 THEN 'disabled' ELSE state END WHERE name = ?1",
    )?
    .execute((name, progress.position, progress.delivered, &progress.at, &progress.fault, progress.disable))?;
    {
        let mut put = tx.prepare_cached(
            "INSERT INTO deliveries (sink, seq, route, record_id, state, attempts, next_attempt_at, last_error, since) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (sink, seq) DO UPDATE SET state = excluded.state, \
             attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error",
        )?;
        for d in &progress.put {
            put.execute((
                name,
                d.seq,
                &d.route,
                &d.record_id,
                &d.state,
                d.attempts,
                &d.next_attempt_at,
                &d.last_error,
                &d.since,
            ))?;
        }
        let mut settle =
            tx.prepare_cached("DELETE FROM deliveries WHERE sink = ?1 AND seq = ?2")?;
        for seq in &progress.settled {
            settle.execute((name, seq))?;
        }
        if !progress.settled.is_empty() || !progress.put.is_empty() {
            release_waiting(&tx, name, &progress.at)?;
        }
    }
    tx.commit()?;
    Ok(())
}

/// Makes due what waited behind a change that is settled or dead by now.
fn release_waiting(connection: &Connection, name: &str, at: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE deliveries AS d SET state = 'retrying', next_attempt_at = ?2 WHERE sink = ?1 AND state = 'waiting' \
             AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.sink = d.sink AND e.route = d.route \
             AND e.record_id = d.record_id AND e.seq < d.seq AND e.state <> 'dead')",
        )?
        .execute((name, at))?;
    Ok(())
}

const SELECT_DELIVERY: &str = "SELECT seq, route, record_id, state, attempts, next_attempt_at, last_error, since FROM deliveries WHERE sink = ?1";

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<PendingDelivery> {
    Ok(PendingDelivery {
        seq: row.get(0)?,
        route: row.get(1)?,
        record_id: row.get(2)?,
        state: row.get(3)?,
        attempts: row.get(4)?,
        next_attempt_at: row.get(5)?,
        last_error: row.get(6)?,
        since: row.get(7)?,
    })
}

/// Up to `limit` dead letters of one sink, oldest first.
pub(super) fn dead_letters(
    connection: &Connection,
    name: &str,
    limit: usize,
) -> rusqlite::Result<Vec<PendingDelivery>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection
        .prepare_cached(&format!("{SELECT_DELIVERY} AND state = 'dead' ORDER BY seq LIMIT ?2"))?;
    let rows = statement.query_map((name, limit), read_delivery)?;
    rows.collect()
}

/// One dead letter of one sink.
pub(super) fn dead_letter(
    connection: &Connection,
    name: &str,
    seq: i64,
) -> rusqlite::Result<Option<PendingDelivery>> {
    connection
        .prepare_cached(&format!("{SELECT_DELIVERY} AND state = 'dead' AND seq = ?2"))?
        .query_row((name, seq), read_delivery)
        .optional()
}

/// The exceptions of one sink that are still tried, oldest first; the caller bounds how many there can be.
pub(super) fn open_deliveries(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Vec<PendingDelivery>> {
    let mut statement = connection
        .prepare_cached(&format!("{SELECT_DELIVERY} AND state <> 'dead' ORDER BY seq"))?;
    let rows = statement.query_map([name], read_delivery)?;
    rows.collect()
}

/// Makes dead letters due again, the oldest 10,000 or one; returns how many.
pub(super) fn redrive(
    connection: &Connection,
    name: &str,
    seq: Option<i64>,
    at: &str,
) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE deliveries SET state = 'retrying', attempts = 0, next_attempt_at = ?3 \
         WHERE sink = ?1 AND seq IN (SELECT seq FROM deliveries WHERE sink = ?1 AND state = 'dead' \
         AND (?2 IS NULL OR seq = ?2) ORDER BY seq LIMIT 10000)",
        (name, seq, at),
    )
}

/// Forgets dead letters, all of them or one; returns how many. The changes stay in the log.
pub(super) fn drop_dead(
    connection: &Connection,
    name: &str,
    seq: Option<i64>,
) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM deliveries WHERE sink = ?1 AND state = 'dead' AND (?2 IS NULL OR seq = ?2)",
        (name, seq),
    )
}
