//! The index of all words: the table `_search`, kept in the transaction that writes the mirror.
//!
//! A row belongs to the newest version of a record and has that version's number. FTS5 keeps no
//! text, so a row is removed by giving it the same words again, which follow from the version's body.
//! The words stay in the file until FTS5 merges them away; `forget` makes the whole index again.
//! The index follows from the log: damage to it costs searches for a while, and nothing else.

mod keeping;
mod renewal;
mod words;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::error::StoreError;
use super::log;
use super::meta;
use super::reader::Reader;
use crate::record::{Change, Route};
use renewal::reset;
pub(super) use renewal::{elsewhere, is_damage, is_named_by, step};

/// Changes when [`words::of_record`] or the format of the index does: it is then made again at the next start.
const FORM: &str = "3";
/// The row of `meta` that holds the state of the index.
const MADE_AS: &str = "search_form";
/// The state of an index that is not used because it is damaged.
const SET_ASIDE: &str = "set aside";
/// Between the form of an index that is being made again and the last row of the log in it.
const UP_TO: &str = " up to ";

const INSERT: &str = "INSERT INTO _search (rowid, text) VALUES (?1, ?2)";
const DELETE: &str = "INSERT INTO _search (_search, rowid, text) VALUES ('delete', ?1, ?2)";
/// The newest first, which needs no look at the others.
pub(super) const FIND: &str =
    "SELECT rowid FROM _search WHERE _search MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
/// The same in one route: the log is asked about each match until enough are found.
pub(super) const FIND_IN_ROUTE: &str = "SELECT s.rowid FROM _search s \
     CROSS JOIN changes c ON c.seq = s.rowid WHERE s._search MATCH ?1 AND c.route = ?3 \
     ORDER BY s.rowid DESC LIMIT ?2";
/// The newest version of each record among some rows of the log, in their order: FTS5 writes a new
/// segment for each number below the last.
pub(super) const NEWEST: &str = "SELECT c.seq, c.body FROM changes c WHERE c.seq > ?1 AND c.seq <= ?2 \
     AND c.kind IN ('baseline', 'created', 'updated') AND NOT EXISTS (SELECT 1 FROM changes n \
     WHERE n.route = c.route AND n.record_id = c.record_id AND n.version > c.version) ORDER BY c.seq";
const BEFORE: &str =
    "SELECT seq, body FROM changes WHERE route = ?1 AND record_id = ?2 AND version = ?3";

/// What FTS5 says of a word of the question that it divides.
const DIVIDED_WORD: &str = "phrase queries are not supported";

/// What the index of all words holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchIndex {
    /// Every record.
    Whole,
    /// The records whose last change lies up to this row of the log: it is being made again.
    UpTo(i64),
    /// Nothing, because it was found damaged; it is not used until it is made again.
    SetAside,
    /// What an older version of the program put into it.
    Older,
}

impl SearchIndex {
    /// Reads it.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let form = meta::value(connection, MADE_AS)?.unwrap_or_default();
        let up_to = || form.strip_prefix(FORM)?.strip_prefix(UP_TO)?.parse().ok();
        Ok(match form.as_str() {
            FORM => Self::Whole,
            SET_ASIDE => Self::SetAside,
            _ => up_to().map_or(Self::Older, Self::UpTo),
        })
    }

    fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let form = match self {
            Self::Whole => FORM.to_owned(),
            Self::UpTo(seq) => format!("{FORM}{UP_TO}{seq}"),
            Self::SetAside => SET_ASIDE.to_owned(),
            Self::Older => String::new(),
        };
        meta::set(connection, MADE_AS, &form)
    }

    /// Whether the version with this number is in the index, if it is the newest of its record.
    fn holds(self, seq: i64) -> bool {
        match self {
            Self::Whole => true,
            Self::UpTo(last) => seq <= last,
            Self::SetAside | Self::Older => false,
        }
    }

    /// Whether writing a record touches the index.
    pub(super) fn is_used(self) -> bool {
        matches!(self, Self::Whole | Self::UpTo(1..))
    }
}

/// Leaves the index alone from now on, until [`step`] makes it again.
pub(super) fn set_aside(connection: &Connection) -> rusqlite::Result<SearchIndex> {
    SearchIndex::SetAside.write(connection)?;
    Ok(SearchIndex::SetAside)
}

/// A version of a record, as the index needs it.
pub(super) struct IndexedVersion<'a> {
    pub(super) route: Route,
    pub(super) id: &'a str,
    pub(super) version: i64,
    pub(super) seq: i64,
    pub(super) body: &'a str,
}

