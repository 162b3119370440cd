//! The one write connection and what it keeps in memory.
//!
//! Everything in memory saves look-ups and is never the only place of anything that matters.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};
use shopmirror_core::record::Route;

use super::error::StoreError;
use super::identity::Identities;
use super::ingest::memory::Memory;
use super::open::{self, Lock, write_tx};
use super::pollers;
use super::schema;
use crate::store::maintenance;
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
    inodes: Inodes,
    /// The side file that was lost, from [`Self::close`] on until all is open again.
    lost_side_file: Option<PathBuf>,
    pub(super) identities: Identities,
    pub(super) memory: Memory,
    pub(super) prune_from: i64,
    /// Rounds of upkeep so far.
    pub(super) rounds: u64,
    pub(super) wal_most: u64,
    /// The fields of each route whose changes alone are no change of a record.
    pub(super) ignored: HashMap<Route, Vec<String>>,
    pub(super) views: ViewState,
}

/// The numbers of the files that the connection has open. One that is deleted or replaced under its
/// name is lost when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inodes {
    store: Option<u64>,
    /// Of each side file.
    side: [Option<u64>; 2],
}

/// What SQLite keeps beside the store while it is open.
const SIDE_FILES: [&str; 2] = ["-wal", "-shm"];

impl Inodes {
    fn of(store: &Path) -> Self {
        Self {
            store: inode_of(store),
            side: SIDE_FILES.map(|suffix| inode_of(&open::with_suffix(store, suffix))),
        }
    }
}

/// The number of the file at a path; `None` if there is none.
pub(super) fn inode_of(path: &Path) -> Option<u64> {
    let found = std::fs::metadata(path).ok()?;
    Some(found.ino())
}

/// When the views are made again, and what they are made from beside the data.
#[derive(Debug, Default)]
pub(super) struct ViewState {
    /// By which field records name their job, if the configuration says it.
    pub(super) job_link: Option<String>,
    /// The last row of the log when this process checked the views. Records show the types of the
    /// columns and how they name their job: the first ones most, later ones seldom.
    checked_at: i64,
}

impl ViewState {
    /// For a connection that has not checked the views.
    pub(super) fn new(job_link: Option<String>) -> Self {
        Self {
            job_link,
            checked_at: 0,
        }
    }

    /// Checks the views if there are new columns, or if the log is twice as long as at the last
    /// check; `last_seq` is its last row.
    pub(super) fn keep_up(
        &mut self,
        tx: &Transaction<'_>,
        has_new_columns: bool,
        last_seq: i64,
    ) -> rusqlite::Result<()> {
        if !has_new_columns && last_seq < self.checked_at.saturating_mul(2) {
            return Ok(());
        }
        self.checked_at = last_seq;
        let is_linked = job_links::refresh(tx, self.job_link.as_deref())?;
        // With the indexes by which a job finds its records.
        views::refresh(tx)?;
        if is_linked {
            job_states::rebuild(tx)?;
        }
        Ok(())
    }
}

/// The fields of a route whose changes alone are no change of a record.
pub(super) fn ignored_fields(ignored: &HashMap<Route, Vec<String>>, route: Route) -> &[String] {
    match ignored.get(&route) {
        Some(fields) => fields,
        None => &[],
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, lock: Lock, path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            identities: Identities::read(&connection)?,
            connection,
            _lock: lock,
            path: path.to_owned(),
            inodes: Inodes::of(path),
            lost_side_file: None,
            memory: Memory::default(),
            prune_from: 0,
            rounds: 0,
            wal_most: MAX_WAL,
            ignored: HashMap::new(),
            views: ViewState::default(),
        })
    }

    /// Refuses a store whose file was deleted or replaced; returns the side file to which that
    /// happened.
    pub(super) fn missing_side_file(&mut self) -> Result<Option<PathBuf>, StoreError> {
        let found = Inodes::of(&self.path);
        if found.store != self.inodes.store {
            return Err(StoreError::Gone(self.path.clone()));
        }
        if let Some(lost) = &self.lost_side_file {
            return Ok(Some(lost.clone()));
        }
        if found == self.inodes {
            return Ok(None);
        }
        let known = self.inodes.side;
        for (place, suffix) in SIDE_FILES.into_iter().enumerate() {
            if known[place].is_some() && known[place] != found.side[place] {
                return Ok(Some(open::with_suffix(&self.path, suffix)));
            }
        }
        self.inodes = found;
        Ok(None)
    }

    /// Closes the connection, because a side file was lost; nothing can be written before
    /// [`Self::reopen`].
    pub(super) fn close(&mut self, lost: &Path) -> Result<(), StoreError> {
        self.lost_side_file = Some(lost.to_owned());
        self.connection = Connection::open_in_memory()?;
        Ok(())
    }

    /// Opens the connection again.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        self.connection = schema::reopen(&self.path)?;
        // Another program may have written meanwhile, and the numbers by which a connection notices
        // that begin anew with it.
        self.memory.drop_versions();
        Ok(())
    }

    /// Notes that every connection of the process is open again. Until then each write tries to.
    pub(super) fn note_open(&mut self) {
        self.inodes = Inodes::of(&self.path);
        self.lost_side_file = None;
    }

    /// Refuses to add to a write-ahead log that is too long, unless it can be cut now.
    pub(super) fn refuse_long_wal(&mut self) -> Result<(), StoreError> {
        if self.wal_size() <= self.wal_most {
            return Ok(());
        }
        maintenance::cut_wal(&self.connection)?;
        if self.wal_size() <= self.wal_most {
            return Ok(());
        }
        Err(StoreError::Limit(
            "another program keeps a read transaction open, so the write-ahead log cannot be emptied: end that program",
        ))
    }

    /// The size of the write-ahead log in bytes.
    pub(super) fn wal_size(&self) -> u64 {
        match std::fs::metadata(open::with_suffix(&self.path, "-wal")) {
            Ok(found) => found.len(),
            Err(_) => 0,
        }
    }

    /// Writes what is only in memory: the rows of the pollers.
    pub(super) fn save_memory(&mut self) -> Result<(), StoreError> {
        if self.memory.is_empty() {
            // A stop must not wait for a lock that another program holds.
            return Ok(());
        }
        let tx = write_tx(&mut self.connection)?;
        for (poller, row) in self.memory.rows() {
            pollers::save(&tx, poller, row)?;
        }
        tx.commit()?;
        Ok(())
    }
}
