//! Proves from the store's own rows that it is sound: the file, the log, the mirror, each sink.
//!
//! Reads one snapshot and changes nothing in the store, beside a running daemon or without one.
//! What the rows cannot prove is not claimed.

use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::record::{Fields, Route};

use crate::store::error::StoreError;
use crate::store::identity::Identities;
use crate::store::log;
use crate::store::maintenance::restore;
use crate::store::mirror::field_rules::FieldRules;
use crate::store::mirror::{Mirror, reread};
use crate::store::outbox::sinks::{SinkRow, SinkState};
use crate::store::reader::Reader;
use crate::store::sql::{self, Sql};

/// The search for disagreements of one part ends after this many.
const NAMED: usize = 5;
/// Rows between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// The result for one part of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyFinding {
    /// What was checked: `file`, `log`, `mirror ROUTE` or `sink NAME`.
    pub what: String,
    /// Whether everything agrees.
    pub ok: bool,
    /// What was counted, or what disagrees.
    pub said: String,
}

fn finding(what: String, faults: &[String], sound: String) -> VerifyFinding {
    if faults.is_empty() {
        VerifyFinding {
            what,
            ok: true,
            said: sound,
        }
    } else {
        VerifyFinding {
            what,
            ok: false,
            said: faults.join("; "),
        }
    }
}

impl Reader {
    /// Checks everything that the rows can prove, and removes what a killed restore left.
    /// `progress` gets the number of rows read and in all.
    ///
    /// # Errors
    /// What disagrees is a finding, not an error.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<VerifyFinding>, StoreError> {
        restore::log_left(restore::remove_unused_leftovers(&self.path));
        // One snapshot for all parts, whatever the daemon writes meanwhile.
        let snapshot = self.connection.unchecked_transaction()?;
        let file = file(&snapshot)?;
        if !file.ok {
            return Ok(vec![file]);
        }
        let mut total = log::last_seq(&snapshot)?;
        for (_, count) in self.counts()? {
            total = total.saturating_add(count);
        }
        let total = u64::try_from(total).unwrap_or_default();
        let mut done = 0_u64;
        let mut count_row = || {
            done += 1;
            if done.is_multiple_of(PROGRESS_EVERY) {
                progress(done.min(total), total);
            }
        };
        let mut findings = vec![file, changes(&snapshot, &mut count_row)?];
        for route in Route::ALL {
            findings.push(mirror(&snapshot, route, &mut count_row)?);
        }
        for row in self.sinks()? {
            findings.push(sink(&snapshot, &row)?);
        }
        Ok(findings)
    }
}

/// What SQLite says is wrong with the file and its rows.
pub(in crate::store) fn soundness(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let faults: Vec<String> = connection.values("PRAGMA integrity_check(5)", [])?;
    if faults == ["ok"] {
        return Ok(None);
    }
    Ok(Some(faults.join("; ")))
}

fn file(connection: &Connection) -> rusqlite::Result<VerifyFinding> {
    let pages: i64 = connection.value("PRAGMA page_count", [])?;
    let sound = format!("integrity holds on {pages} pages");
    Ok(finding(
        "file".to_owned(),
        soundness(connection)?.as_slice(),
        sound,
    ))
}

/// The rows of the log whose text their event ids prove. The text of a forgotten record was erased;
/// only its event ids remain.
const PROVABLE: &str = "
    SELECT seq, event_id, route, record_id, version, body
    FROM changes c
    WHERE NOT EXISTS (
        SELECT 1
        FROM changes f
        WHERE f.route = c.route
            AND f.record_id = nullif(c.record_id, '')
            AND f.kind = 'forgotten'
    )
    ORDER BY seq";

/// Every row of the log: its event id is the one that its text has.
fn changes(
    connection: &Connection,
    count_row: &mut dyn FnMut(),
) -> rusqlite::Result<VerifyFinding> {
    let identities = Identities::read(connection)?;
    let mut statement = connection.prepare(PROVABLE)?;
    let mut rows = statement.query([])?;
    let mut faults = Vec::new();
    let mut count = 0;
    while faults.len() < NAMED
        && let Some(row) = rows.next()?
    {
        count += 1;
        count_row();
        let seq: i64 = row.get(0)?;
        let event_id = row.get_ref(1)?.as_str()?;
        let route = row.get_ref(2)?.as_str()?;
        let id = row.get_ref(3)?.as_str()?;
        let version: i64 = row.get(4)?;
        let body = row.get_ref(5)?.as_str()?;
        let is_proven = identities
            .all()
            .any(|identity| log::event_id(identity, route, id, version, body) == event_id);
        if !is_proven {
            faults.push(format!(
                "change {seq}: its text is not the one that its event id was made for"
            ));
        }
    }
    let sound = format!("{count} changes hold the text that their event ids were made for");
    Ok(finding("log".to_owned(), &faults, sound))
}

