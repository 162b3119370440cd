//! The index of all words: a file of its own beside the store, made from the log alone.
//!
//! A row belongs to the newest version of a record and has that version's number in the log. The
//! file can be deleted at any time: it is made again in bounded steps, by the process that has the
//! store's lock and by no other. No page waits for it, and nothing but searches needs it.

pub(super) mod find;
mod words;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use super::error::{OpenError, StoreError};
use super::reader::Reader;
use super::{log, open};
use crate::file_owner;
pub use find::Found;

/// Changes when [`words::of_record`] or the tables do: an index of another form is made again.
const FORM: i64 = 1;
/// `followed` has one row: the last row of the log that is indexed, and its event id.
const CREATE: &str =
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, \
       detail=none, tokenize='unicode61 remove_diacritics 2');
     CREATE TABLE followed (seq INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
     INSERT INTO followed (seq, event_id) VALUES (0, '');";
/// Rows of the log in one step: some milliseconds of work.
const STEP: i64 = 500;

/// The next rows of the log, each with the version before it; with a text only if the row is the newest
/// version of its record.
pub(super) const NEXT: &str = "SELECT c.seq, c.event_id, p.seq, CASE WHEN c.kind IN ('baseline', 'created', 'updated') \
     AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.route = c.route AND n.record_id = c.record_id \
     AND n.version > c.version) THEN c.body END FROM changes c LEFT JOIN changes p ON p.route = c.route \
     AND p.record_id = c.record_id AND p.version = c.version - 1 WHERE c.seq > ?1 ORDER BY c.seq LIMIT ?2";

/// How far the index of all words has followed the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexProgress {
    /// The last row of the log that is indexed.
    pub indexed: i64,
    /// The last row of the log.
    pub last_seq: i64,
}

impl IndexProgress {
    /// Whether every row of the log is indexed.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.indexed >= self.last_seq
    }
}

/// Follows the log of one store. Only for a process that has the store's lock.
pub(super) struct Indexer {
    path: PathBuf,
    log: Reader,
    /// The open file and its inode.
    open: Option<(Connection, u64)>,
}

impl Indexer {
    pub(super) fn new(store: &Path) -> Result<Self, OpenError> {
        Ok(Self { path: path_of(store), log: Reader::open(store)?, open: None })
    }

    /// Indexes the next rows of the log. If the file is missing, damaged, of another form or of another
    /// log, it is first made anew.
    ///
    /// # Errors
    /// The index is as it was before the step, or is missing.
    pub(super) fn step(&mut self) -> Result<IndexProgress, StoreError> {
        match self.try_step() {
            Err(StoreError::NoSearchIndex | StoreError::SearchDamaged) => {
                self.open = None;
                remove_file(&self.path)?;
                self.try_step()
            }
            stepped => stepped,
        }
    }

    fn try_step(&mut self) -> Result<IndexProgress, StoreError> {
        // The file is open before the log is read: if `forget` deletes the one and changes the other
        // meanwhile, the words it removes go with the file.
        let index = current(&self.path, &mut self.open)?;
        let tx =
            index.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unusable)?;
        let (before, event_id) = followed(&tx)?;
        if !log::has_event(&self.log.connection, before, &event_id)? {
            return Err(StoreError::NoSearchIndex);
        }
        let last = index_after(&tx, &self.log.connection, before)?;
        if let Some((seq, event_id)) = &last {
            tx.execute("UPDATE followed SET seq = ?1, event_id = ?2", (seq, event_id))
                .map_err(unusable)?;
        }
        tx.commit().map_err(unusable)?;
        let indexed = last.map_or(before, |(seq, _)| seq);
        Ok(IndexProgress { indexed, last_seq: self.log.last_seq()? })
    }
}

/// The open file, opened anew if another one or none lies in its place.
fn current<'a>(
    path: &Path,
    open: &'a mut Option<(Connection, u64)>,
) -> Result<&'a mut Connection, StoreError> {
    let inode = || fs::metadata(path).map(|file| file.ino());
    let in_place = inode().ok();
    let kept = open.take().filter(|(_, inode)| Some(*inode) == in_place);
    let kept = match kept {
        Some(kept) => kept,
        None => (open_or_make(path)?, inode().map_err(failed(path))?),
    };
    Ok(&mut open.insert(kept).0)
}

