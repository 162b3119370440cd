//! The index of all words: the table `_search`, kept in the transaction that writes the mirror.
//!
//! A row belongs to the newest version of a record and has that version's number. FTS5 keeps no
//! text, so a row is removed by giving it the same words again, which follow from the version's body.

mod words;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::error::StoreError;
use super::log;
use super::reader::Reader;
use crate::record::{Change, Route};

/// Changes when [`words::of_record`] does: the index is then made again at the next start.
const FORM: &str = "1";
/// The row of `meta` that holds the form of the index.
const MADE_AS: &str = "search_form";

const INSERT: &str = "INSERT INTO _search (rowid, text) VALUES (?1, ?2)";
const DELETE: &str = "INSERT INTO _search (_search, rowid, text) VALUES ('delete', ?1, ?2)";
/// The newest first, which needs no look at the others.
pub(super) const FIND: &str =
    "SELECT rowid FROM _search WHERE _search MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
const BEFORE: &str =
    "SELECT seq, body FROM changes WHERE route = ?1 AND record_id = ?2 AND version = ?3";

/// Indexes a new version of a record in place of the one before it.
pub(super) fn put(
    connection: &Connection,
    route: Route,
    id: &str,
    version: i64,
    seq: i64,
    body: &str,
) -> rusqlite::Result<()> {
    if version > 1 {
        let before: Option<(i64, String)> = connection
            .prepare_cached(BEFORE)?
            .query_row((route.as_str(), id, version - 1), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((seq, body)) = before {
            remove(connection, seq, &body)?;
        }
    }
    connection.prepare_cached(INSERT)?.execute((seq, words::of_record(body)))?;
    Ok(())
}

/// Removes the version `seq` with this body.
pub(super) fn remove(connection: &Connection, seq: i64, body: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(DELETE)?.execute((seq, words::of_record(body)))?;
    Ok(())
}

/// Makes the index if it is missing or has an older form; once after an update of the program.
pub(super) fn ensure(connection: &mut Connection) -> rusqlite::Result<()> {
    let form: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE name = ?1", [MADE_AS], |row| row.get(0))
        .optional()?;
    if form.as_deref() == Some(FORM) {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    make_again(&tx)?;
    tx.commit()
}

/// Makes the whole index again from the mirror's rows and the log.
pub(super) fn make_again(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("INSERT INTO _search (_search) VALUES ('delete-all')", [])?;
    let mut insert = connection.prepare(INSERT)?;
    for route in Route::ALL {
        // In the order of the rows' numbers: FTS5 writes a new segment for each number below the last.
        let mut statement = connection.prepare(&format!(
            "SELECT c.seq, c.body FROM \"{route}\" r CROSS JOIN changes c ON c.seq = r._seq \
             ORDER BY r._seq"
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(1)?.as_str()?;
            insert.execute((row.get::<_, i64>(0)?, words::of_record(body)))?;
        }
    }
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (MADE_AS, FORM),
    )?;
    Ok(())
}

impl Reader {
    /// Up to `limit` records that hold every word of a term, the last changed first: the newest
    /// version of each. The last word may be the beginning of a word. Numbers are found however they
    /// are written.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find(&self, term: &str, limit: usize) -> Result<Vec<Change>, StoreError> {
        let mut found: Vec<i64> = Vec::new();
        // Whole words first: they need no merge of all words with the same beginning.
        for begins in [false, true] {
            let Some(question) = words::question(term, begins) else { return Ok(Vec::new()) };
            let most = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut statement = self.connection.prepare_cached(FIND)?;
            let rows = statement.query_map((question, most), |row| row.get(0))?;
            for seq in rows {
                let seq = seq?;
                if found.len() < limit && !found.contains(&seq) {
                    found.push(seq);
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        let mut changes = log::by_seq(&self.connection, &found)?;
        changes.retain(|change| change.record_id.is_some());
        Ok(changes)
    }
}

#[cfg(test)]
mod tests;
