//! Making the mirror tables again from the log: they are a projection of it.
//!
//! The daemon must not run. One transaction: an error leaves the mirror as it was.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::error::{OpenError, StoreError};
use super::mirror::{Mirror, RowFacts, lookup};
use super::{checkpoint, full_text, job_states, open, pollers, views};
use crate::record::{Fields, Kind, Route};

/// What a rebuild made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// Rows of the mirror, of all routes.
    pub records: usize,
}

/// Makes the mirror of the store at `path` again from the log, and removes the index of all words, which the caller
/// makes again. Blocks.
///
/// A record that a table still holds keeps when it was first seen and how it was found; of others,
/// the oldest version in the log says when.
///
/// `progress` is given the rows that were made and about how many will be.
///
/// # Errors
/// [`OpenError`] if there is no store, if a daemon holds it, or if the file is not ours; nothing is
/// changed then.
pub fn rebuild(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Rebuilt, OpenError> {
    let failed = |source| OpenError::Sqlite { path: path.to_owned(), source };
    if !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    let mut opened = open::open(path)?;
    let records = rebuild_all(&mut opened.connection, progress).map_err(failed)?;
    checkpoint::cut_wal(&opened.connection).map_err(failed)?;
    full_text::remove(path).map_err(failed)?;
    if opened.was_closed {
        opened.lock.release();
    }
    Ok(Rebuilt { records })
}

fn rebuild_all(
    connection: &mut Connection,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<usize, StoreError> {
    // Without it, renaming a table would rename it inside every view as well.
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let total = tx.query_row(ABOUT_RECORDS, [], |row| row.get::<_, i64>(0))?;
    let total = u64::try_from(total).unwrap_or_default();
    let mut records = 0;
    for route in Route::ALL {
        records += rebuild_route(&tx, route, &mut |made| progress((records + made) as u64, total))?;
    }
    pollers::note_pages(&tx)?;
    // The indexes went with the old tables.
    views::make_again(&tx)?;
    job_states::make_again(&tx)?;
    tx.commit()?;
    Ok(records)
}

/// The latest versions of the records after one, in the order of their ids.
pub(super) const LATEST_VERSIONS: &str = "SELECT record_id, max(version), seq, observed_at, business, body, kind \
     FROM changes WHERE route = ?1 AND record_id > ?2 GROUP BY record_id ORDER BY record_id LIMIT 500";

/// About how many records the log has: those whose first version was not deleted.
const ABOUT_RECORDS: &str = "SELECT count(*) FROM changes WHERE version = 1 AND kind <> 'gap'";

struct LatestRow {
    id: String,
    seq: i64,
    observed_at: String,
    business: Option<String>,
    body: String,
    kind: String,
}

fn latest_after(tx: &Transaction<'_>, route: Route, id: &str) -> rusqlite::Result<Vec<LatestRow>> {
    let mut statement = tx.prepare_cached(LATEST_VERSIONS)?;
    let rows = statement.query_map((route.as_str(), id), |row| {
        Ok(LatestRow {
            id: row.get(0)?,
            seq: row.get(2)?,
            observed_at: row.get(3)?,
            business: row.get(4)?,
            body: row.get(5)?,
            kind: row.get(6)?,
        })
    })?;
    rows.collect()
}

/// What only the old table says of a record.
#[derive(Default)]
struct OldRow {
    first_seen_at: Option<String>,
    business: Option<String>,
    last_seen_at: Option<String>,
    via: Option<String>,
}

fn rebuild_route(
    tx: &Transaction<'_>,
    route: Route,
    progress: &mut dyn FnMut(usize),
) -> Result<usize, StoreError> {
    let mut mirror = Mirror::load(tx, route)?;
    let old = format!("old_{route}");
    let has_old = tx.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        [route.as_str()],
        |row| row.get::<_, bool>(0),
    )?;
    if has_old {
        tx.execute_batch(&format!("ALTER TABLE \"{route}\" RENAME TO \"{old}\""))?;
    }
    mirror.create(tx)?;
    let (mut records, mut last) = (0, String::new());
    loop {
        let step = latest_after(tx, route, &last)?;
        let Some(end) = step.last() else { break };
        last.clone_from(&end.id);
        let kept: Vec<&LatestRow> =
            step.iter().filter(|latest| latest.kind != Kind::Forgotten.as_str()).collect();
        let fields: Vec<Fields<'_>> =
            kept.iter().map(|latest| Fields::of(&latest.body).unwrap_or_default()).collect();
        mirror.grow(tx, fields.iter())?;
        for (latest, fields) in kept.iter().zip(&fields) {
            let old_row = if has_old { old_row(tx, &old, &latest.id)? } else { None };
            let is_known = old_row.is_some();
            let old_row = old_row.unwrap_or_default();
            let first_seen_at = match old_row.first_seen_at {
                Some(at) => at,
                None => first_observed(tx, route, &latest.id)?,
            };
            let facts = RowFacts {
                id: &latest.id,
                business: if is_known { &old_row.business } else { &latest.business }.as_deref(),
                first_seen_at: &first_seen_at,
                at: &latest.observed_at,
                last_seen_at: match is_known {
                    true => old_row.last_seen_at.as_deref(),
                    false => Some(&latest.observed_at),
                },
                seq: latest.seq,
                via: old_row.via.as_deref(),
            };
            mirror.put(tx, &facts, fields)?;
        }
        records += kept.len();
        progress(records);
    }
    if has_old {
        // Its indexes go with it.
        tx.execute_batch(&format!("DROP TABLE \"{old}\""))?;
        lookup::create_indexes(&mirror, tx)?;
    }
    Ok(records)
}

fn old_row(tx: &Transaction<'_>, old: &str, id: &str) -> rusqlite::Result<Option<OldRow>> {
    tx.prepare_cached(&format!(
        "SELECT _first_seen_at, _business, _last_seen_at, _via FROM \"{old}\" WHERE id = ?1"
    ))?
    .query_row([id], |row| {
        Ok(OldRow {
            first_seen_at: row.get(0)?,
            business: row.get(1)?,
            last_seen_at: row.get(2)?,
            via: row.get(3)?,
        })
    })
    .optional()
}

/// When the first version of a record was observed that the log still has.
pub(super) fn first_observed(
    tx: &Transaction<'_>,
    route: Route,
    id: &str,
) -> rusqlite::Result<String> {
    tx.prepare_cached(
        "SELECT observed_at FROM changes WHERE route = ?1 AND record_id = ?2 ORDER BY version LIMIT 1",
    )?
    .query_row((route.as_str(), id), |row| row.get(0))
}
