//! Opens the file: the lock, the checks and the options of every connection.
//!
//! The file is the only copy of the history: nothing here deletes or recreates it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use rustix::fs::Access;
use rustix::io::Errno;

use super::error::StoreError;
use super::place::StorePlace;
use crate::files::lock::lock_soon;
use crate::files::owner;

/// `shmr`, in the file's header.
pub(super) const APPLICATION_ID: i64 = 0x7368_6d72;
/// The application id is the last four bytes of this part of an SQLite file.
const HEADER_LENGTH: usize = 72;
/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header says how the file is written.
const JOURNAL_MODE: usize = 18;
/// Without a write-ahead log.
const ROLLBACK: u8 = 1;

/// The options of every connection.
const OPTIONS: [(DbConfig, bool); 3] = [
    // A misspelt column in double quotes is an error and not a text.
    (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    // A plan does not depend on the values that are bound. Otherwise SQLite prepares some
    // statements again each time that they are bound, which costs more than running them.
    (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
];

/// How long a write waits for another program's transaction. Behind the one write connection the
/// waits of all callers add up, and pages wait behind a checkpoint that waits for a reader.
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(500);
/// How long a command waits for one.
pub(super) const COMMAND_WAIT: Duration = Duration::from_secs(5);

/// The schema of this program: the `user_version` of its files.
pub(super) const SCHEMA: i64 = 1;

/// The lock of the process that uses the store. Its file holds the id of that process, and in the
/// second line the identity of the store, which says that there was one if the store is gone.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    identity: String,
}

impl Lock {
    pub(super) fn take(store: &Path) -> Result<Self, StoreError> {
        let path = with_suffix(store, "-lock");
        let opened = owner::open_or_create(&path);
        if opened.is_err() {
            refuse_file_of_others(&path)?;
        }
        let mut file = opened.map_err(StoreError::io("open", &path))?;
        // A command that calls `holder` has it for a moment.
        let locked = lock_soon(&file);
        let content = read_lock(&mut file).map_err(StoreError::io("read", &path))?;
        match locked {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StoreError::Held {
                    path: store.to_owned(),
                    holder: or_unknown(content.holder),
                });
            }
            Err(fs::TryLockError::Error(source)) => {
                return Err(StoreError::io("lock", &path)(source));
            }
        }
        let mut lock = Self {
            file,
            identity: content.identity,
        };
        match lock.write() {
            // On a full disk the lock is held too, but its file does not name the process.
            Err(error) if error.kind() == ErrorKind::StorageFull => {}
            Err(error) => return Err(StoreError::io("write", &path)(error)),
            Ok(()) => {}
        }
        Ok(lock)
    }

    /// Notes the identity of the store, durably; none if it is empty.
    pub(super) fn note(&mut self, store: &Path, identity: &str) -> Result<(), StoreError> {
        if self.identity == identity {
            return Ok(());
        }
        identity.clone_into(&mut self.identity);
        let written = self.write().and_then(|()| self.file.sync_all());
        let path = with_suffix(store, "-lock");
        written.map_err(StoreError::io("write", &path))
    }

    /// Writes over what was there, so that a full disk does not cost the identity.
    fn write(&mut self) -> std::io::Result<()> {
        let holder = std::process::id();
        let text = format!("{holder:<10}\n{}\n", self.identity);
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A program that is just being started may hold a copy of the descriptor, and with it the
        // lock. Unlocking releases it at once.
        let _ = self.file.unlock();
    }
}

/// The id of the process that holds the store, from its lock file.
#[must_use]
pub fn holder(store: &Path) -> Option<String> {
    let mut file = File::open(with_suffix(store, "-lock")).ok()?;
    let Err(fs::TryLockError::WouldBlock) = file.try_lock_shared() else {
        return None;
    };
    let content = read_lock(&mut file).ok()?;
    Some(or_unknown(content.holder))
}

/// The identity of the store, from its lock file. A first start that died has left none.
pub(super) fn noted_identity(store: &Path) -> Option<String> {
    let mut file = File::open(with_suffix(store, "-lock")).ok()?;
    let content = read_lock(&mut file).ok()?;
    if content.identity.is_empty() {
        return None;
    }
    Some(content.identity)
}

/// What a lock file holds; empty texts for what it does not.
struct LockContent {
    holder: String,
    identity: String,
}

fn read_lock(file: &mut File) -> std::io::Result<LockContent> {
    let mut text = String::new();
    file.rewind()?;
    Read::take(file, 128).read_to_string(&mut text)?;
    let mut lines = text.lines().map(|line| line.trim().to_owned());
    Ok(LockContent {
        holder: lines.next().unwrap_or_default(),
        identity: lines.next().unwrap_or_default(),
    })
}

