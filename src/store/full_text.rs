//! The search index: a file of its own beside the store, made from the log alone, and what is found
//! by it.
//!
//! A row belongs to the newest version of a record and has that version's number in the log. The
//! file can be deleted at any time: it is rebuilt in bounded steps, by the process that has the
//! store's lock and by no other. No page waits for it, and nothing but searches needs it.

mod words;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use shopmirror_core::record::{Change, Route};

use super::error::StoreError;
use super::handle::Store;
use super::log;
use super::open::{self, write_tx};
use super::reader::{Reader, stop_at};
use super::sql::Sql;
use crate::files::owner;

/// Changes when [`words::of_record`] or the tables do: an index of another form is rebuilt.
const FORM: i64 = 3;
/// `followed` has one row: the last row of the log that is indexed, and its event id.
const CREATE: &str = "BEGIN;
     CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, \
       tokenize='unicode61 remove_diacritics 2');
     CREATE TABLE followed (seq INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
     INSERT INTO followed (seq, event_id) VALUES (0, '');
     PRAGMA user_version = 3;
     COMMIT;";
/// Rows of the log in one step: some milliseconds of work.
const STEP: i64 = 500;
/// What is done to the file itself.
const CHANGE: &str = "make or delete the search index";

/// The next rows of the log, each with the version before it; with a text only if the row is the
/// newest version of its record.
pub(super) const NEXT: &str = "SELECT c.seq, c.event_id, p.seq, CASE WHEN c.kind IN ('baseline', 'created', 'updated') \
     AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.route = c.route AND n.record_id = c.record_id \
     AND n.version > c.version) THEN c.body END FROM changes c LEFT JOIN changes p ON p.route = c.route \
     AND p.record_id = c.record_id AND p.version = c.version - 1 WHERE c.seq > ?1 ORDER BY c.seq LIMIT ?2";

/// The newest first, which needs no look at the others.
const MATCHING: &str = "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC";
/// Whether a row of the log is the newest version of a record of this route, or of any without one.
/// The index may be some rows behind the log.
pub(super) const IS_CURRENT: &str = "SELECT 1 FROM changes c WHERE c.seq = ?1 AND (?2 IS NULL OR c.route = ?2) \
     AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.route = c.route AND n.record_id = c.record_id \
     AND n.version > c.version)";

/// How far the search index has followed the log.
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

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The newest version of each record, the last changed first.
    pub changes: Vec<Change>,
    /// What of the log was searched.
    pub searched: IndexProgress,
}

impl Reader {
    /// Up to `limit` records that hold every word of a term, of all routes or of one, the last
    /// changed first: the newest version of each. The last word may be the beginning of a word.
    /// Numbers are found however they are written.
    ///
    /// # Errors
    /// [`StoreError::NoSearchIndex`] if it is missing or damaged; the daemon's next step makes it
    /// again.
    pub fn find(
        &self,
        term: &str,
        route: Option<Route>,
        limit: usize,
    ) -> Result<Found, StoreError> {
        let mut index = open_index(&path_of(&self.path))?;
        stop_at(&mut index, self.deadline)?;
        let indexed = followed(&index, &self.connection)?;
        let mut found = Vec::new();
        if let Some(question) = words::question(term) {
            let mut is_current = self.connection.prepare_cached(IS_CURRENT)?;
            let mut matching = index.prepare(MATCHING).map_err(unusable)?;
            let mut rows = matching.query([question]).map_err(unusable)?;
            while found.len() < limit
                && let Some(row) = rows.next().map_err(unusable)?
            {
                let seq: i64 = row.get(0)?;
                if is_current.exists((seq, route.map(Route::as_str)))? {
                    found.push(seq);
                }
            }
        }
        let searched = IndexProgress {
            indexed,
            last_seq: self.last_seq()?,
        };
        Ok(Found {
            changes: self.changes(&found)?,
            searched,
        })
    }
}

impl Store {
    /// One bounded step of the search index behind the log; returns how far it is. If the file is
    /// missing, damaged, of another form or of another log, it is first made anew. Only one task
    /// may do it. Keeps no write waiting.
    ///
    /// # Errors
    /// The index is as it was before the step, or is missing: the next step goes on from there.
    pub async fn index_more(&self) -> Result<IndexProgress, StoreError> {
        self.read_long(|log| step(log)).await
    }
}

/// See [`Store::index_more`]; only for a process that has the store's lock.
fn step(log: &Reader) -> Result<IndexProgress, StoreError> {
    let path = path_of(&log.path);
    match follow(&path, log) {
        // SQLite reports a file that is deleted during the step as a failed disk.
        Err(error) if matches!(error, StoreError::NoSearchIndex) || !path.exists() => {
            make(&path)?;
            follow(&path, log)
        }
        followed => followed,
    }
}

