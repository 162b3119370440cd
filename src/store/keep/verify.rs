//! Proves from the store's own rows that it is sound: the file, the log, the mirror, each sink.
//!
//! Reads one snapshot and writes nothing, beside a running daemon or without one. What the rows
//! cannot prove is not claimed.

use rusqlite::Connection;
use serde::Serialize;
use shopmirror_core::record::{Fields, Route};

use crate::store::error::StoreError;
use crate::store::identity::Identities;
use crate::store::log;
use crate::store::mirror::Mirror;
use crate::store::outbox::sinks::{SinkRow, SinkState};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// Disagreements of one part that are named; further ones are not looked for.
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

fn finding(what: String, faults: &[String], sound: String) -> VerifyFinding {
    let ok = faults.is_empty();
    VerifyFinding {
        what,
        ok,
        said: if ok { sound } else { faults.join("; ") },
    }
}

impl Reader {
    /// Checks everything that the rows can prove; `progress` is given the rows read and the rows in
    /// all.
    ///
    /// # Errors
    /// If the file cannot be read. What disagrees is a finding, not an error.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<VerifyFinding>, StoreError> {
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
        Ok(findings)
    }
}

/// What SQLite says is wrong with the file and its rows.
pub(in crate::store) fn soundness(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let said: Vec<String> = connection.values("PRAGMA integrity_check(5)", [])?;
    Ok((said != ["ok"]).then(|| said.join("; ")))
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

/// Every row of the log: its event id is the one that its text has.
fn changes(connection: &Connection, read: &mut dyn FnMut()) -> rusqlite::Result<VerifyFinding> {
    let identities = Identities::read(connection)?;
    let mut statement = connection.prepare(
        // The text of a record whose data was removed is gone, and its event ids stay.
        "SELECT seq, event_id, route, record_id, version, body FROM changes c \
         WHERE NOT EXISTS (SELECT 1 FROM changes f WHERE f.route = c.route AND f.record_id = nullif(c.record_id, '') \
         AND f.kind = 'forgotten') ORDER BY seq",
    )?;
    let mut rows = statement.query([])?;
    let (mut faults, mut count) = (Vec::new(), 0);
    while faults.len() < NAMED
        && let Some(row) = rows.next()?
    {
        count += 1;
        read();
        let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
        let (event_id, route, id, body) = (text(1)?, text(2)?, text(3)?, text(5)?);
        let (seq, version): (i64, i64) = (row.get(0)?, row.get(4)?);
        let id_of = |identity| log::event_id(identity, route, id, version, body);
        if !identities.all().any(|identity| id_of(identity) == event_id) {
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
    read: &mut dyn FnMut(),
) -> rusqlite::Result<VerifyFinding> {
    let mirror = Mirror::load(connection, route)?;
    let mut statement = connection.prepare(&format!(
        "SELECT c.body, {} FROM \"{route}\" m LEFT JOIN changes c \
         ON c.seq = m._seq AND c.route = '{route}' AND c.record_id = m.id AND c.version = \
         (SELECT max(n.version) FROM changes n WHERE n.route = '{route}' AND n.record_id = m.id)",
        mirror.column_list("m"),
    ))?;
    let mut rows = statement.query([])?;
    let (mut faults, mut count) = (Vec::new(), 0);
    while faults.len() < NAMED
        && let Some(row) = rows.next()?
    {
        count += 1;
        read();
        let newest = row.get_ref(0)?.as_str_or_null()?.and_then(Fields::of);
        if !newest.map_or(Ok(false), |fields| mirror.holds(row, 1, &fields))? {
            let id: String = row.get(1)?;
            faults.push(format!(
                "record {id} differs from the newest version in the log"
            ));
        }
    }
    let absent: i64 = connection.value(
        &format!(
            "SELECT count(DISTINCT record_id) FROM changes WHERE route = '{route}' \
             AND record_id <> '' AND record_id NOT IN (SELECT id FROM \"{route}\") \
             AND record_id NOT IN (SELECT record_id FROM changes WHERE route = '{route}' AND kind = 'forgotten')"
        ),
        [],
    )?;
    if absent > 0 {
        faults.push(format!("{absent} records of the log are absent"));
    }
    let sound = format!("{count} records equal their newest version in the log");
    Ok(finding(format!("mirror {route}"), &faults, sound))
}

/// Each stored change is delivered, still to come, in the queue, dead, or was not asked for.
fn sink(connection: &Connection, row: &SinkRow) -> rusqlite::Result<VerifyFinding> {
    let account = "SELECT (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'), \
         (SELECT count(*) FROM changes WHERE seq > ?2), \
         (SELECT count(*) FROM changes WHERE seq > ?2 AND seq NOT IN (SELECT seq FROM _queue WHERE sink = ?1 AND lane = 2)), \
         count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state IN ('retrying', 'waiting')), \
         count(*) FILTER (WHERE state = 'dead') FROM _queue WHERE sink = ?1 AND lane = 2";
    let (stored, later, not_queued, ready, retrying, dead): (i64, i64, i64, i64, i64, i64) =
        connection.query_row(account, (&row.name, row.position), |row| row.try_into())?;
    let pending = ready + not_queued;
    let SinkRow {
        delivered,
        position,
        filtered,
        ..
    } = *row;
    // The log does not wait for a sink that is removed.
    let is_removed = row.state == SinkState::Removed;
    let lost = if is_removed {
        (stored - position - later).max(0)
    } else {
        0
    };
    let skipped = row.skipped + lost;
    let sum = delivered + pending + retrying + dead + filtered + skipped;
    let account = format!(
        "{delivered} delivered + {pending} pending + {retrying} retrying + {dead} dead + {filtered} not wanted + {skipped} before start"
    );
    let mut faults = Vec::new();
    if (row.retrying, row.dead) != (retrying, dead) {
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
