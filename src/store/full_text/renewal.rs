//! Making the index again while records are stored: a damaged index is emptied, then filled in bounded
//! steps in the order of the log.

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{SearchIndex, fill};
use crate::store::error::StoreError;
use crate::store::log;

/// As the migration makes it. FTS5's option `secure-delete` would keep SQLite before 3.42, and with it
/// Datasette on Debian 12, from reading the file.
const CREATE: &str = "CREATE VIRTUAL TABLE _search USING fts5( \
     text, content='', columnsize=0, detail=none, tokenize='unicode61 remove_diacritics 2')";
/// Without its version, FTS5 does not open the table, not even to drop it.
const VERSION: &str = "INSERT OR REPLACE INTO _search_config (k, v) VALUES ('version', 4)";

/// Whether an error can come from a damaged index: SQLite calls it corrupt, or the table of the
/// index cannot be opened.
pub(in crate::store) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
    )
}

/// Whether an error of `PRAGMA quick_check` names the index.
pub(in crate::store) fn is_named_by(error: &rusqlite::Error) -> bool {
    is_damage(error) && error.to_string().contains("_search")
}

/// Makes an empty index in place of this one, whatever it holds.
pub(super) fn reset(connection: &Connection) -> rusqlite::Result<()> {
    match connection.execute_batch(VERSION) {
        Err(error) if is_damage(&error) => {}
        repaired => repaired?,
    }
    connection.execute_batch("DROP TABLE IF EXISTS _search")?;
    connection.execute_batch(CREATE)
}

/// Makes the next part of an index that is not whole: what changed in `span` rows of the log.
/// Returns what the index then holds.
pub(in crate::store) fn step(
    connection: &mut Connection,
    span: i64,
) -> Result<SearchIndex, StoreError> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let next = match SearchIndex::read(&tx)? {
        SearchIndex::Whole => return Ok(SearchIndex::Whole),
        SearchIndex::SetAside | SearchIndex::Older => {
            reset(&tx).map_err(damaged)?;
            SearchIndex::UpTo(0)
        }
        SearchIndex::UpTo(done) => {
            let last = log::last_seq(&tx)?;
            let next = done.saturating_add(span);
            fill(&tx, done, next).map_err(damaged)?;
            if next >= last { SearchIndex::Whole } else { SearchIndex::UpTo(next) }
        }
    };
    next.write(&tx)?;
    tx.commit().map_err(damaged)?;
    Ok(next)
}

fn damaged(error: rusqlite::Error) -> StoreError {
    if is_damage(&error) { StoreError::SearchDamaged } else { error.into() }
}

/// The first of these damages, as `PRAGMA quick_check` names them, that is not in the index.
pub(in crate::store) fn elsewhere(
    connection: &Connection,
    damages: &[String],
) -> rusqlite::Result<Option<String>> {
    let mut statement =
        connection.prepare("SELECT rootpage FROM sqlite_schema WHERE tbl_name GLOB '_search_*'")?;
    let roots = statement.query_map([], |row| row.get::<_, i64>(0))?;
    let trees: Vec<String> =
        roots.map(|root| Ok(format!("Tree {} ", root?))).collect::<rusqlite::Result<_>>()?;
    let is_ours = |damage: &&String| {
        damage.contains("_search") || trees.iter().any(|tree| damage.starts_with(tree))
    };
    Ok(damages.iter().find(|damage| !is_ours(damage)).cloned())
}