fn or_unknown(holder: String) -> String {
    if holder.is_empty() {
        "(unknown)".to_owned()
    } else {
        holder
    }
}

/// Opens the store of a place for writing, or makes a new file unless one was lost there. Reads
/// only its first pages and the write-ahead log.
pub(super) fn open(place: &StorePlace) -> Result<(Connection, Lock), StoreError> {
    let path = place.path.as_path();
    // Before the folder is made: that of a disk which is not mounted is another one.
    place.refuse_lost()?;
    let folder = owner::folder_of(path);
    owner::create_folder(folder).map_err(StoreError::io("make", folder))?;
    refuse_network_file_system(path, folder)?;
    let lock = Lock::take(path)?;
    // A restore may have ended meanwhile.
    place.refuse_lost()?;

    refuse_files_of_others(path)?;
    refuse_stale_log(path)?;
    warn_of_links(path);

    // Created here, so that SQLite gives its side files the same mode and owner.
    drop(owner::open_or_create(path).map_err(StoreError::io("open", path))?);

    let connection = connect(path, LOCK_WAIT)?;
    if identify(&connection, path)? == 0 {
        place.refuse_without_content()?;
    }
    Ok((connection, lock))
}

/// Refuses a file of the store that this user may not write because another user made it, as root
/// does with `sqlite3`. SQLite would say only that it cannot open the database.
pub(super) fn refuse_files_of_others(store: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm"] {
        refuse_file_of_others(&with_suffix(store, suffix))?;
    }
    Ok(())
}

fn refuse_file_of_others(path: &Path) -> Result<(), StoreError> {
    if rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK) != Err(Errno::ACCESS) {
        return Ok(());
    }
    let folder = owner::folder_of(path);
    // What a link names may be any file, and is not to be given away.
    if let (Ok(file), Ok(above)) = (fs::symlink_metadata(path), fs::metadata(folder))
        && !file.is_symlink()
        && file.uid() != above.uid()
    {
        return Err(StoreError::NotOurs {
            path: path.to_owned(),
            folder: folder.to_owned(),
        });
    }
    Ok(())
}

/// Refuses a write-ahead log beside a file that never had one: SQLite would take its content for a
/// part of the file.
///
/// Only for a process that has no connection to the store: to close a file drops the locks that the
/// process has on it.
///
/// # Errors
/// [`StoreError::StaleLog`]
pub fn refuse_stale_log(store: &Path) -> Result<(), StoreError> {
    let log = with_suffix(store, "-wal");
    let has_content = fs::metadata(&log).is_ok_and(|found| found.len() > 0);
    if has_content && is_copy(store) {
        return Err(StoreError::StaleLog {
            store: store.to_owned(),
            log,
        });
    }
    Ok(())
}

/// Says that the store has a second name, by which other programs would use other side files.
fn warn_of_links(store: &Path) {
    if fs::metadata(store).is_ok_and(|found| found.nlink() > 1) {
        let folder = owner::folder_of(store).display();
        let path = store.display();
        tracing::warn!(
            "{path} has a second name (a hard link): a program that opens it by that name damages \
             it; find the name with `find {folder} -xdev -samefile {path}` and remove it"
        );
    }
}

