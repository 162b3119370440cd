//! What a page is beside what is stored: the records to write, and how each record relates to the
//! poller's previous page. Reads only.

use rusqlite::Connection;
use serde::Deserialize;
use shopmirror_core::contiguity::{Relation, Sighting};
use shopmirror_core::record::{Fields, Kind, Page, Route, same_record};

use super::super::error::StoreError;
use super::super::pollers::PollerRow;
use super::super::sql::Sql;

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
}

/// What has to be written for one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordDiff {
    /// It was never stored.
    New,
    /// Its meaning changed since the stored version.
    Changed(StoredVersion),
    /// A search stored it, and a poll sees it now for the first time.
    SeenByPoll,
}

/// The latest version of a record in the log, and what the mirror says of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StoredVersion {
    pub(super) seq: i64,
    pub(super) version: i64,
    pub(super) body: String,
    pub(super) kind: Kind,
    pub(super) via: Option<String>,
    pub(super) business: Option<String>,
}

impl PageDiff {
    pub(super) fn created(&self) -> usize {
        self.records
            .iter()
            .filter(|(_, diff)| *diff == RecordDiff::New)
            .count()
    }

    pub(super) fn updated(&self) -> usize {
        self.records
            .iter()
            .filter(|(_, diff)| matches!(diff, RecordDiff::Changed(_)))
            .count()
    }

    /// Whether the page is the poller's last one again. Its records may have been read before a
    /// version that was stored meanwhile, so that it proves no more than the last page did.
    pub(super) fn is_last_page(&self, known: &PollerRow) -> bool {
        let relations = self.sightings.iter().map(|sighting| sighting.relation);
        relations.eq((0..known.head.len()).map(Relation::Unchanged))
    }
}

/// The latest version of a record. It starts from the log, so that a mirror row deleted by hand
/// does not make a record new.
pub(in crate::store) fn latest_version_sql(route: Route) -> String {
    format!(
        "SELECT c.seq, c.version, c.body, c.kind, m._via AS via, m._business AS business FROM changes c \
         LEFT JOIN \"{route}\" m ON m.id = c.record_id \
         WHERE c.route = '{route}' AND c.record_id = ?1 ORDER BY c.version DESC LIMIT 1"
    )
}

/// Compares a page with the store. `known` is the poller's row, unless it is new or the page is of
/// a search; `asked_after` is the last row of the log when the page was requested; a change of
/// `ignored` fields alone is no change.
pub(super) fn compare(
    connection: &Connection,
    route: Route,
    known: Option<&PollerRow>,
    page: &Page,
    asked_after: i64,
    ignored: &[String],
) -> Result<PageDiff, StoreError> {
    let latest_version = latest_version_sql(route);
    let mut diff = PageDiff::default();
    for (place, record) in page.records().iter().enumerate() {
        let id = record.id.as_str();
        let stored: Option<StoredVersion> = connection.row(&latest_version, [id])?;
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
                if is_same
                    && stored
                        .as_ref()
                        .is_some_and(|stored| stored.seq <= row.head_seq) =>
            {
                Relation::Unchanged(place)
            }
            (Some(place), _) => Relation::Changed(place),
            (None, _) => Relation::NotShown,
        };
        diff.sightings.push(Sighting {
            id: record.id.as_integer(),
            relation,
        });
        let Some(stored) = stored else {
            diff.records.push((place, RecordDiff::New));
            continue;
        };
        match is_same {
            _ if stored.kind == Kind::Forgotten => {}
            true if stored.via.is_some() => diff.records.push((place, RecordDiff::SeenByPoll)),
            true => {}
            false if stored.seq > asked_after => diff.undecided.push(place),
            false => diff.records.push((place, RecordDiff::Changed(stored))),
        }
    }
    Ok(diff)
}
