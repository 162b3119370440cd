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
use crate::store::mirror::{Mirror, job_states, reread};
use crate::store::outbox::sinks::{SinkRow, SinkState};
use crate::store::reader::Reader;
use crate::store::schema;
use crate::store::sightings;
use crate::store::sql::{self, Sql};

/// The search for disagreements of one part ends after this many.
const NAMED: usize = 5;
/// Rows between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// The result for one part of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyFinding {
    /// What was checked: `file`, `tables`, `log`, `mirror ROUTE`, `jobs`, `sink NAME`, or `sinks` if
    /// their table cannot be read.
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

/// What was found; a table that another program altered is a finding too.
fn readable(
    what: &str,
    found: rusqlite::Result<VerifyFinding>,
) -> Result<VerifyFinding, StoreError> {
    match found.map_err(StoreError::from) {
        Err(StoreError::Altered(reason)) => Ok(altered(what, &reason)),
        found => found,
    }
}

fn altered(what: &str, reason: &str) -> VerifyFinding {
    let fault = format!("another program altered it: {reason}");
    finding(what.to_owned(), &[fault], String::new())
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
        // Only for the progress: a table may be gone.
        for (_, count) in self.counts().unwrap_or_default() {
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
        let mut findings = vec![file, readable("tables", tables(&snapshot))?];
        findings.push(readable("log", changes(&snapshot, &mut count_row))?);
        for route in Route::ALL {
            let found = mirror(&snapshot, route, &mut count_row);
            findings.push(readable(&format!("mirror {route}"), found)?);
        }
        findings.push(readable("jobs", states(&snapshot))?);
        match self.sinks() {
            Ok(rows) => {
                for row in rows {
                    let found = sink(&snapshot, &row);
                    findings.push(readable(&format!("sink {}", row.name), found)?);
                }
            }
            Err(StoreError::Altered(reason)) => findings.push(altered("sinks", &reason)),
            Err(error) => return Err(error),
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

/// The tables of the program have the columns that it gave them, and what waits for a sink is
/// there.
fn tables(connection: &Connection) -> rusqlite::Result<VerifyFinding> {
    let mut faults = Vec::new();
    for column in schema::missing_columns(connection)?.iter().take(NAMED) {
        faults.push(format!("{column} is not there"));
    }
    if faults.is_empty() {
        let lost: i64 = connection.value(QUEUED_AND_GONE, [])?;
        if lost > 0 {
            faults.push(format!("{lost} rows wait for a sink and are in no log"));
        }
    }
    let sound = "they have the columns that they were made with".to_owned();
    Ok(finding("tables".to_owned(), &faults, sound))
}

/// Counts the rows of queues that belong to nothing.
const QUEUED_AND_GONE: &str = "
    SELECT count(*)
    FROM _queue
    WHERE iif(
        lane = 0,
        seq NOT IN (SELECT id FROM _notices),
        seq NOT IN (SELECT seq FROM changes)
    )";

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

/// Every row of one mirror table is the newest version in the log and has what was shown beside it,
/// and every record has one.
fn mirror(
    connection: &Connection,
    route: Route,
    count_row: &mut dyn FnMut(),
) -> rusqlite::Result<VerifyFinding> {
    let mirror = Mirror::load(connection, route)?;
    let rules = FieldRules::load(connection, route)?;
    let is_settled = !reread::is_running(connection, route)?;
    let rules = is_settled.then_some(&rules);
    let sql = rows_sql(route, &mirror.column_list("m"));
    let mut statement = connection.prepare(&sql)?;
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
            Some(fields) => row.get(1)? && mirror.holds(row, 3, &fields, rules)?,
            None => false,
        };
        let is_as_shown: bool = row.get(2)?;
        let id: String = row.get(3)?;
        if !is_newest {
            faults.push(format!(
                "record {id} differs from the newest version in the log"
            ));
        } else if !is_as_shown {
            faults.push(format!(
                "record {id}: when it was seen, by which business or how it was found differs from \
                 what was noted"
            ));
        }
    }
    let absent: i64 = connection.value(&absent_sql(route), [])?;
    if absent > 0 {
        faults.push(format!("{absent} records of the log are absent"));
    }
    let noted = format!(
        "SELECT count(*) FROM _sightings WHERE {}",
        sightings::is_absent_sql(route)
    );
    let unknown: i64 = connection.value(&noted, [])?;
    if unknown > 0 {
        faults.push(format!("{unknown} records were seen and are absent"));
    }
    let sound = format!("{count} records equal their newest version in the log");
    Ok(finding(format!("mirror {route}"), &faults, sound))
}

/// Each row of a mirror table: its text in the log if that is the newest version, whether its times
/// are those of the log, whether it has what was noted beside its text, and its columns.
fn rows_sql(route: Route, columns: &str) -> String {
    format!(
        "SELECT
            c.body,
            coalesce(
                m._changed_at = c.observed_at
                    AND m._vanished_at IS iif(c.kind = 'vanished', c.observed_at, NULL)
                    -- Unless retention has removed that row.
                    AND m._first_seen_at = coalesce(
                        (
                            SELECT f.observed_at
                            FROM changes f
                            WHERE f.route = '{route}' AND f.record_id = m.id
                                AND f.kind IN ('baseline', 'created')
                            ORDER BY f.version DESC
                            LIMIT 1
                        ),
                        m._first_seen_at
                    ),
                0
            ),
            coalesce(
                m._business IS s.business
                    AND m._first_seen_at = s.first_seen_at
                    AND m._last_seen_at IS iif(s.is_on_page, NULL, s.last_seen_at)
                    AND m._via IS s.via
                    AND m._vanished_at IS s.vanished_at,
                0
            ),
            {columns}
        FROM \"{route}\" m
        LEFT JOIN changes c
            ON c.seq = m._seq
            AND c.route = '{route}'
            AND c.record_id = m.id
            AND c.version = (
                SELECT max(n.version)
                FROM changes n
                WHERE n.route = '{route}' AND n.record_id = m.id
            )
        LEFT JOIN _sightings s ON s.route = '{route}' AND s.record_id = m.id"
    )
}

/// The states of the jobs are those that the mirror gives.
fn states(connection: &Connection) -> rusqlite::Result<VerifyFinding> {
    // It hides the table of the store from the statement that makes the states.
    connection.execute_batch(
        "CREATE TEMP TABLE _job_states AS SELECT * FROM main._job_states WHERE 0;",
    )?;
    let made = job_states::rebuild(connection);
    let compared = made.and_then(|()| {
        let faults: Vec<String> = connection.values(OTHER_STATES, [])?;
        let count: i64 = connection.value("SELECT count(*) FROM temp._job_states", [])?;
        Ok((faults, count))
    });
    connection.execute_batch("DROP TABLE temp._job_states")?;
    let (faults, count) = compared?;
    let sound = format!("{count} jobs have the state that the mirror gives them");
    Ok(finding("jobs".to_owned(), &faults, sound))
}

/// The jobs whose states differ.
const OTHER_STATES: &str = "
    SELECT 'the state of job ' || id || ' differs from what the mirror gives'
    FROM (
        SELECT * FROM (SELECT * FROM main._job_states EXCEPT SELECT * FROM temp._job_states)
        UNION ALL
        SELECT * FROM (SELECT * FROM temp._job_states EXCEPT SELECT * FROM main._job_states)
    )
    GROUP BY id
    LIMIT 5";

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
