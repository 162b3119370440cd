//! Rebuilds the mirror tables from the log: they are a projection of it.
//!
//! The daemon must not run. One transaction: an error leaves the mirror as it was.

use std::path::Path;

use rusqlite::{Connection, Transaction, named_params};
use serde::Deserialize;
use shopmirror_core::record::{Fields, Kind, Route};

use crate::store::error::StoreError;
use crate::store::maintenance;
use crate::store::mirror::field_rules::FieldRules;
use crate::store::mirror::{Mirror, RowFacts, job_states, views};
use crate::store::open::write_tx;
use crate::store::sql::Sql;
use crate::store::{schema, search_index};

/// Rebuilds the mirror of the store at `path` from the log, and removes the search index, which the
/// caller creates again. Returns how many records there are. Blocks.
///
/// A record that a table still holds keeps when it was first seen and how it was found; for others,
/// the oldest version in the log says when.
///
/// `progress` gets the number of rows written and about how many will be.
///
/// # Errors
/// [`StoreError`] if there is no store, if a daemon holds it, or if the file is not ours; nothing
/// is changed then.
pub fn rebuild(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<usize, StoreError> {
    if !path.exists() {
        return Err(StoreError::Missing(path.to_owned()));
    }
    let (mut connection, _lock) = schema::open(&path.into())?;
    search_index::remove(path)?;
    let records = rebuild_all(&mut connection, progress)?;
    maintenance::cut_wal(&connection)?;
    Ok(records)
}

fn rebuild_all(
    connection: &mut Connection,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<usize, StoreError> {
    // Without it, renaming a table would rename it inside every view as well.
    connection.pragma_update(None, "legacy_alter_table", true)?;
    let tx = write_tx(connection)?;
    let total: i64 = tx.value(ABOUT_RECORDS, [])?;
    let total = u64::try_from(total).unwrap_or_default();
    let mut records = 0;
    for route in Route::ALL {
        records += rebuild_route(&tx, route, &mut |made| {
            progress((records + made) as u64, total)
        })?;
    }
    // Every row was read by the rules of now.
    tx.execute("DELETE FROM _rereads", [])?;
    // The indexes went with the old tables.
    views::refresh(&tx)?;
    job_states::rebuild(&tx)?;
    tx.commit()?;
    Ok(records)
}

/// The latest versions of the records after one, in the order of their ids, with what only the old
/// table has of a record.
pub(in crate::store) fn latest_versions_sql(old: &str) -> String {
    format!(
        "SELECT
            latest.record_id AS id,
            latest.seq,
            latest.observed_at AS changed_at,
            latest.body,
            latest.kind,
            iif(o.id IS NULL, latest.business, o._business) AS business,
            coalesce(
                o._first_seen_at,
                -- An id that the workspace uses again begins with the record that has it now.
                (
                    SELECT f.observed_at
                    FROM changes f
                    WHERE f.route = :route AND f.record_id = latest.record_id
                        AND f.kind IN ('baseline', 'created')
                    ORDER BY f.version DESC
                    LIMIT 1
                ),
                (
                    SELECT f.observed_at
                    FROM changes f
                    WHERE f.route = :route AND f.record_id = latest.record_id
                    ORDER BY f.version
                    LIMIT 1
                )
            ) AS first_seen_at,
            iif(o.id IS NULL, latest.observed_at, o._last_seen_at) AS last_seen_at,
            iif(latest.kind = 'vanished', latest.observed_at, NULL) AS vanished_at,
            o._via AS via
        FROM (
            SELECT record_id, max(version), seq, observed_at, business, body, kind
            FROM changes
            WHERE route = :route AND record_id > :after
            GROUP BY record_id
            ORDER BY record_id
            LIMIT 500
        ) latest
        LEFT JOIN \"{old}\" o ON o.id = latest.record_id
        ORDER BY latest.record_id"
    )
}

/// About how many records the log has: those whose first version was not deleted.
const ABOUT_RECORDS: &str = "SELECT count(*) FROM changes WHERE version = 1 AND kind <> 'gap'";

#[derive(Deserialize)]
struct LatestVersion {
    #[serde(flatten)]
    facts: RowFacts,
    body: String,
    kind: Kind,
}

fn rebuild_route(
    tx: &Transaction<'_>,
    route: Route,
    progress: &mut dyn FnMut(usize),
) -> Result<usize, StoreError> {
    let mut mirror = Mirror::load(tx, route)?;
    let rules = FieldRules::load(tx, route)?;
    let old = format!("old_{route}");
    tx.execute_batch(&format!("ALTER TABLE \"{route}\" RENAME TO \"{old}\""))?;
    mirror.create(tx)?;
    let sql = latest_versions_sql(&old);
    let mut records = 0;
    let mut last = String::new();
    loop {
        let values = named_params! { ":route": route.as_str(), ":after": last };
        let step: Vec<LatestVersion> = tx.rows(&sql, values)?;
        let Some(end) = step.last() else { break };
        last.clone_from(&end.facts.id);
        let mut fields = Vec::with_capacity(step.len());
        for latest in &step {
            if latest.kind != Kind::Forgotten {
                fields.push((latest, Fields::parse(&latest.body).unwrap_or_default()));
            }
        }
        mirror.grow(tx, fields.iter().map(|(_, fields)| fields))?;
        for (latest, fields) in &fields {
            mirror.put(tx, &latest.facts, fields, &rules)?;
        }
        records += fields.len();
        progress(records);
    }
    // Its indexes go with it.
    tx.execute_batch(&format!("DROP TABLE \"{old}\""))?;
    Ok(records)
}
