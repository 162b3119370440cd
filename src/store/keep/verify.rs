//! Proves from the store's own rows that it is sound: the file, the log, the mirror, each sink.
//!
//! Reads one snapshot and writes nothing, beside a running daemon or without one. What the rows
//! cannot prove is not claimed.

use rusqlite::{Connection, Row};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::record::{Fields, Kind, Route};
use crate::store::error::StoreError;
use crate::store::identity::Identities;
use crate::store::log::{self, NewChange};
use crate::store::mirror::{MISSING_TABLE, Mirror, tables};
use crate::store::outbox::sinks::{SinkRow, SinkState};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// Disagreements named one by one; further ones are counted.
const NAMED: usize = 5;
/// Rows between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

/// What one part of the store was found to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyFinding {
    /// What was checked: `file`, `log`, `mirror ROUTE` or `sink NAME`.
    pub what: String,
    /// Whether everything agrees.
    pub ok: bool,
    /// What was counted, or what disagrees.
    pub said: String,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// One finding a part.
    pub findings: Vec<VerifyFinding>,
}

impl Verification {
    /// Whether nothing disagrees.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.ok)
    }
}

/// Disagreements of one part, of which the first few are named.
#[derive(Default)]
struct Disagreements {
    named: Vec<String>,
    count: usize,
}

impl Disagreements {
    fn add(&mut self, fault: impl FnOnce() -> String) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(fault());
        }
    }

    fn finding(self, what: String, sound: String) -> VerifyFinding {
        let ok = self.count == 0;
        let more = match self.count - self.named.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let said = if ok { sound } else { self.named.join("; ") + &more };
        VerifyFinding { what, ok, said }
    }
}

impl Reader {
    /// Checks everything that the rows can prove; `progress` is given the rows read and the rows in all.
    ///
    /// # Errors
    /// If the file cannot be read. What disagrees is a finding, not an error.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification, StoreError> {
        // One snapshot for all parts, whatever the daemon writes meanwhile.
        let snapshot = self.connection.unchecked_transaction()?;
        let mut findings = vec![file(&snapshot)?];
        if findings[0].ok {
            let records: i64 = self.counts()?.iter().map(|(_, count)| count).sum();
            let total = records.saturating_add(log::last_seq(&snapshot)?);
            let total = u64::try_from(total).unwrap_or_default();
            let mut done = 0_u64;
            let mut read = || {
                done += 1;
                if done.is_multiple_of(PROGRESS_EVERY) {
                    progress(done.min(total), total);
                }
            };
            findings.push(changes(&snapshot, &mut read)?);
            for route in Route::ALL {
                findings.push(mirror(&snapshot, route, &mut read)?);
            }
            for row in self.sinks()? {
                findings.push(sink(&snapshot, &row)?);
            }
        }
        Ok(Verification { findings })
    }
}

/// What SQLite says is wrong with the file and its rows.
pub(in crate::store) fn soundness(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let said: Vec<String> = connection.values("PRAGMA integrity_check(5)", [])?;
    Ok((said != ["ok"]).then(|| said.join("; ")))
}

fn file(connection: &Connection) -> rusqlite::Result<VerifyFinding> {
    let fault = soundness(connection)?;
    let pages: i64 = connection.value("PRAGMA page_count", [])?;
    let ok = fault.is_none();
    let said = fault.unwrap_or_else(|| format!("integrity holds on {pages} pages"));
    Ok(VerifyFinding { what: "file".to_owned(), ok, said })
}

/// Every row of the log: its text is JSON, and its event id is the one that this text has.
fn changes(connection: &Connection, read: &mut dyn FnMut()) -> rusqlite::Result<VerifyFinding> {
    let identities = Identities::read(connection)?;
    let mut statement = connection.prepare(
        // The text of a record whose data was removed is gone, and its event ids stay.
        "SELECT seq, event_id, route, record_id, kind, version, body FROM changes c \
         WHERE NOT EXISTS (SELECT 1 FROM _forgotten f WHERE f.route = c.route AND f.record_id = c.record_id) \
         ORDER BY seq",
    )?;
    let mut rows = statement.query([])?;
    let mut faults = Disagreements::default();
    let mut count = 0_i64;
    while let Some(row) = rows.next()? {
        count += 1;
        read();
        if let Some(fault) = change(row, &identities)? {
            let seq: i64 = row.get(0)?;
            faults.add(|| format!("change {seq}: {fault}"));
        }
    }
    Ok(faults.finding(
        "log".to_owned(),
        format!("{count} changes hold the text that their event ids were made for"),
    ))
}

