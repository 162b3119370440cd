//! Makes the store again in a new file: what only the store knows is copied row by row, what
//! follows from it is made from that and never read. So a table that another program altered, and
//! pages that cannot be read, cost no more than the rows in them.
//!
//! The daemon must not run, and commands that write wait. The new file is checked and then takes the
//! place of the store, which stays beside it; until then the store is as it was.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::record::{Fields, Kind, Route};

use crate::files::owner;
use crate::store::error::StoreError;
use crate::store::maintenance::salvage::Salvage;
use crate::store::maintenance::verify::soundness;
use crate::store::maintenance::{backup, restore};
use crate::store::mirror::field_rules::FieldRules;
use crate::store::mirror::{self, Mirror, RowFacts, job_states, views};
use crate::store::open::{self, Lock, write_tx};
use crate::store::sql::Sql;
use crate::store::{schema, search_index, sightings};

/// What a rebuild did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rebuilt {
    /// The records of the mirror.
    pub records: usize,
    /// What could not be read of the store, each in words.
    pub lost: Vec<String>,
    /// What other programs had made in the store, and is not in the new file.
    pub left_out: Vec<String>,
    /// Where the store is that was there before.
    pub kept: Option<PathBuf>,
}

/// Makes the store at `path` again from its log and from what it knows beside it, and removes the
/// search index, which the caller creates again. Blocks.
///
/// `progress` gets the number of rows written and about how many will be.
///
/// # Errors
/// [`StoreError`] if there is no store, if a daemon holds it, if the file is not ours, or if
/// nothing of the log can be read; nothing is changed then.
pub fn rebuild(
    path: &Path,
    now: Timestamp,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Rebuilt, StoreError> {
    let replaced = match fs::metadata(path) {
        Ok(found) => found,
        Err(_) => return Err(StoreError::Missing(path.to_owned())),
    };
    let lock = Lock::take(path)?;
    restore::remove_leftovers(path, &lock)?;
    let copy = backup::partial(path)?;
    backup::refuse_without_room(&copy, replaced.len())?;
    let old = open::connect_to_ours(path)?;
    let held = restore::hold(path)?;
    let mut rebuilt = make(&old, path, copy.path(), progress)?;
    owner::give_as(copy.as_file(), &replaced)
        .map_err(StoreError::io("give its owner", copy.path()))?;
    backup::facts(&copy)?;
    search_index::remove(path)?;
    rebuilt.kept = restore::swap(path, copy, now)?;
    drop(held);
    Ok(rebuilt)
}

/// Fills a new file from a store.
fn make(
    old: &Connection,
    store: &Path,
    new: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Rebuilt, StoreError> {
    let mut new = open::connect(new, open::LOCK_WAIT)?;
    // Nothing of it stays beside a file that is thrown away, and the caller syncs it.
    new.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;")?;
    schema::bring_up_to_date(&mut new)?;
    mirror::create_tables(&new)?;
    let tx = write_tx(&mut new)?;
    let mut salvage = Salvage::new(old, &tx);
    salvage.copy_all(store, progress)?;
    let (records, unseen) = make_mirror(&tx)?;
    let mut lost = salvage.lost;
    if unseen > 0 {
        lost.push(format!(
            "when {unseen} records were seen first and last, which business showed them and how \
             they were found: the oldest version in the log says it now"
        ));
    }
    views::refresh(&tx)?;
    job_states::rebuild(&tx)?;
    let left_out = left_out(old, &tx)?;
    tx.commit()?;
    if let Some(fault) = soundness(&new)? {
        return Err(StoreError::Corrupt(fault));
    }
    Ok(Rebuilt {
        records,
        lost,
        left_out,
        kept: None,
    })
}

/// What is in the store and was not made by this program.
fn left_out(old: &Connection, new: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "
        SELECT type || ' ' || name
        FROM sqlite_schema
        WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'
        ORDER BY 1";
    let ours: Vec<String> = new.values(sql, [])?;
    let mut left_out: Vec<String> = old.values(sql, [])?;
    left_out.retain(|object| !ours.contains(object));
    Ok(left_out)
}

/// Makes the mirror tables, which are empty; returns how many records there are, and of how many it
/// was not known any more what was shown beside their text.
fn make_mirror(connection: &Connection) -> Result<(usize, usize), StoreError> {
    let mut records = 0;
    let mut unseen = 0;
    for route in Route::ALL {
        let (of_route, unseen_of_route) = make_table(connection, route)?;
        records += of_route;
        unseen += unseen_of_route;
    }
    Ok((records, unseen))
}

/// The latest versions of the records after one, in the order of their ids, with what was shown of
/// each record beside its text.
pub(in crate::store) const LATEST_VERSIONS: &str = "
    SELECT
        latest.record_id AS id,
        latest.seq,
        latest.observed_at AS changed_at,
        latest.body,
        latest.kind,
        s.record_id IS NOT NULL AS is_seen,
        iif(s.record_id IS NULL, latest.business, s.business) AS business,
        coalesce(
            s.first_seen_at,
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
        CASE
            WHEN s.record_id IS NULL THEN latest.observed_at
            WHEN NOT s.is_on_page THEN s.last_seen_at
        END AS last_seen_at,
        iif(latest.kind = 'vanished', latest.observed_at, NULL) AS vanished_at,
        s.via
    FROM (
        SELECT record_id, max(version), seq, observed_at, business, body, kind
        FROM changes
        WHERE route = :route AND record_id > :after
        GROUP BY record_id
        ORDER BY record_id
        LIMIT 500
    ) latest
    LEFT JOIN _sightings s ON s.route = :route AND s.record_id = latest.record_id
    ORDER BY latest.record_id";

#[derive(Deserialize)]
struct LatestVersion {
    #[serde(flatten)]
    facts: RowFacts,
    body: String,
    kind: Kind,
    is_seen: bool,
}

fn make_table(connection: &Connection, route: Route) -> Result<(usize, usize), StoreError> {
    let mut mirror = Mirror::load(connection, route)?;
    // The list of columns is another one than when the table was made.
    connection.execute_batch(&format!("DROP TABLE \"{route}\""))?;
    mirror.create(connection)?;
    let rules = FieldRules::load(connection, route)?;
    let mut records = 0;
    let mut unseen = 0;
    let mut last = String::new();
    loop {
        let values = named_params! { ":route": route.as_str(), ":after": last };
        let step: Vec<LatestVersion> = connection.rows(LATEST_VERSIONS, values)?;
        let Some(end) = step.last() else { break };
        last.clone_from(&end.facts.id);
        let mut fields = Vec::with_capacity(step.len());
        for latest in &step {
            if latest.kind != Kind::Forgotten {
                fields.push((latest, Fields::parse(&latest.body).unwrap_or_default()));
            }
        }
        mirror.grow(connection, fields.iter().map(|(_, fields)| fields))?;
        for (latest, fields) in &fields {
            mirror.put_row(connection, &latest.facts, fields, &rules)?;
            if !latest.is_seen {
                sightings::put(connection, route, &latest.facts)?;
                unseen += 1;
            }
        }
        records += fields.len();
    }
    // Those whose versions were lost begin anew.
    sightings::forget_absent(connection, route)?;
    Ok((records, unseen))
}
