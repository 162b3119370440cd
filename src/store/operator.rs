//! What an operator changes from the command line, beside a running daemon or without one.
//!
//! Short write transactions of its own; only [`Operator::forget_records`] changes the mirror and
//! the log.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rustix::fs::Access;

use super::error::StoreError;
use super::open;

/// A connection for one command that changes what the operator may change.
///
/// # Errors
/// Unless a method says more: the file cannot be written, and nothing is changed.
#[derive(Debug)]
pub struct Operator {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
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
        let connection = open::connect(path, open::COMMAND_WAIT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }
}
