//! What an operator changes from the command line, beside a running daemon or without one.
//!
//! Short write transactions of its own; only [`Operator::forget_records`] changes the mirror and
//! the log.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Params, Transaction, TransactionBehavior};
use rustix::fs::Access;

use super::error::StoreError;
use super::open;
use super::sql::Sql;
use super::writer::inode_of;

/// A connection for one command that changes what the operator may change.
///
/// # Errors
/// Unless a method says more: the file cannot be written, and nothing is changed.
#[derive(Debug)]
pub struct Operator {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// The number of the file that the connection has open.
    inode: Option<u64>,
}

impl Operator {
    /// Opens an existing store. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the file is absent or is not a store of this program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        drop(open::open_reader(path)?);
        open::refuse_files_of_others(path)?;
        open::permitted(path, "write to", Access::WRITE_OK)?;
        // Before it is opened: if another file takes its place meanwhile, a write notices.
        let inode = inode_of(path);
        let connection = open::connect(path, open::COMMAND_WAIT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            inode,
        })
    }

    /// Runs a statement in a transaction of its own; returns how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: impl Params) -> Result<usize, StoreError> {
        let tx = self.write_tx()?;
        let changed = tx.run(sql, values)?;
        tx.commit()?;
        Ok(changed)
    }

    /// Begins a transaction that writes, unless a restore or a rebuild took the place of the file:
    /// they hold the write lock until then, and a write that waited for it would be lost.
    pub(super) fn write_tx(&self) -> Result<Transaction<'_>, StoreError> {
        let behavior = TransactionBehavior::Immediate;
        let tx = Transaction::new_unchecked(&self.connection, behavior)?;
        if inode_of(&self.path) != self.inode {
            return Err(StoreError::Replaced(self.path.clone()));
        }
        Ok(tx)
    }
}
