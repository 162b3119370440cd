//! The one write connection and what it keeps in memory.
//!
//! Everything in memory saves look-ups and is never the only place of anything that matters.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};
use shopmirror_core::record::{PollerId, Route};

use super::error::StoreError;
use super::identity::Identities;
use super::log;
use super::mirror::Mirror;
use super::open::{self, Lock, write_tx};
use super::pollers::{self, KnownPollers};
use crate::store::keep::checkpoint;
use crate::store::mirror::{job_links, job_states, views};

/// The write-ahead log may grow to this many bytes while another program keeps a read transaction
/// open. Past it no page is stored until that program ends its transaction.
const MAX_WAL: u64 = 1024 * 1024 * 1024;

/// What the one write connection works with.
pub(super) struct Writer {
    pub(super) connection: Connection,
    /// Held as long as the store is open.
    _lock: Lock,
    pub(super) path: PathBuf,
    inode: u64,
    pub(super) identities: Identities,
    pub(super) known: KnownPollers,
    pub(super) prune_from: i64,
    /// Rounds of upkeep so far.
    pub(super) rounds: u64,
    pub(super) wal_most: u64,
    /// The fields of each route whose changes alone are no change of a record.
    pub(super) ignored: HashMap<Route, Vec<String>>,
    /// By which field records name their job, if the configuration says it.
    pub(super) job_link: Option<String>,
    /// The last row of the log when the views were looked at, by this process. Records tell the
    /// types of the columns and how they name their job: the first ones most, later ones seldom.
    looked_at: i64,
}

/// One transaction that changes the mirror of a route.
pub(super) struct Batch<'a> {
    pub(super) tx: &'a Transaction<'a>,
    pub(super) identities: &'a Identities,
    pub(super) mirror: Mirror,
    pub(super) known: &'a KnownPollers,
    /// The fields whose changes alone are no change of a record.
    pub(super) ignored: &'a [String],
    /// The jobs whose current state may be another one now.
    pub(super) touched: Vec<String>,
    /// Whether a table has more columns now, so that the views are rebuilt.
    pub(super) has_new_columns: bool,
}

impl Writer {
    pub(super) fn new(connection: Connection, lock: Lock, path: &Path) -> Result<Self, StoreError> {
        let found = std::fs::metadata(path).map_err(StoreError::io("read", path))?;
        Ok(Self {
            identities: Identities::read(&connection)?,
            connection,
            _lock: lock,
            path: path.to_owned(),
            inode: found.ino(),
            known: HashMap::new(),
            prune_from: 0,
            rounds: 0,
            wal_most: MAX_WAL,
            ignored: HashMap::new(),
            job_link: None,
            looked_at: 0,
        })
    }

    pub(super) fn refuse_replaced_file(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if found.ino() == self.inode => Ok(()),
            _ => Err(StoreError::Gone(self.path.clone())),
        }
    }

    /// Reads what a poller knows, unless it is in memory.
    pub(super) fn know(&mut self, id: &PollerId) -> Result<(), StoreError> {
        if !self.known.contains_key(id)
            && let Some(row) = pollers::find(&self.connection, id)?
        {
            self.known.insert(id.clone(), row);
        }
        Ok(())
    }

    /// Refuses to add to a write-ahead log that is too long, unless it can be cut now.
    pub(super) fn refuse_long_wal(&mut self) -> Result<(), StoreError> {
        let size =
            || std::fs::metadata(open::with_suffix(&self.path, "-wal")).map_or(0, |m| m.len());
        if size() <= self.wal_most {
            return Ok(());
        }
        checkpoint::cut_wal(&self.connection)?;
        if size() <= self.wal_most {
            return Ok(());
        }
        Err(StoreError::Limit(
            "another program keeps a read transaction open, so the write-ahead log cannot be emptied: end that program",
        ))
    }

    /// Runs `work` in one transaction that may change the mirror of a route. An error stores
    /// nothing, and what writes nothing costs no write.
    pub(super) fn in_batch<T>(
        &mut self,
        route: Route,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.refuse_long_wal()?;
        let tx = write_tx(&mut self.connection)?;
        let changes = tx.total_changes();
        let mut batch = Batch {
            tx: &tx,
            identities: &self.identities,
            mirror: Mirror::load(&tx, route)?,
            known: &self.known,
            ignored: self.ignored.get(&route).map_or(&[], Vec::as_slice),
            touched: Vec::new(),
            has_new_columns: false,
        };
        let outcome = work(&mut batch)?;
        job_states::refresh(&tx, &batch.touched)?;
        let is_written = tx.total_changes() != changes;
        let last_seq = log::last_seq(&tx)?;
        if batch.has_new_columns || (is_written && last_seq >= self.looked_at.saturating_mul(2)) {
            self.looked_at = last_seq;
            let is_linked = job_links::look(&tx, self.job_link.as_deref())?;
            // With the indexes by which a job finds its records.
            views::refresh(&tx)?;
            if is_linked {
                job_states::rebuild(&tx)?;
            }
        }
        tx.commit()?;
        Ok(outcome)
    }

    /// Writes what is only in memory: what each poller knows.
    pub(super) fn save_memory(&mut self) -> Result<(), StoreError> {
        if self.known.is_empty() {
            // A stop must not wait for a lock that another program holds.
            return Ok(());
        }
        let tx = write_tx(&mut self.connection)?;
        for (poller, row) in &self.known {
            pollers::save(&tx, poller, row)?;
        }
        tx.commit()?;
        Ok(())
    }
}
