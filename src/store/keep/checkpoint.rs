//! Checkpoints of the write-ahead log, whose result is read.

use rusqlite::Connection;

use crate::store::error::StoreError;

/// Copies the write-ahead log into the store and cuts it, if no reader is in the way.
pub(in crate::store) fn cut_wal(connection: &Connection) -> Result<bool, StoreError> {
    Ok(run(connection, "PASSIVE")? && run(connection, "TRUNCATE")?)
}

/// Runs a checkpoint; returns whether it copied everything.
pub(in crate::store) fn run(connection: &Connection, mode: &str) -> Result<bool, StoreError> {
    let (busy, in_log, moved): (i64, i64, i64) =
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    Ok(busy == 0 && in_log == moved)
}
