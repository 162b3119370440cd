//! What a page is beside what is stored: the records to write, and how each record relates to the
//! poller's previous page. Reads only.

use jiff::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::super::error::StoreError;
use super::super::pollers::PollerRow;
use super::super::workspace;
use crate::contiguity::{Relation, Sighting};
use crate::record::{Fields, Kind, Page, Record, Route, same_record, time};

/// What a page is beside what is stored.
#[derive(Default)]
pub(super) struct PageDiff {
    /// What has to be written, by the record's place on the page.
    pub(super) records: Vec<(usize, RecordDiff)>,
    /// Every record of the page, for the contiguity rule.
    pub(super) sightings: Vec<Sighting>,
    /// Places of records that differ from a version stored since the page was requested. The next
    /// page decides which of the two is current.
    pub(super) undecided: Vec<usize>,
    /// Known records of the page whose creation time is shown and stored, and those of them that are
    /// other records than the stored ones.
    compared: usize,
    strangers: usize,
}

/// So many records of a page must be strangers before it counts as another shop's.
const MIN_STRANGERS: usize = 10;
/// A creation time that moved by less may be the same one, told in another form or zone.
const SAME_CREATION_S: i64 = 2 * 86_400;

/// What has to be written for one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordDiff {
    /// It was never stored.
    New,
    /// Its meaning changed since the stored version.
    Changed(StoredVersion),
    /// A search stored it, and a poll sees it now for the first time.
    SeenByPoll,
    /// Its mirror row was deleted by hand; the version it is restored from.
    Restored(StoredVersion),
}

/// The latest version of a record in the log, and what the mirror says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredVersion {
    pub(super) seq: i64,
    pub(super) version: i64,
    pub(super) body: String,
    pub(super) kind: Kind,
    pub(super) in_mirror: bool,
    pub(super) via: Option<String>,
    pub(super) business: Option<String>,
}

impl PageDiff {
    /// Whether the records are those of another shop, which has other records under the same ids.
    pub(super) fn is_of_another_shop(&self) -> bool {
        self.strangers >= MIN_STRANGERS && self.strangers * 10 >= self.compared * 9
    }

    pub(super) fn created(&self) -> usize {
        self.records.iter().filter(|(_, diff)| *diff == RecordDiff::New).count()
    }

    pub(super) fn updated(&self) -> usize {
        self.records.iter().filter(|(_, diff)| matches!(diff, RecordDiff::Changed(_))).count()
    }
}

/// The statement that [`find`] runs. It starts from the log, so that a mirror row deleted by hand does
/// not make a record new.
pub(in crate::store) fn latest_version_sql(route: Route) -> String {
    format!(
        "SELECT c.seq, c.version, c.body, c.kind, m.id IS NOT NULL, m._via, m._business FROM changes c \
         LEFT JOIN \"{route}\" m ON m.id = c.record_id \
         WHERE c.route = '{route}' AND c.record_id = ?1 ORDER BY c.version DESC LIMIT 1"
    )
}

fn find(statement: &mut CachedStatement<'_>, id: &str) -> rusqlite::Result<Option<StoredVersion>> {
    statement
        .query_row([id], |row| {
            let kind: String = row.get(3)?;
            Ok(StoredVersion {
                seq: row.get(0)?,
                version: row.get(1)?,
                body: row.get(2)?,
                kind: kind.parse().unwrap_or(Kind::Updated),
                in_mirror: row.get(4)?,
                via: row.get(5)?,
                business: row.get(6)?,
            })
        })
        .optional()
}

/// Compares a page with the store. `known` is the poller's row, unless it is new or the page is of a
/// search; `asked_after` is the last row of the log when the page was requested; a change of `ignored`
/// fields alone is no change.
pub(super) fn compare(
    connection: &Connection,
    route: Route,
    known: Option<&PollerRow>,
    page: &Page,
    asked_after: i64,
    ignored: &[String],
) -> Result<PageDiff, StoreError> {
    let mut statement = connection.prepare_cached(&latest_version_sql(route))?;
    let mut diff = PageDiff::default();
    // What was stored before the operator accepted the workspace says nothing of whose ids these are.
    let accepted = workspace::accepted_seq(connection)?;
    for (place, record) in page.records().iter().enumerate() {
        let id = record.id.as_str();
        let stored = find(&mut statement, id)?;
        let is_same = stored.as_ref().is_some_and(|stored| {
            stored.body == page.text(record)
                || Fields::of(&stored.body)
                    .is_some_and(|fields| same_record(&fields, &page.fields(record), ignored))
        });
        let previous = known.and_then(|row| row.head.iter().position(|known| known == id));
        let relation = match (previous, known) {
            // A version that was stored since the previous page shows that the record changed, even
            // if it changed back.
            (Some(place), Some(row))
                if is_same && stored.as_ref().is_some_and(|stored| stored.seq <= row.head_seq) =>
            {
                Relation::Unchanged(place)
            }
            (Some(place), _) => Relation::Changed(place),
            (None, _) => Relation::NotShown,
        };
        diff.sightings.push(Sighting { id: record.id.as_integer(), relation });
        let Some(stored) = stored else {
            diff.records.push((place, RecordDiff::New));
            continue;
        };
        if stored.seq > accepted
            && let Some(is_stranger) = is_stranger(&stored, is_same, page, record)
        {
            diff.compared += 1;
            diff.strangers += usize::from(is_stranger);
        }
        match is_same {
            _ if stored.kind == Kind::Forgotten => {}
            true if !stored.in_mirror => {
                diff.records.push((place, RecordDiff::Restored(stored)));
            }
            true if stored.via.is_some() => diff.records.push((place, RecordDiff::SeenByPoll)),
            true => {}
            false if stored.seq > asked_after => diff.undecided.push(place),
            false => diff.records.push((place, RecordDiff::Changed(stored))),
        }
    }
    Ok(diff)
}

/// Whether a stored record and one of the page are two records under one id: created at another time,
/// and most of what both tell differs. Empty values tell nothing, nor does the status: they are the
/// same in many records, and a shop may rename a status in all of them. `None` if a creation time is
/// not known.
fn is_stranger(
    stored: &StoredVersion,
    is_same: bool,
    page: &Page,
    record: &Record,
) -> Option<bool> {
    let made = record.created_at?;
    if is_same {
        return Some(false);
    }
    let before = Fields::of(&stored.body)?;
    let made_before: Timestamp = time(before.get("created_at")?)?;
    if (made_before.as_second() - made.as_second()).abs() < SAME_CREATION_S {
        return Some(false);
    }
    let is_empty = |text: &str| matches!(text, "null" | "\"\"" | "[]" | "{}" | "false" | "0");
    let (mut all, mut other) = (0, 0);
    for (name, value) in page.fields(record).iter() {
        let is_told = !matches!(name, "id" | "created_at" | "status" | "status_stage");
        if let Some(before) = before.get(name)
            && is_told
            && !is_empty(before)
            && !is_empty(value)
        {
            all += 1;
            other += usize::from(before != value);
        }
    }
    Some(other * 2 > all)
}
