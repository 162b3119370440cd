//! The errors of the store, in the few kinds that a caller treats differently.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// Why the store could not be opened, read or written. Nothing of a failed write is stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the store.
    #[error(
        "{path} is in use by process {holder}: stop it first (`systemctl stop shopmirror` if it is \
         the service); a second shop needs a [store] path of its own"
    )]
    Held {
        /// The store's file.
        path: PathBuf,
        /// The holder, from the lock file.
        holder: String,
    },
    /// The file is no store of this program.
    #[error("{path} was not made by shopmirror: {reason}; set [store] path to another file")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
    /// The file was written by a later version of the program.
    #[error(
        "{path} has schema {found}, this program knows up to {known}: install the newer shopmirror \
         again"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema number found.
        found: i64,
        /// The newest schema number that this program knows.
        known: i64,
    },
    /// The file lies where locks cannot be trusted.
    #[error("{path} lies on a network file system ({kind}): keep the store on a local disk")]
    NetworkFileSystem {
        /// The file.
        path: PathBuf,
        /// The file system's name.
        kind: &'static str,
    },
    /// A file or folder could not be made or read.
    #[error("could not {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// No store is there yet, and the caller may not make one.
    #[error("there is no store at {0}: start `shopmirror run` or `shopmirror once` first")]
    Missing(PathBuf),
    /// There was a store, and it is gone.
    #[error("there is no database at {path}, although {trace}; nothing was begun")]
    Lost {
        /// Where it is to be.
        path: PathBuf,
        /// What says that there was one.
        trace: String,
        /// The newest backup of it.
        newest: Option<PathBuf>,
    },
    /// An empty store was asked for where there is one.
    #[error(
        "{0} is there: `restore --new-store` is for a database that is gone; to begin with an empty \
         one, move this one away first"
    )]
    NotLost(PathBuf),
    /// The file for a backup exists.
    #[error("{0} exists: name another file, or give --replace to overwrite it")]
    Exists(PathBuf),
    /// The file for a backup is the store itself, no file, or a file that is no backup.
    #[error(
        "{0} cannot hold a backup: it is a store, one of its side files, or no file that \
         shopmirror wrote; name another file"
    )]
    Unfit(PathBuf),
    /// The file to restore is no usable backup.
    #[error("{path} cannot be used as a backup: {reason}; name another backup")]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A restore would replace a file that was never a store.
    #[error(
        "{0} was not made by shopmirror, and a restore does not replace it: name another file as \
         `path` in [store], or move this one away first (`mv {0} {0}.old`)"
    )]
    NotReplaced(PathBuf),
    /// A copy would leave too little room on the disk.
    #[error(
        "too little room for {path}: {needed} bytes are needed and {free} are free; free some \
         space, or name a file on another disk"
    )]
    NoRoom {
        /// The file to write.
        path: PathBuf,
        /// Bytes that must be free.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The caller asked to stop a copy. No partial file stays.
    #[error("stopped before the copy was complete; nothing was written")]
    Stopped,
    /// The disk is full. The daemon waits until there is space.
    #[error("the disk is full: free some space")]
    Full,
    /// The store's files may not grow, although the disk seems to have room.
    #[error("the store may not grow: {0}")]
    Limit(&'static str),
    /// Another process holds the write lock for too long.
    #[error("another program holds the store's write lock: end its transaction")]
    Busy,
    /// The file is damaged: it is not changed, so that a person can look at it.
    #[error(
        "the store is damaged ({0}): stop the daemon, then restore a backup, or run `shopmirror \
         verify --rebuild`, which keeps the file and makes a new one of all that can be read"
    )]
    Corrupt(String),
    /// A table is not as this program made it.
    #[error(
        "another program altered a table of the store ({0}): stop the daemon, then run `shopmirror \
         verify --rebuild`"
    )]
    Altered(String),
    /// The file was deleted or replaced while it was open.
    #[error("{0} was deleted or replaced while it was open: stop, and put the file back")]
    Gone(PathBuf),
    /// A restore or a rebuild took the place of the file while a command waited for it.
    #[error("{0} was replaced meanwhile, so nothing was changed: run the command again")]
    Replaced(PathBuf),
    /// A side file was deleted while the store was open, and a reader keeps what it held from being
    /// saved.
    #[error(
        "{0} was deleted while the store was open, and another program reads the store: end that \
         program, so that what the file held can be saved"
    )]
    SideFileGone(PathBuf),
    /// A file of the store belongs to another user than its folder.
    #[error(
        "this user may not write {path}, as a program of another user made it: run `chown -h \
         --reference={folder} {path}` as root"
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// A log lies beside a copy that has none.
    #[error(
        "{store} is a backup, and {log} belongs to the database that was there before: move it to \
         that database, or remove it with `rm {log}`"
    )]
    StaleLog {
        /// The store.
        store: PathBuf,
        /// The write-ahead log.
        log: PathBuf,
    },
    /// A copy that was made by `.dump` says no longer whose file it is.
    #[error(
        "{path} is a copy made by `.dump`, which leaves out whose file it is: run `sqlite3 {path} \
         'PRAGMA application_id = {application}; PRAGMA user_version = {schema}'`"
    )]
    Dumped {
        /// The file.
        path: PathBuf,
        /// The application id that it lacks.
        application: i64,
        /// The schema number that it lacks.
        schema: i64,
    },
    /// There is no search index, or it cannot be used: it is damaged, or was made from another log.
    #[error(
        "there is no usable search index: the daemon makes it, so try again in a minute; without a \
         daemon, run `shopmirror verify --rebuild`; if neither helps, delete the file `search.db`"
    )]
    NoSearchIndex,
    /// A read was stopped at its time limit.
    #[error("reading took too long and was stopped: ask for less")]
    TooLong,
    /// The program that uses the store is ending.
    #[error("the store is closing")]
    Closing,
    /// Reading or writing the file failed.
    #[error("the store failed")]
    Sqlite(#[source] rusqlite::Error),
}

