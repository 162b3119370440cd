//! What an operator changes from the command line, beside a running daemon or without one.
//!
//! Short write transactions of its own; only [`Operator::forget`] changes the mirror and the log, and
//! nothing changes a position.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::Access;

use super::deliveries::{self, PendingDelivery};
use super::error::{OpenError, StoreError};
use super::{gaps, open};

/// Dead letters deleted in one transaction.
const DROP_STEP: usize = 10_000;

/// A connection for one command that changes what the operator may change.
#[derive(Debug)]
pub struct Operator {
    pub(super) connection: Connection,
}

impl Operator {
    /// Opens an existing store. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] if the file is absent or is not a store of this program.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        drop(open::open_reader(path)?);
        open::permitted(path, "write to", Access::WRITE_OK)?;
        let failed = |error: rusqlite::Error| OpenError::Sqlite {
            path: path.to_owned(),
            source: error.into(),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(failed)?;
        connection
            .execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")
            .map_err(failed)?;
        Ok(Self { connection })
    }

    /// Makes these dead letters of a sink due again, with all their attempts; returns how many were
    /// still dead.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn revive(
        &mut self,
        sink: &str,
        letters: &[PendingDelivery],
        at: &str,
    ) -> Result<usize, StoreError> {
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let revived = deliveries::revive(&tx, sink, letters, at)?;
        tx.commit()?;
        Ok(revived)
    }

    /// Deletes dead letters of a sink, all or one; returns how many. The log keeps the changes.
    ///
    /// # Errors
    /// Dead letters that were not reached stay.
    pub fn drop_dead(&mut self, sink: &str, seq: Option<i64>) -> Result<usize, StoreError> {
        let mut dropped = 0;
        loop {
            // In steps, so that the daemon's writes are never kept waiting for long.
            let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let step = deliveries::drop_dead(&tx, sink, seq, DROP_STEP)?;
            tx.commit()?;
            dropped += step;
            if seq.is_some() || step < DROP_STEP {
                return Ok(dropped);
            }
        }
    }

    /// Accepts gaps that are not repaired, one or all; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn accept_gaps(&self, id: Option<i64>, note: Option<&str>) -> Result<usize, StoreError> {
        gaps::accept(&self.connection, id, note)
    }
}
