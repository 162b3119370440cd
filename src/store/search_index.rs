//! The search index: a file of its own beside the store, made from the log alone, and what is found
//! by it.
//!
//! A row belongs to the newest version of a record and has that version's number in the log. The
//! file can be deleted at any time: it is rebuilt in bounded steps, by the process that has the
//! store's lock and by no other. No page waits for it, and nothing but searches needs it.

mod words;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, named_params};
use serde::Deserialize;
use shopmirror_core::record::{Change, Route};

use super::error::StoreError;
use super::handle::{Store, run_blocking};
use super::log;
use super::open::{self, write_tx};
use super::reader::{Reader, stop_at};
use super::sql::{self, Sql};
use crate::files::owner;

/// Changes when [`words::of_record`] or the tables change: an index of another format is rebuilt.
const FORMAT: i64 = 4;
/// Rows of the log in one step: some milliseconds of work.
const STEP: i64 = 500;
/// After this time the file is opened again. SQLite does not read again what it has in memory, so
/// it would not notice that the file is damaged. That is rare, and opening costs as much as a poll.
const REOPEN_AFTER: Duration = Duration::from_secs(60);
/// What is done to the file itself.
const CHANGE: &str = "make or delete the search index";

/// `followed` has one row: the last row of the log that is indexed, and its event id.
const CREATE: &str = "
    BEGIN;
    CREATE VIRTUAL TABLE words USING fts5(
        text,
        content = '',
        contentless_delete = 1,
        tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TABLE followed (
        seq      INTEGER NOT NULL,
        event_id TEXT NOT NULL
    ) STRICT;
    INSERT INTO followed (seq, event_id) VALUES (0, '');
    PRAGMA user_version = 4;
    COMMIT;";

/// The next rows of the log, each with the number of the version before it; with a text only if the
/// row is the newest version of its record.
pub(super) const NEXT: &str = "
    SELECT
        c.seq,
        c.event_id,
        p.seq AS before,
        CASE
            WHEN c.kind IN ('baseline', 'created', 'updated')
                AND NOT EXISTS (
                    SELECT 1
                    FROM changes n
                    WHERE n.route = c.route
                        AND n.record_id = c.record_id
                        AND n.version > c.version
                )
                THEN c.body
        END AS text
    FROM changes c
    LEFT JOIN changes p
        ON p.route = c.route
        AND p.record_id = c.record_id
        AND p.version = c.version - 1
    WHERE c.seq > :after
    ORDER BY c.seq
    LIMIT :count";

/// The newest rows first, so that a search that has enough reads no others.
const MATCHING: &str = "
    SELECT rowid
    FROM words
    WHERE words MATCH :question
    ORDER BY rowid DESC";

/// Whether a row of the log is the newest version of a record, of this route or of any if it is
/// NULL. The index may be some rows behind the log.
pub(super) const IS_CURRENT: &str = "
    SELECT 1
    FROM changes c
    WHERE c.seq = :seq
        AND (:route IS NULL OR c.route = :route)
        AND NOT EXISTS (
            SELECT 1
            FROM changes n
            WHERE n.route = c.route
                AND n.record_id = c.record_id
                AND n.version > c.version
        )";

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
    /// [`StoreError::NoSearchIndex`] if it is missing or damaged; the daemon's next step creates it
    /// again.
    pub fn find(
        &self,
        term: &str,
        route: Option<Route>,
        limit: usize,
    ) -> Result<Found, StoreError> {
        let mut index = open_index(&path_of(&self.path))?;
        stop_at(&mut index, self.deadline)?;
        let indexed = last_indexed(&index, &self.connection)?;
        let mut found = Vec::new();
        if let Some(question) = words::question(term) {
            let route = route.map(Route::as_str);
            let mut is_current = self.connection.prepare_cached(IS_CURRENT)?;
            let mut matching = index.prepare(MATCHING).map_err(unusable)?;
            let mut rows = matching
                .query(named_params! { ":question": question })
                .map_err(unusable)?;
            while found.len() < limit
                && let Some(row) = rows.next().map_err(unusable)?
            {
                let seq: i64 = row.get(0)?;
                if is_current.exists(named_params! { ":seq": seq, ":route": route })? {
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

/// Makes the search index follow the log. Only one task may have it, in the process that has the
/// store's lock. Its connections stay open from one step to the next.
pub struct SearchIndex {
    store: Store,
}

impl Store {
    /// What makes the search index of this store follow the log.
    #[must_use]
    pub fn search_index(&self) -> SearchIndex {
        SearchIndex {
            store: self.clone(),
        }
    }
}

impl SearchIndex {
    /// Does one bounded step; returns how far the index is. If the file is missing, damaged, of
    /// another format or of another log, it is first created again. Keeps no write waiting.
    ///
    /// # Errors
    /// The index is as it was before the step, or is missing: the next step continues from there.
    pub async fn follow(&mut self) -> Result<IndexProgress, StoreError> {
        let mut slot = Arc::clone(&self.store.shared.follower).lock_owned().await;
        let store = self.store.path().to_owned();
        run_blocking(move || {
            // After an error all is opened again.
            let mut follower = match slot.take() {
                Some(follower) => follower,
                None => Follower::open(&store)?,
            };
            let progress = follower.step()?;
            *slot = Some(follower);
            Ok(progress)
        })
        .await
    }
}

/// The log, and the index that follows it.
#[derive(Debug)]
pub(super) struct Follower {
    log: Reader,
    path: PathBuf,
    file: Option<IndexFile>,
}

/// The file of an index while it is open.
#[derive(Debug)]
struct IndexFile {
    connection: Connection,
    inode: u64,
    opened_at: Instant,
}

/// A row of [`NEXT`].
#[derive(Deserialize)]
struct NextRow {
    seq: i64,
    event_id: String,
    before: Option<i64>,
    text: Option<String>,
}

impl IndexFile {
    fn open(path: &Path) -> Result<Self, StoreError> {
        // Before it is opened: if another file takes its place meanwhile, the next step notices.
        let inode = inode_of(path).ok_or(StoreError::NoSearchIndex)?;
        Ok(Self {
            connection: open_index(path)?,
            inode,
            opened_at: Instant::now(),
        })
    }

    /// Whether it is still the file at this path, and was opened not long ago.
    fn is_current(&self, path: &Path) -> bool {
        self.opened_at.elapsed() < REOPEN_AFTER && inode_of(path) == Some(self.inode)
    }
}

impl Follower {
    fn open(store: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            log: Reader::open(store)?,
            path: path_of(store),
            file: None,
        })
    }

    /// See [`SearchIndex::follow`].
    fn step(&mut self) -> Result<IndexProgress, StoreError> {
        match self.index_next() {
            // SQLite reports a file that is deleted during the step as a failed disk.
            Err(error) if matches!(error, StoreError::NoSearchIndex) || !self.path.exists() => {
                self.file = None;
                create(&self.path)?;
                self.index_next()
            }
            progress => progress,
        }
    }

    fn index_next(&mut self) -> Result<IndexProgress, StoreError> {
        // The file is open before the log is read: if `forget` deletes the one and changes the
        // other meanwhile, the words it removes go with the file.
        let file = match self.file.take() {
            Some(file) if file.is_current(&self.path) => self.file.insert(file),
            _ => self.file.insert(IndexFile::open(&self.path)?),
        };
        let log = &self.log.connection;
        let tx = write_tx(&mut file.connection).map_err(unusable)?;
        let mut indexed = last_indexed(&tx, log)?;
        if let Some(last) = index_after(&tx, log, indexed)? {
            tx.run(
                "UPDATE followed SET seq = :seq, event_id = :event_id",
                named_params! { ":seq": last.seq, ":event_id": last.event_id },
            )
            .map_err(unusable)?;
            indexed = last.seq;
        }
        tx.commit().map_err(unusable)?;
        Ok(IndexProgress {
            indexed,
            last_seq: self.log.last_seq()?,
        })
    }
}

/// Indexes the rows of the log after one of them; returns the last of them.
fn index_after(
    index: &Connection,
    log: &Connection,
    after: i64,
) -> Result<Option<NextRow>, StoreError> {
    let mut next = log.prepare_cached(NEXT)?;
    let mut rows = next.query(named_params! { ":after": after, ":count": STEP })?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let row: NextRow = sql::read(row)?;
        if let Some(before) = row.before {
            index
                .run("DELETE FROM words WHERE rowid = ?", [before])
                .map_err(unusable)?;
        }
        if let Some(text) = &row.text {
            let words = words::of_record(text);
            index
                .run(
                    "INSERT INTO words (rowid, text) VALUES (?, ?)",
                    (row.seq, words),
                )
                .map_err(unusable)?;
        }
        last = Some(row);
    }
    Ok(last)
}

/// The last row of the log that an index of this format has.
fn last_indexed(index: &Connection, log: &Connection) -> Result<i64, StoreError> {
    let format: i64 = index.value("PRAGMA user_version", []).map_err(unusable)?;
    if format != FORMAT {
        return Err(StoreError::NoSearchIndex);
    }
    let mut followed = index
        .prepare_cached("SELECT seq, event_id FROM followed")
        .map_err(unusable)?;
    let (seq, event_id): (i64, String) = followed
        .query_row([], |row| row.try_into())
        .map_err(unusable)?;
    if !log.value(log::HAS_EVENT, (seq, &event_id))? {
        return Err(StoreError::NoSearchIndex);
    }
    Ok(seq)
}

fn inode_of(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    Some(found.ino())
}

/// Opens an index that is there. Also to search it: what a killed daemon left half written is then
/// rolled back, by a user who may write.
fn open_index(path: &Path) -> Result<Connection, StoreError> {
    if !path.exists() {
        return Err(StoreError::NoSearchIndex);
    }
    open::connect(path, open::LOCK_WAIT).map_err(unusable)
}

/// Creates an empty index in place of what lies there.
fn create(path: &Path) -> Result<(), StoreError> {
    remove_file(path)?;
    // So that SQLite gives its side files the same mode and owner.
    owner::open_or_create(path).map_err(StoreError::io(CHANGE, path))?;
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

/// Deletes the index of a store with all its words; the next step of the daemon creates it again.
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
    let mut follower = Follower::open(store)?;
    while !follower.step()?.is_whole() {}
    Ok(())
}

#[cfg(test)]
mod tests;
