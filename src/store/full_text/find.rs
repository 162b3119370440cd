//! Searches: the index says which rows of the log hold the words, the log says what they are.

use rusqlite::{Connection, OpenFlags};

use super::{IndexProgress, followed, path_of, remove, unusable, words};
use crate::record::{Change, Route};
use crate::store::error::StoreError;
use crate::store::log;
use crate::store::open::LOCK_WAIT;
use crate::store::reader::{Reader, stop_at};

/// The newest first, which needs no look at the others.
const MATCHING: &str = "SELECT rowid FROM words WHERE words MATCH ?1 ORDER BY rowid DESC";
/// Whether a row of the log is the newest version of a record of this route, or of any without one. The index may be
/// some rows behind the log.
pub(in crate::store) const IS_CURRENT: &str = "SELECT 1 FROM changes c WHERE c.seq = ?1 AND (?2 IS NULL OR c.route = ?2) \
     AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.route = c.route AND n.record_id = c.record_id \
     AND n.version > c.version)";
/// What FTS5 says of a word of the question that it divides.
const DIVIDED_WORD: &str = "phrase queries are not supported";

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The newest version of each record, the last changed first.
    pub changes: Vec<Change>,
    /// What of the log was searched.
    pub searched: IndexProgress,
}

impl Reader {
    /// Up to `limit` records that hold every word of a term, of all routes or of one, the last changed
    /// first: the newest version of each. The last word may be the beginning of a word. Numbers are found however they
    /// are written.
    ///
    /// # Errors
    /// [`StoreError::NoSearchIndex`], or [`StoreError::SearchDamaged`]: then it is deleted, so that it is made again.
    pub fn find(
        &self,
        term: &str,
        route: Option<Route>,
        limit: usize,
    ) -> Result<Found, StoreError> {
        let found = self.search(term, route, limit);
        if matches!(found, Err(StoreError::SearchDamaged)) {
            remove(&self.path)?;
        }
        found
    }

    fn search(&self, term: &str, route: Option<Route>, limit: usize) -> Result<Found, StoreError> {
        let index = self.open_index()?;
        let (indexed, event_id) = followed(&index)?;
        if !log::has_event(&self.connection, indexed, &event_id)? {
            return Err(StoreError::NoSearchIndex);
        }
        let mut found: Vec<i64> = Vec::new();
        // Whole words first: they need no merge of all words with the same beginning.
        for begins in [false, true] {
            if let Some(question) = words::question(term, begins) {
                self.add_matching(&index, &question, route, limit, &mut found)?;
            }
        }
        let searched = IndexProgress { indexed, last_seq: self.last_seq()? };
        Ok(Found { changes: log::by_seq(&self.connection, &found)?, searched })
    }

    fn open_index(&self) -> Result<Connection, StoreError> {
        let path = path_of(&self.path);
        if !path.exists() {
            return Err(StoreError::NoSearchIndex);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut index = Connection::open_with_flags(path, flags).map_err(unusable)?;
        index.busy_timeout(LOCK_WAIT)?;
        stop_at(&mut index, self.deadline)?;
        Ok(index)
    }

    /// Adds rows of the log that answer the question, until there are `limit` of them.
    fn add_matching(
        &self,
        index: &Connection,
        question: &str,
        route: Option<Route>,
        limit: usize,
        found: &mut Vec<i64>,
    ) -> Result<(), StoreError> {
        let mut is_current = self.connection.prepare_cached(IS_CURRENT)?;
        let mut matching = index.prepare(MATCHING).map_err(unusable)?;
        let mut rows = matching.query([question]).map_err(unusable)?;
        while found.len() < limit {
            let seq: i64 = match rows.next() {
                // A letter that Unicode added after this SQLite was made: FTS5 divides the word there.
                Err(error) if error.to_string().contains(DIVIDED_WORD) => break,
                Err(error) => return Err(unusable(error)),
                Ok(None) => break,
                Ok(Some(row)) => row.get(0)?,
            };
            let route = route.map(Route::as_str);
            if !found.contains(&seq) && is_current.exists((seq, route))? {
                found.push(seq);
            }
        }
        Ok(())
    }
}
