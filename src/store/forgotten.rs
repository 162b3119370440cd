//! The records that `forget` removed, which a restore must not bring back.
//!
//! A backup made before a `forget` still holds the record. Only the store that the backup replaces
//! knows that it was forgotten.

use std::path::Path;

use rusqlite::{Connection, Row, TransactionBehavior};

use super::error::StoreError;
use super::forget::{self, Forgotten};
use super::log::NewChange;
use super::open;
use crate::record::{Kind, Route};

/// One record that was forgotten.
pub(super) struct ForgottenRecord {
    route: Route,
    id: String,
    at: String,
    business: Option<String>,
    /// What the log keeps of it.
    tombstone: String,
}

const SELECT: &str = "SELECT f.route, f.record_id, f.forgotten_at, c.business, c.body \
     FROM _forgotten f JOIN changes c ON c.route = f.route AND c.record_id = f.record_id \
     WHERE c.kind = 'forgotten' ORDER BY c.seq";

impl ForgottenRecord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        // A newer program may have had routes that this one does not know.
        let Ok(route) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
        Ok(Some(Self {
            route,
            id: row.get(1)?,
            at: row.get(2)?,
            business: row.get(3)?,
            tombstone: row.get(4)?,
        }))
    }
}

/// The records that were forgotten in a store; `None` if it cannot be read.
pub(super) fn of_store(store: &Path) -> Option<Vec<ForgottenRecord>> {
    let (connection, _) = open::open_reader_of_any_schema(store).ok()?;
    let mut statement = connection.prepare(SELECT).ok()?;
    let rows = statement.query_map([], ForgottenRecord::read).ok()?;
    rows.filter_map(Result::transpose).collect::<rusqlite::Result<_>>().ok()
}

/// Forgets these records in a copy of an older store that no other process has open; returns how many
/// of them it still held. The copy has the schema of this program; the caller syncs the file.
pub(super) fn forget_again(
    connection: &mut Connection,
    records: &[ForgottenRecord],
) -> Result<usize, StoreError> {
    if records.is_empty() {
        return Ok(0);
    }
    connection.execute_batch("PRAGMA secure_delete = ON;")?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut held = 0;
    for record in records {
        let ForgottenRecord { route, id, at, business, tombstone } = record;
        match forget::remove(&tx, *route, id, at)? {
            Forgotten::Now { .. } => held += 1,
            Forgotten::Before => {}
            // It is younger than the backup. Only a row of the log keeps the next page from storing it.
            Forgotten::Unknown => forget::note(
                &tx,
                None,
                &NewChange {
                    route: *route,
                    record_id: id,
                    kind: Kind::Forgotten,
                    version: 1,
                    observed_at: at,
                    business: business.as_deref(),
                    body: tombstone,
                },
            )?,
        }
    }
    tx.commit()?;
    if held > 0 {
        connection.execute_batch("VACUUM")?;
    }
    Ok(held)
}
