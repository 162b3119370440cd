//! What a page is beside what is stored: the records to write, and how each record relates to the
//! poller's previous page. Reads only.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::error::StoreError;
use super::ignored::{IgnoredChanges, IgnoredFields};
use super::known::{KnownPoller, StoredVersion};
use super::mirror::Fields;
use crate::contiguity::{Relation, Sighting};
use crate::record::{Kind, Page, Route, changed_field_names, created_at, same_record_except};

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
    /// How often ignored fields differ from the poller's previous page.
    pub(super) ignored: IgnoredChanges,
    /// Known records of the page whose creation time is shown and stored, and those of them that are
    /// other records than the stored ones.
    compared: usize,
    strangers: usize,
    /// The id of each changed record, and its fields that differ and are not ignored.
    pub(super) changed_fields: Vec<(String, Vec<String>)>,
}

/// So many records of a page must be strangers before it counts as another shop's.
const STRANGERS_LEAST: usize = 10;
/// A creation time that moved by less may be the same one, told in another form or zone.
const SAME_CREATION_S: i64 = 2 * 86_400;

/// What has to be written for one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordDiff {
    /// It was never stored.
    New,
    /// Its meaning changed; the version to write, the row of the version before it, and whether its
    /// mirror row was deleted by hand.
    Changed { version: i64, before: i64, is_missing: bool },
    /// A search stored it, and a poll sees it now for the first time.
    SeenByPoll,
    /// Its mirror row was deleted by hand; the log row it is restored from.
    Restored { seq: i64 },
}

impl PageDiff {
    /// Whether the records are those of another shop, which has other records under the same ids.
    pub(super) fn is_of_another_shop(&self) -> bool {
        self.strangers >= STRANGERS_LEAST && self.strangers * 10 >= self.compared * 9
    }

    pub(super) fn created(&self) -> usize {
        self.records.iter().filter(|(_, diff)| *diff == RecordDiff::New).count()
    }

    pub(super) fn updated(&self) -> usize {
        self.records.iter().filter(|(_, diff)| matches!(diff, RecordDiff::Changed { .. })).count()
    }
}

/// The latest version of a record, and what the mirror says of it.
pub(super) struct LatestState {
    pub(super) stored: StoredVersion,
    pub(super) kind: Kind,
    pub(super) in_mirror: bool,
    pub(super) via: Option<String>,
    pub(super) business: Option<String>,
}

/// The statement that [`find`] runs. It starts from the log, so that a mirror row deleted by hand does not make a record new.
pub(super) fn latest_version_sql(route: Route) -> String {
    format!(
        "SELECT c.seq, c.version, c.body, c.kind, m.id IS NOT NULL, m._via, m._business FROM changes c \
         LEFT JOIN \"{route}\" m ON m.id = c.record_id \
         WHERE c.route = '{route}' AND c.record_id = ?1 ORDER BY c.version DESC LIMIT 1"
    )
}

/// Reads the latest version of a record.
pub(super) fn find(
    statement: &mut CachedStatement<'_>,
    id: &str,
) -> rusqlite::Result<Option<LatestState>> {
    statement
        .query_row([id], |row| {
            let kind: String = row.get(3)?;
            Ok(LatestState {
                stored: StoredVersion { seq: row.get(0)?, version: row.get(1)?, body: row.get(2)? },
                kind: kind.parse().unwrap_or(Kind::Updated),
                in_mirror: row.get(4)?,
                via: row.get(5)?,
                business: row.get(6)?,
            })
        })
        .optional()
}