/// Indexes the rows of the log after one of them; returns the last of them and its event id.
fn index_after(
    index: &Connection,
    log: &Connection,
    after: i64,
) -> Result<Option<(i64, String)>, StoreError> {
    let mut insert = index
        .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")
        .map_err(unusable)?;
    let mut delete =
        index.prepare_cached("DELETE FROM words WHERE rowid = ?1").map_err(unusable)?;
    let mut next = log.prepare_cached(NEXT)?;
    let mut rows = next.query((after, STEP))?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if let Some(before) = row.get::<_, Option<i64>>(2)? {
            delete.execute([before]).map_err(unusable)?;
        }
        if let Some(body) = row.get::<_, Option<String>>(3)? {
            insert.execute((seq, words::of_record(&body))).map_err(unusable)?;
        }
        last = Some((seq, row.get(1)?));
    }
    Ok(last)
}

/// The last row of the log that an index has, and its event id.
fn followed(index: &Connection) -> Result<(i64, String), StoreError> {
    let form: i64 =
        index.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unusable)?;
    if form != FORM {
        return Err(StoreError::NoSearchIndex);
    }
    index
        .query_row("SELECT seq, event_id FROM followed", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(unusable)
}

fn open_or_make(path: &Path) -> Result<Connection, StoreError> {
    let is_new = !path.exists();
    if is_new {
        // What a deleted file has left, and then the file itself, so that SQLite gives its side files the
        // same mode and owner.
        remove_file(path)?;
        file_owner::open_or_make(path).map_err(failed(path))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut index = Connection::open_with_flags(path, flags).map_err(unusable)?;
    let prepare = |index: &mut Connection| -> rusqlite::Result<()> {
        index.busy_timeout(open::LOCK_WAIT)?;
        // Keeps -wal and -shm in place after a stop, which read-only users need.
        index.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // A power failure may lose the last steps, which are then repeated: no step waits for the disk.
        index.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;",
        )?;
        if is_new {
            let tx = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
            tx.execute_batch(CREATE)?;
            tx.pragma_update(None, "user_version", FORM)?;
            tx.commit()?;
        }
        Ok(())
    };
    prepare(&mut index).map_err(unusable)?;
    Ok(index)
}

/// Where the index of a store lies: `search.db` beside `mirror.db`; beside a store of another name, which may
/// share the folder, a file with that name in front.
pub(super) fn path_of(store: &Path) -> PathBuf {
    match store.file_name() {
        Some(name) if name == "mirror.db" => store.with_file_name("search.db"),
        _ => open::with_suffix(store, "-search.db"),
    }
}

/// Deletes the index of a store with all its words; the next step of the daemon makes it again.
pub(super) fn remove(store: &Path) -> Result<(), StoreError> {
    remove_file(&path_of(store))
}

/// The side files go first: as long as one of them can be of use, the index is in its place, and who made it
/// sees that it is gone.
fn remove_file(path: &Path) -> Result<(), StoreError> {
    if open::has_our_header(path) {
        let reason = "a store lies there: give one of the two another name in [store] path";
        return Err(failed(path)(io::Error::other(reason)));
    }
    for suffix in ["-wal", "-shm", ""] {
        match fs::remove_file(open::with_suffix(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(path)(error)),
            _ => {}
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    move |why| StoreError::SearchFile { path: path.to_owned(), why }
}

/// What an error means that the index has caused, and not the store.
fn unusable(error: rusqlite::Error) -> StoreError {
    // A table of it is missing or cannot be opened, or its row.
    if matches!(error, rusqlite::Error::QueryReturnedNoRows)
        || error.sqlite_error_code() == Some(ErrorCode::Unknown)
    {
        return StoreError::NoSearchIndex;
    }
    match error.sqlite_error().map(|error| (error.code, error.extended_code)) {
        Some(
            (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)
            | (_, ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ),
        ) => StoreError::SearchDamaged,
        _ => error.into(),
    }
}

/// Brings the index of a store up to the end of its log, unless another process has the store, which then
/// does it. Blocks: some seconds for a million changes.
///
/// # Errors
/// If the store cannot be read or the index cannot be written; what is missing is indexed later.
pub fn index_log(store: &Path) -> Result<(), OpenError> {
    let (mut lock, was_clean) = match open::Lock::take(store) {
        Err(OpenError::Held { .. }) => return Ok(()),
        taken => taken?,
    };
    let followed = Indexer::new(store).and_then(|mut indexer| {
        let failed = |source| OpenError::Sqlite { path: path_of(store), source };
        while !indexer.step().map_err(failed)?.is_whole() {}
        Ok(())
    });
    if was_clean {
        lock.release();
    }
    followed
}

#[cfg(test)]
mod tests;