fn follow(path: &Path, log: &Reader) -> Result<IndexProgress, StoreError> {
    // The file is open before the log is read: if `forget` deletes the one and changes the other
    // meanwhile, the words it removes go with the file.
    let mut index = open_index(path)?;
    let tx = write_tx(&mut index).map_err(unusable)?;
    let before = followed(&tx, &log.connection)?;
    let last = index_after(&tx, &log.connection, before)?;
    if let Some((seq, event_id)) = &last {
        tx.execute(
            "UPDATE followed SET seq = ?1, event_id = ?2",
            (seq, event_id),
        )
        .map_err(unusable)?;
    }
    tx.commit().map_err(unusable)?;
    let indexed = last.map_or(before, |(seq, _)| seq);
    Ok(IndexProgress {
        indexed,
        last_seq: log.last_seq()?,
    })
}

/// Indexes the rows of the log after one of them; returns the last of them and its event id.
fn index_after(
    index: &Connection,
    log: &Connection,
    after: i64,
) -> Result<Option<(i64, String)>, StoreError> {
    let mut insert = index
        .prepare("INSERT INTO words (rowid, text) VALUES (?1, ?2)")
        .map_err(unusable)?;
    let mut delete = index
        .prepare("DELETE FROM words WHERE rowid = ?1")
        .map_err(unusable)?;
    let mut next = log.prepare_cached(NEXT)?;
    let mut rows = next.query((after, STEP))?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if let Some(before) = row.get::<_, Option<i64>>(2)? {
            delete.execute([before]).map_err(unusable)?;
        }
        if let Some(body) = row.get::<_, Option<String>>(3)? {
            insert
                .execute((seq, words::of_record(&body)))
                .map_err(unusable)?;
        }
        last = Some((seq, row.get(1)?));
    }
    Ok(last)
}

/// The last row of the log that an index of this form has.
fn followed(index: &Connection, log: &Connection) -> Result<i64, StoreError> {
    let form: i64 = index.value("PRAGMA user_version", []).map_err(unusable)?;
    if form != FORM {
        return Err(StoreError::NoSearchIndex);
    }
    let (seq, event_id): (i64, String) = index
        .query_row("SELECT seq, event_id FROM followed", [], |row| {
            row.try_into()
        })
        .map_err(unusable)?;
    if !log.value(log::HAS_EVENT, (seq, &event_id))? {
        return Err(StoreError::NoSearchIndex);
    }
    Ok(seq)
}

/// Opens an index that is there. Also to search it: what a killed daemon left half written is then
/// rolled back, by a user who may write.
fn open_index(path: &Path) -> Result<Connection, StoreError> {
    if !path.exists() {
        return Err(StoreError::NoSearchIndex);
    }
    open::connect(path, open::LOCK_WAIT).map_err(unusable)
}

/// Makes an empty index in place of what lies there.
fn make(path: &Path) -> Result<(), StoreError> {
    remove_file(path)?;
    // So that SQLite gives its side files the same mode and owner.
    owner::open_or_make(path).map_err(StoreError::io(CHANGE, path))?;
    open_index(path)?.execute_batch(CREATE).map_err(unusable)
}

/// Where the index of a store lies: `search.db` beside `mirror.db`; beside a store of another name,
/// which may share the folder, a file with that name in front.
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

fn remove_file(path: &Path) -> Result<(), StoreError> {
    if open::has_our_header(path) {
        let reason = "a store lies there: give one of the two another name in [store] path";
        return Err(StoreError::io(CHANGE, path)(io::Error::other(reason)));
    }
    for suffix in ["-journal", "-wal", "-shm", ""] {
        match fs::remove_file(open::with_suffix(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::io(CHANGE, path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What an error of the index means: if it lies in the file and not in the machine, it has to be
/// rebuilt.
fn unusable(error: rusqlite::Error) -> StoreError {
    match error.into() {
        StoreError::Corrupt(_) => StoreError::NoSearchIndex,
        error if error.is_of_one_route() => StoreError::NoSearchIndex,
        error => error,
    }
}

/// Brings the index of a store up to the end of its log, unless another process has the store,
/// which then does it. Blocks: some seconds for a million changes.
///
/// # Errors
/// If the store cannot be read or the index cannot be written; what is missing is indexed later.
pub fn index_log(store: &Path) -> Result<(), StoreError> {
    let _lock = match open::Lock::take(store) {
        Err(StoreError::Held { .. }) => return Ok(()),
        taken => taken?,
    };
    let log = Reader::open(store)?;
    while !step(&log)?.is_whole() {}
    Ok(())
}

#[cfg(test)]
mod tests;
