//! What an operator changes from the command line, beside a running daemon or without one.
//!
//! Short write transactions of its own; only [`Operator::forget`] changes the mirror and the log, and
//! only [`Operator::skip_held`] changes a position.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::Access;

use super::error::{OpenError, StoreError};
use super::gaps;
use super::open::{self, write_tx};
use crate::store::outbox::deliveries::{self, PendingDelivery};
use crate::store::outbox::sinks;

/// Dead letters deleted in one transaction.
const DROP_STEP: usize = 10_000;

/// A connection for one command that changes what the operator may change.
#[derive(Debug)]
pub struct Operator {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
}

impl Operator {
    /// Opens an existing store. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] if the file is absent or is not a store of this program.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        drop(open::open_reader(path)?);
        open::permitted(path, "write to", Access::WRITE_OK)?;
        open::refuse_links(path)?;
        let failed = OpenError::sqlite(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(&failed)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(&failed)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(&failed)?;
        connection
            .execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")
            .map_err(&failed)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Makes these dead letters of a sink due again, with all their attempts; returns how many were
    /// still dead. With `only_if_newest` each is delivered only if the sink has no newer version of its
    /// record when its turn comes.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn revive(
        &mut self,
        sink: &str,
        letters: &[PendingDelivery],
        only_if_newest: bool,
        at: &str,
    ) -> Result<usize, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let revived = deliveries::revive(&tx, sink, letters, only_if_newest, at)?;
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
            let tx = write_tx(&mut self.connection)?;
            let step = deliveries::drop_dead(&tx, sink, seq, DROP_STEP)?;
            tx.commit()?;
            dropped += step;
            if seq.is_some() || step < DROP_STEP {
                return Ok(dropped);
            }
        }
    }

    /// Lets the changes of a held sink go, all that the log has now; false if it is not held.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn release_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        Ok(sinks::release(&mut self.connection, sink)?)
    }

    /// Moves a held sink on from one row of the log to another without delivering what lies between,
    /// of which it asked for `wanted`; false if it is not held, or not at the first row any more.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn skip_held(
        &mut self,
        sink: &str,
        rows: (i64, i64),
        wanted: i64,
    ) -> Result<bool, StoreError> {
        Ok(sinks::skip(&mut self.connection, sink, rows, wanted)?)
    }

    /// Forgets a sink that is no longer configured, with its position, its parked changes and its dead
    /// letters; false if it is in use.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn forget_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        Ok(sinks::forget(&mut self.connection, sink)?)
    }

    /// Accepts gaps that are not repaired, one or all; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn accept_gaps(&self, id: Option<i64>, note: Option<&str>) -> Result<usize, StoreError> {
        gaps::accept(&self.connection, id, note)
    }
}