/// Every row of one mirror table is the newest version in the log, and every record has one.
fn mirror(
    connection: &Connection,
    route: Route,
    count_row: &mut dyn FnMut(),
) -> rusqlite::Result<VerifyFinding> {
    let mirror = Mirror::load(connection, route)?;
    let rules = FieldRules::load(connection, route)?;
    let is_settled = !reread::is_running(connection, route)?;
    let rules = is_settled.then_some(&rules);
    // Each row of the mirror, with its text in the log if that is the newest version.
    let rows = format!(
        "SELECT c.body, {}
        FROM \"{route}\" m
        LEFT JOIN changes c
            ON c.seq = m._seq
            AND c.route = '{route}'
            AND c.record_id = m.id
            AND c.version = (
                SELECT max(n.version)
                FROM changes n
                WHERE n.route = '{route}' AND n.record_id = m.id
            )",
        mirror.column_list("m"),
    );
    let mut statement = connection.prepare(&rows)?;
    let mut rows = statement.query([])?;
    let mut faults = Vec::new();
    let mut count = 0;
    while faults.len() < NAMED
        && let Some(row) = rows.next()?
    {
        count += 1;
        count_row();
        let newest = row.get_ref(0)?.as_str_or_null()?;
        let is_newest = match newest.and_then(Fields::parse) {
            Some(fields) => mirror.holds(row, 1, &fields, rules)?,
            None => false,
        };
        if !is_newest {
            let id: String = row.get(1)?;
            faults.push(format!(
                "record {id} differs from the newest version in the log"
            ));
        }
    }
    let absent: i64 = connection.value(&absent_sql(route), [])?;
    if absent > 0 {
        faults.push(format!("{absent} records of the log are absent"));
    }
    let sound = format!("{count} records equal their newest version in the log");
    Ok(finding(format!("mirror {route}"), &faults, sound))
}

/// Counts the records of the log that the mirror lacks although they were not forgotten.
fn absent_sql(route: Route) -> String {
    format!(
        "SELECT count(DISTINCT record_id)
        FROM changes
        WHERE route = '{route}'
            AND record_id <> ''
            AND record_id NOT IN (SELECT id FROM \"{route}\")
            AND record_id NOT IN (
                SELECT record_id
                FROM changes
                WHERE route = '{route}' AND kind = 'forgotten'
            )"
    )
}

/// How many changes are stored, and where they are for a sink after its position.
const ACCOUNT: &str = "
    SELECT
        (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes') AS stored,
        (SELECT count(*) FROM changes WHERE seq > :position) AS later,
        (
            SELECT count(*)
            FROM changes
            WHERE seq > :position
                AND seq NOT IN (SELECT seq FROM _queue WHERE sink = :sink AND lane = 2)
        ) AS not_queued,
        count(*) FILTER (WHERE state = 'ready') AS ready,
        count(*) FILTER (WHERE state IN ('retrying', 'waiting')) AS retrying,
        count(*) FILTER (WHERE state = 'dead') AS dead
    FROM _queue
    WHERE sink = :sink AND lane = 2";

/// The row of [`ACCOUNT`].
#[derive(Deserialize)]
struct Account {
    stored: i64,
    later: i64,
    not_queued: i64,
    ready: i64,
    retrying: i64,
    dead: i64,
}

/// Each stored change is delivered, still to come, in the queue, dead, or was not asked for.
fn sink(connection: &Connection, row: &SinkRow) -> rusqlite::Result<VerifyFinding> {
    let values = named_params! { ":sink": row.name, ":position": row.position };
    let account = connection.query_row(ACCOUNT, values, sql::read)?;
    let Account {
        stored,
        later,
        not_queued,
        ready,
        retrying,
        dead,
    } = account;
    let SinkRow {
        delivered,
        position,
        filtered,
        ..
    } = *row;
    let pending = ready + not_queued;
    let mut skipped = row.skipped;
    // The log does not wait for a sink that is removed.
    if row.state == SinkState::Removed {
        skipped += (stored - position - later).max(0);
    }
    let sum = delivered + pending + retrying + dead + filtered + skipped;
    let account = format!(
        "{delivered} delivered + {pending} pending + {retrying} retrying + {dead} dead \
         + {filtered} not wanted + {skipped} before start"
    );
    let mut faults = Vec::new();
    if row.retrying != retrying || row.dead != dead {
        faults.push(format!(
            "it counts {} retrying and {} dead changes, but has {retrying} and {dead}",
            row.retrying, row.dead
        ));
    }
    if sum != stored || !(0..=stored).contains(&position) {
        faults.push(format!(
            "{account} up to change {position} are {sum}, but {stored} are stored"
        ));
    }
    let sound = format!("{stored} stored = {account}");
    Ok(finding(format!("sink {}", row.name), &faults, sound))
}