/// Compares a page with the store. `known` is what the poller knows; `asked_after` is the last row
/// of the log when the page was requested; a change of `ignored` fields alone is no change.
pub(super) fn compare(
    connection: &Connection,
    route: Route,
    known: Option<&KnownPoller>,
    page: &Page,
    asked_after: i64,
    ignored: &IgnoredFields,
) -> Result<PageDiff, StoreError> {
    let mut statement = connection.prepare_cached(&latest_version_sql(route))?;
    let mut diff = PageDiff::default();
    for (place, record) in page.records().iter().enumerate() {
        let (id, text) = (record.id.as_str(), page.text(record));
        let shown_before = known.and_then(|known| known.shown(id));
        if let Some((_, before)) = shown_before {
            diff.ignored.count(ignored, before, text);
        }
        let same_text = shown_before
            .filter(|(_, before)| *before == text && known.is_some_and(|known| !known.is_stale));
        let relation = if let Some((before, _)) = same_text {
            diff.compared += usize::from(record.created_at.is_some());
            Relation::Unchanged(before)
        } else {
            let found = find(&mut statement, id)?;
            let same = found
                .as_ref()
                .is_some_and(|found| same_record_except(&found.stored.body, text, ignored.names()));
            let is_stranger = found.as_ref().and_then(|found| {
                let made = record.created_at?;
                // The same record was created at the same time.
                Some(
                    !same
                        && are_strangers(
                            &found.stored.body,
                            text,
                            (created_at(&found.stored.body)?, made),
                        ),
                )
            });
            diff.compared += usize::from(is_stranger.is_some());
            diff.strangers += usize::from(is_stranger == Some(true));
            match record_diff(found.as_ref(), same, asked_after) {
                Decision::Write(record_diff) => {
                    if let (RecordDiff::Changed { .. }, Some(found)) = (record_diff, &found) {
                        let names = changed_field_names(&found.stored.body, text, ignored.names());
                        diff.changed_fields.push((id.to_owned(), names));
                    }
                    diff.records.push((place, record_diff));
                }
                Decision::Leave => {}
                Decision::Wait => diff.undecided.push(place),
            }
            let stored = found.as_ref().map(|found| &found.stored);
            known.map_or(Relation::NotShown, |known| known.relation(id, text, stored, ignored))
        };
        diff.sightings.push(Sighting { id: record.id.as_integer(), relation });
    }
    Ok(diff)
}

/// Whether two states under one id are those of two records: created at another time, and most of what both
/// states tell differs. Empty values tell nothing, nor does the status: they are the same in many records,
/// and a shop may rename a status in all of them.
fn are_strangers(before: &str, now: &str, made: (Timestamp, Timestamp)) -> bool {
    if (made.0.as_second() - made.1.as_second()).abs() < SAME_CREATION_S {
        return false;
    }
    let before: HashMap<_, _> = Fields::of(before).0.into_iter().collect();
    let now = Fields::of(now).0;
    let told = now.iter().filter(|(name, _)| {
        !matches!(name.as_ref(), "id" | "created_at" | "status" | "status_stage")
    });
    let is_empty = |text: &str| matches!(text, "null" | "\"\"" | "[]" | "{}" | "false" | "0");
    let (mut all, mut other) = (0, 0);
    for (name, value) in told {
        let Some(before) = before.get(name) else { continue };
        if !is_empty(before.get()) && !is_empty(value.get()) {
            all += 1;
            other += usize::from(before.get() != value.get());
        }
    }
    other * 2 > all
}

enum Decision {
    Write(RecordDiff),
    Leave,
    Wait,
}

fn record_diff(found: Option<&LatestState>, same: bool, asked_after: i64) -> Decision {
    let Some(found) = found else { return Decision::Write(RecordDiff::New) };
    let StoredVersion { seq, version, .. } = found.stored;
    if found.kind == Kind::Forgotten {
        return Decision::Leave;
    }
    match same {
        true if !found.in_mirror => Decision::Write(RecordDiff::Restored { seq }),
        true if found.via.is_some() => Decision::Write(RecordDiff::SeenByPoll),
        true => Decision::Leave,
        false if seq > asked_after => Decision::Wait,
        false => Decision::Write(RecordDiff::Changed {
            version: version + 1,
            before: seq,
            is_missing: !found.in_mirror,
        }),
    }
}
