//! Why a backup or a restore fails.
//!
//! Each message tells the operator what to do next.

use std::path::{Path, PathBuf};

use crate::store::error::StoreError;

/// Why there is no backup, or no restored store. No partial file stays.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file to write exists.
    #[error("{0} exists: name another file, or give --replace to overwrite it")]
    Exists(PathBuf),
    /// The file to write is the store itself, no file, or a file that is no backup.
    #[error(
        "{0} cannot hold a backup: it is a store, one of its side files, or no file that shopmirror wrote; name another file"
    )]
    Unfit(PathBuf),
    /// The file to restore is the store itself.
    #[error("{0} is the store in use: name a backup of it")]
    IsTheStore(PathBuf),
    /// The file to restore is no usable backup.
    #[error("{path} cannot be used as a backup: {reason}; name another backup")]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The copy would leave too little room on the disk.
    #[error(
        "too little room for {path}: {needed} bytes are needed and {free} are free; free some space, or name a file on another disk"
    )]
    NoRoom {
        /// The file to write.
        path: PathBuf,
        /// Bytes that must be free.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The copy is not sound, which means that the store is damaged.
    #[error(
        "the copy of the store failed its check ({0}): run `shopmirror verify`, and keep the older backups"
    )]
    Unsound(String),
    /// The caller asked to stop.
    #[error("stopped before the copy was complete; nothing was written")]
    Stopped,
    /// The store cannot be opened, or a file or folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite failed on the copy.
    #[error("could not copy the store to {path}")]
    Copy {
        /// The file to write.
        path: PathBuf,
        /// Why it failed.
        source: StoreError,
    },
}

impl BackupError {
    /// An error of SQLite while `path` was written.
    pub(in crate::store) fn copy<'a>(path: &'a Path) -> impl Fn(rusqlite::Error) -> Self + 'a {
        move |error| Self::Copy { path: path.to_owned(), source: error.into() }
    }
}