/// Opens a store of this program that may be damaged or altered, with what its write-ahead log
/// holds.
pub(super) fn connect_to_ours(path: &Path) -> Result<Connection, StoreError> {
    refuse_files_of_others(path)?;
    refuse_stale_log(path)?;
    let connection = connect(path, LOCK_WAIT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    if identify(&connection, path)? == 0 {
        return Err(StoreError::Missing(path.to_owned()));
    }
    Ok(connection)
}

/// Begins a transaction that writes. It takes the write lock at once, so that what it reads is what
/// it changes.
pub(super) fn write_tx(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Opens a file that exists for writing. `wait` is how long a write waits for another program's
/// transaction.
pub(super) fn connect(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    connect_by(path, OpenFlags::SQLITE_OPEN_READ_WRITE, wait)
}

fn connect_by(path: &Path, flag: OpenFlags, wait: Duration) -> rusqlite::Result<Connection> {
    let mut flags = flag | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut place = path.to_owned();
    if owner::is_in_foreign_folder(path)
        && let Ok(folder) = owner::folder_of(path).canonicalize()
        && let Some(name) = path.file_name()
    {
        // The folders above may be links; the file itself may not have become one meanwhile.
        flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
        place = folder.join(name);
    }
    let connection = Connection::open_with_flags(&place, flags)?;
    connection.busy_timeout(wait)?;
    for (option, on) in OPTIONS {
        connection.set_db_config(option, on)?;
    }
    Ok(connection)
}

/// Refuses a file of another program or of a newer version; returns the schema number, 0 for an
/// empty file.
fn identify(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let application = number(connection, path, "PRAGMA application_id")?;
    let version = number(connection, path, "PRAGMA user_version")?;
    let objects = number(connection, path, "SELECT count(*) FROM sqlite_schema")?;
    if application == 0 && version == 0 && objects == 0 {
        return Ok(0);
    }
    if application == 0 && has_our_tables(connection) {
        return Err(StoreError::Dumped {
            path: path.to_owned(),
            application: APPLICATION_ID,
            schema: SCHEMA,
        });
    }
    if application != APPLICATION_ID {
        let reason = format!("its application id is {application:#x}");
        return Err(StoreError::Foreign {
            path: path.to_owned(),
            reason,
        });
    }
    if version > SCHEMA {
        let path = path.to_owned();
        return Err(StoreError::Newer {
            path,
            found: version,
            known: SCHEMA,
        });
    }
    Ok(version)
}

/// True if the tables are those of a store, although the header does not say so.
fn has_our_tables(connection: &Connection) -> bool {
    let sql = "
        SELECT count(*)
        FROM sqlite_schema
        WHERE type = 'table' AND name IN ('changes', 'gaps', '_meta', '_sinks', '_queue')";
    let found: rusqlite::Result<i64> = connection.query_row(sql, [], |row| row.get(0));
    found.is_ok_and(|tables| tables == 5)
}

/// The number that a statement reads from the header of a file. A damaged store must not be
/// reported as another program's file.
fn number(connection: &Connection, path: &Path, sql: &str) -> Result<i64, StoreError> {
    let number = connection.query_row(sql, [], |row| row.get(0));
    match number.map_err(StoreError::from) {
        Err(StoreError::Corrupt(reason)) if !is_ours(path) => Err(StoreError::Foreign {
            path: path.to_owned(),
            reason,
        }),
        number => number,
    }
}

/// True if the file is a store of this program, however damaged: its header has our application id,
/// or its write-ahead log lies beside it.
pub(super) fn is_ours(path: &Path) -> bool {
    has_our_header(path) || with_suffix(path, "-wal").exists()
}

/// True if the file is a store of this program, or was one before it was damaged: its lock file
/// notes an identity, or a write-ahead log lies beside what is no database of another program.
pub(super) fn was_ours(path: &Path) -> bool {
    has_our_header(path)
        || noted_identity(path).is_some()
        || (with_suffix(path, "-wal").exists() && !is_database(path))
}

/// True if the file begins as one of SQLite does.
fn is_database(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == MAGIC
}

/// True if the file begins as a store of this program does.
pub(super) fn has_our_header(path: &Path) -> bool {
    our_header(path).is_some()
}

/// True if the file is a copy of a store that needs no side file, as backups are.
fn is_copy(path: &Path) -> bool {
    our_header(path).is_some_and(|header| header[JOURNAL_MODE] == ROLLBACK)
}

/// The beginning of a store of this program.
fn our_header(path: &Path) -> Option<[u8; HEADER_LENGTH]> {
    let mut file = File::open(path).ok()?;
    let mut header = [0; HEADER_LENGTH];
    file.read_exact(&mut header).ok()?;
    let id = APPLICATION_ID.to_be_bytes();
    if header.ends_with(&id[id.len() - 4..]) {
        Some(header)
    } else {
        None
    }
}

/// Refuses a file that is absent or that this user may not access in this way.
///
/// It does not open the file, because closing it would drop the locks that this process has on it.
pub(super) fn permitted(path: &Path, action: &'static str, how: Access) -> Result<(), StoreError> {
    match rustix::fs::access(path, how) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => Err(StoreError::Missing(path.to_owned())),
        Err(why) => Err(StoreError::io(action, path)(why.into())),
    }
}

/// Opens a connection that can only read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    owner::refuse_foreign_link(path).map_err(StoreError::io("open", path))?;
    permitted(path, "read", Access::READ_OK)?;
    let connection = connect_by(path, OpenFlags::SQLITE_OPEN_READ_ONLY, COMMAND_WAIT)?;
    if identify(&connection, path)? == 0 {
        return Err(StoreError::Missing(path.to_owned()));
    }
    connection.execute_batch("PRAGMA cache_size = -512; PRAGMA trusted_schema = OFF;")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn refuse_network_file_system(path: &Path, folder: &Path) -> Result<(), StoreError> {
    let Ok(found) = rustix::fs::statfs(folder) else {
        return Ok(());
    };
    // The magic numbers of statfs(2).
    let kind = match found.f_type as u64 & 0xffff_ffff {
        0x6969 => "nfs",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x0102_1997 => "9p",
        _ => return Ok(()),
    };
    Err(StoreError::NetworkFileSystem {
        path: path.to_owned(),
        kind,
    })
}

/// The path of a side file: the store's whole name and a suffix.
pub(super) fn with_suffix(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
