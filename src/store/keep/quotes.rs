//! What tables beside the mirror and the log hold of a record's text: errors and alerts that quote
//! what a receiver said, reports that wait, and the search terms of a backfill.

use rusqlite::Transaction;

/// What a waiting alert says in the place of a text that may have quoted the record.
const REMOVED: &str =
    "the details were removed together with a forgotten record; see `shopmirror status`";

/// Removes all of it in the caller's transaction, whichever record it quotes.
pub(in crate::store) fn remove(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    // A report that waits for its sink may name the record; the next one does not.
    tx.execute("DELETE FROM _queue WHERE lane = 0 AND seq IN (SELECT id FROM _notices WHERE kind = 'report')", [])?;
    tx.execute("UPDATE _queue SET last_error = NULL", [])?;
    tx.execute(
        "UPDATE _notices SET body = json_set(body, '$.text', ?1, '$.reasons', json_array()) \
         WHERE kind = 'alert' AND json_extract(body, '$.state') = 'begun'",
        [REMOVED],
    )?;
    tx.execute("UPDATE _replays SET last_error = NULL", [])?;
    tx.execute("UPDATE _sinks SET last_error = NULL", [])?;
    // They are beginnings of names. A later backfill searches all of them again.
    tx.execute("DELETE FROM _backfill_terms", [])?;
    Ok(())
}