impl StoreError {
    /// An error of a file or folder.
    pub(super) fn io<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether waiting can help. Every other error ends the process.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.is_full() || matches!(self, Self::Busy | Self::SideFileGone(_))
    }

    /// Whether the failure lies in one statement or value, so that work on other tables may
    /// continue; not in the disk or the machine.
    #[must_use]
    pub fn is_of_one_route(&self) -> bool {
        let error = match self {
            Self::Altered(_) => return true,
            Self::Sqlite(error) => error,
            _ => return false,
        };
        !matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
            )
        )
    }

    /// Whether there is no room for the store to grow.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full | Self::Limit(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if let Some(missing) = missing_object(&error) {
            return Self::Altered(missing);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt(error.to_string())
            }
            Some(ErrorCode::OperationInterrupted) => Self::TooLong,
            _ if is_refused_write(&error) => Self::Limit(
                "a write was refused: look for a failing disk (`journalctl -k`), a quota or a file \
                 size limit (LimitFSIZE= in the unit)",
            ),
            _ => Self::Sqlite(error),
        }
    }
}

/// The table or column that is not there, in the words of SQLite.
fn missing_object(error: &rusqlite::Error) -> Option<String> {
    let text = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        rusqlite::Error::SqliteFailure(_, Some(text)) => text,
        _ => return None,
    };
    if text.contains("no such table")
        || text.contains("no such column")
        || text.contains("has no column")
    {
        Some(text.clone())
    } else {
        None
    }
}

/// A write that failed for a quota, a limit or the disk. What the disk has no room for has a code
/// of its own.
fn is_refused_write(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(
        code,
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: i32) -> StoreError {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn a_write_that_the_system_refuses_is_transient_and_a_read_that_fails_is_not() {
        for code in [
            ffi::SQLITE_IOERR_WRITE,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_FULL,
        ] {
            assert!(failed(code).is_transient(), "{code}");
        }
        assert!(!failed(ffi::SQLITE_IOERR_READ).is_transient());
    }

    #[test]
    fn what_fails_in_the_disk_or_the_machine_is_not_of_one_route() {
        for code in [
            ffi::SQLITE_ERROR,
            ffi::SQLITE_CONSTRAINT,
            ffi::SQLITE_TOOBIG,
        ] {
            assert!(failed(code).is_of_one_route(), "{code}");
        }
        let machine = [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_PERM,
            ffi::SQLITE_NOMEM,
        ];
        for code in machine {
            assert!(!failed(code).is_of_one_route(), "{code}");
        }
    }
}