fn change(row: &Row<'_>, identities: &Identities) -> rusqlite::Result<Option<&'static str>> {
    let event_id = row.get_ref(1)?.as_str()?;
    let (route, kind) = (row.get_ref(2)?.as_str()?, row.get_ref(4)?.as_str()?);
    let (Ok(route), Ok(kind)) = (route.parse::<Route>(), kind.parse::<Kind>()) else {
        return Ok(Some("its route or kind is unknown"));
    };
    let body = row.get_ref(6)?.as_str()?;
    if serde_json::from_str::<IgnoredAny>(body).is_err() {
        return Ok(Some("its text is not JSON"));
    }
    let change = NewChange {
        route,
        record_id: row.get_ref(3)?.as_str()?,
        kind,
        version: row.get(5)?,
        observed_at: "",
        business: None,
        body,
    };
    let same = identities.all().any(|identity| log::event_id(identity, &change) == event_id);
    Ok((!same).then_some("its text is not the one that its event id was made for"))
}

/// Every row of one mirror table is the newest version in the log, and every record has one.
fn mirror(
    connection: &Connection,
    route: Route,
    read: &mut dyn FnMut(),
) -> rusqlite::Result<VerifyFinding> {
    if !tables(connection)?.contains(route.as_str()) {
        let (what, said) = (format!("mirror {route}"), MISSING_TABLE.to_owned());
        return Ok(VerifyFinding { what, ok: false, said });
    }
    let mirror = Mirror::load(connection, route)?;
    let mut statement = connection.prepare(&format!(
        "SELECT c.body, c.version = (SELECT max(n.version) FROM changes n \
         WHERE n.route = '{route}' AND n.record_id = m.id), {} \
         FROM \"{route}\" m LEFT JOIN changes c \
         ON c.seq = m._seq AND c.route = '{route}' AND c.record_id = m.id",
        mirror.column_list("m"),
    ))?;
    let mut rows = statement.query([])?;
    let mut faults = Disagreements::default();
    let mut count = 0_i64;
    while let Some(row) = rows.next()? {
        count += 1;
        read();
        let newest: Option<bool> = row.get(1)?;
        let fault = match (row.get_ref(0)?.as_str_or_null()?, newest) {
            (Some(body), Some(true)) => {
                let same = mirror.holds(row, 2, &Fields::of(body).unwrap_or_default())?;
                (!same).then_some("differs from the newest version in the log")
            }
            (Some(_), _) => Some("is not the newest version in the log"),
            (None, _) => Some("has no version in the log"),
        };
        if let Some(fault) = fault {
            let id: String = row.get(2)?;
            faults.add(|| format!("record {id} {fault}"));
        }
    }
    let absent: i64 = connection.value(
        &format!(
            "SELECT count(DISTINCT record_id) FROM changes WHERE route = '{route}' \
             AND record_id <> '' AND record_id NOT IN (SELECT id FROM \"{route}\") \
             AND record_id NOT IN (SELECT record_id FROM _forgotten WHERE route = '{route}')"
        ),
        [],
    )?;
    if absent > 0 {
        faults.add(|| format!("{absent} records of the log are absent"));
    }
    Ok(faults.finding(
        format!("mirror {route}"),
        format!("{count} records equal their newest version in the log"),
    ))
}

/// Each stored change is delivered, still to come, in the queue, dead, or was not asked for.
fn sink(connection: &Connection, row: &SinkRow) -> rusqlite::Result<VerifyFinding> {
    let stored = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'";
    let stored: i64 = connection.value(stored, [])?;
    let account = "SELECT (SELECT count(*) FROM changes WHERE seq > ?2), \
         (SELECT count(*) FROM changes WHERE seq > ?2 AND seq NOT IN (SELECT seq FROM _queue WHERE sink = ?1 AND lane = 2)), \
         count(*) FILTER (WHERE lane = 2 AND state = 'ready'), \
         count(*) FILTER (WHERE lane = 2 AND state IN ('retrying', 'waiting')), \
         count(*) FILTER (WHERE lane = 2 AND state = 'dead'), count(*) FILTER (WHERE lane > 0 AND NOT EXISTS \
         (SELECT 1 FROM changes c WHERE c.seq = d.seq AND c.route = d.route AND c.record_id = d.record_id)) \
         FROM _queue d WHERE sink = ?1";
    let (later, not_queued, ready, retrying, dead, lost): (i64, i64, i64, i64, i64, i64) =
        connection.query_row(account, (&row.name, row.position), |row| row.try_into())?;
    let pending = ready + not_queued;
    let (delivered, position, filtered) = (row.delivered, row.position, row.filtered);
    let absent = stored - position - later;
    // The log does not wait for a sink that is removed.
    let lost_while_removed = if row.state == SinkState::Removed { absent.max(0) } else { 0 };
    let skipped = row.skipped + lost_while_removed;
    let sum = delivered + pending + retrying + dead + filtered + skipped;

    let mut faults = Disagreements::default();
    if !(0..=stored).contains(&position) {
        faults.add(|| {
            format!("its position {position} lies outside the log, which ends at {stored}")
        });
    }
    if (row.retrying, row.dead) != (retrying, dead) {
        faults.add(|| {
            format!(
                "it counts {} retrying and {} dead changes, but has {retrying} and {dead}",
                row.retrying, row.dead
            )
        });
    }
    if lost > 0 {
        faults.add(|| format!("{lost} of the changes in its queue are not in the log"));
    }
    let account = format!(
        "{delivered} delivered + {pending} pending + {retrying} retrying + {dead} dead + {filtered} not wanted + {skipped} before start"
    );
    if sum != stored {
        faults.add(|| format!("{account} are {sum}, but {stored} are stored"));
    }
    let sound = format!("{stored} stored = {account}");
    Ok(faults.finding(format!("sink {}", row.name), sound))
}