/// Indexes a new version of a record in place of the one before it.
pub(super) fn put(
    connection: &Connection,
    index: SearchIndex,
    new: &IndexedVersion<'_>,
) -> rusqlite::Result<()> {
    if !index.is_used() {
        return Ok(());
    }
    if new.version > 1 {
        let before: Option<(i64, String)> = connection
            .prepare_cached(BEFORE)?
            .query_row((new.route.as_str(), new.id, new.version - 1), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        if let Some((seq, body)) = before {
            remove(connection, index, seq, &body)?;
        }
    }
    if index.holds(new.seq) {
        let words = words::of_record(new.body);
        connection.prepare_cached(INSERT)?.execute((new.seq, words))?;
    }
    Ok(())
}

/// Removes the version `seq` with this body.
fn remove(
    connection: &Connection,
    index: SearchIndex,
    seq: i64,
    body: &str,
) -> rusqlite::Result<()> {
    if index.holds(seq) {
        connection.prepare_cached(DELETE)?.execute((seq, words::of_record(body)))?;
    }
    Ok(())
}

/// Makes the index if it is missing or has an older form; once after an update of the program.
pub(super) fn ensure(connection: &mut Connection) -> rusqlite::Result<()> {
    if SearchIndex::read(connection)? != SearchIndex::Older {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match make_again(&tx) {
        Ok(()) => return tx.commit(),
        Err(error) if is_damage(&error) => drop(tx),
        Err(error) => return Err(error),
    }
    set_aside(connection)?;
    Ok(())
}

/// Makes the whole index again from the log.
pub(super) fn make_again(connection: &Connection) -> rusqlite::Result<()> {
    reset(connection)?;
    fill(connection, 0, i64::MAX)?;
    SearchIndex::Whole.write(connection)
}

/// Indexes the records whose last change lies after one row of the log, up to another.
///
/// Not those of the mirror: a row that was deleted by hand comes back without a new version.
fn fill(connection: &Connection, after: i64, upto: i64) -> rusqlite::Result<()> {
    let mut newest = connection.prepare_cached(NEWEST)?;
    let mut insert = connection.prepare_cached(INSERT)?;
    let mut rows = newest.query([after, upto])?;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_str()?;
        insert.execute((row.get::<_, i64>(0)?, words::of_record(body)))?;
    }
    Ok(())
}

impl Reader {
    /// What the index of all words holds; [`Reader::find`] finds nothing else.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn search_index(&self) -> Result<SearchIndex, StoreError> {
        Ok(SearchIndex::read(&self.connection)?)
    }

    /// Up to `limit` records that hold every word of a term, of all routes or of one, the last changed
    /// first: the newest version of each. The last word may be the beginning of a word. Numbers are found however they
    /// are written.
    ///
    /// # Errors
    /// [`StoreError::SearchDamaged`] if the index is, or if the file cannot be read.
    pub fn find(
        &self,
        term: &str,
        route: Option<Route>,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        if self.search_index()? == SearchIndex::SetAside {
            return Err(StoreError::SearchDamaged);
        }
        let found = match self.matching(term, route, limit) {
            // A letter that Unicode added after this SQLite was made: FTS5 divides the word there.
            Err(error) if error.to_string().contains(DIVIDED_WORD) => Vec::new(),
            Err(error) if is_damage(&error) => return Err(StoreError::SearchDamaged),
            found => found?,
        };
        let mut changes = log::by_seq(&self.connection, &found)?;
        changes.retain(|change| change.record_id.is_some());
        Ok(changes)
    }

    fn matching(
        &self,
        term: &str,
        route: Option<Route>,
        limit: usize,
    ) -> rusqlite::Result<Vec<i64>> {
        let mut found: Vec<i64> = Vec::new();
        // Whole words first: they need no merge of all words with the same beginning.
        for begins in [false, true] {
            let Some(question) = words::question(term, begins) else { return Ok(Vec::new()) };
            let most = i64::try_from(limit).unwrap_or(i64::MAX);
            let sql = if route.is_some() { FIND_IN_ROUTE } else { FIND };
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = match route {
                Some(route) => statement.query((question, most, route.as_str()))?,
                None => statement.query((question, most))?,
            };
            while let Some(row) = rows.next()? {
                let seq = row.get(0)?;
                if found.len() < limit && !found.contains(&seq) {
                    found.push(seq);
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
