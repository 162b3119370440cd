//! What a poller knows, kept in memory: its row, and the ids and texts of its last page.

use rusqlite::Connection;

use super::ignored::IgnoredFields;
use super::pollers::{self, PollerRow};
use crate::contiguity::{PreviousPage, Relation, usual_hole};
use crate::record::{Page, PollerId, same_record_except};

/// What a poller knows, in memory.
#[derive(Debug)]
pub(super) struct KnownPoller {
    pub(super) row: PollerRow,
    previous: Previous,
    /// The last row of the log when the previous page was compared with the store.
    seq: i64,
    /// Whether `row` holds the ids of the previous page.
    head_is_current: bool,
    /// Whether the route was written since by another poller or a search.
    pub(super) is_stale: bool,
}

/// The poller's last page that held records.
#[derive(Debug)]
enum Previous {
    /// As the store holds it: ids in order, each with its place on the page.
    Ids(Vec<(String, usize)>),
    /// As it was read, and its records' places in the order of their ids.
    Page { page: Page, by_id: Vec<usize>, undecided: Vec<usize> },
}

/// The latest version of a record in the store.
pub(super) struct StoredVersion {
    pub(super) seq: i64,
    pub(super) version: i64,
    pub(super) body: String,
}

impl KnownPoller {
    pub(super) fn new(row: PollerRow) -> Self {
        let ids: Vec<String> = serde_json::from_str(&row.head).unwrap_or_default();
        let mut ids: Vec<(String, usize)> = ids.into_iter().zip(0..).collect();
        ids.sort_unstable();
        let seq = row.head_seq;
        Self { row, previous: Previous::Ids(ids), seq, head_is_current: true, is_stale: false }
    }

    /// Whether a body is the previous page again, byte for byte, with nothing written since.
    pub(super) fn shows_again(&self, body: &[u8]) -> bool {
        let Previous::Page { page, .. } = &self.previous else { return false };
        !self.is_stale && self.row.emptied_at.is_none() && page.body().as_bytes() == body
    }

    /// The previous page, if it was read since the start.
    pub(super) fn page(&self) -> Option<&Page> {
        match &self.previous {
            Previous::Ids(_) => None,
            Previous::Page { page, .. } => Some(page),
        }
    }

    /// Records on the previous page.
    pub(super) fn len(&self) -> usize {
        match &self.previous {
            Previous::Ids(ids) => ids.len(),
            Previous::Page { page, .. } => page.records().len(),
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.place_of(id).is_some()
    }

    /// The place of a record on the previous page, counted from 0 for the newest.
    fn place_of(&self, id: &str) -> Option<usize> {
        match &self.previous {
            Previous::Ids(ids) => {
                let found = ids.binary_search_by(|(known, _)| known.as_str().cmp(id)).ok()?;
                Some(ids[found].1)
            }
            Previous::Page { page, by_id, .. } => {
                let records = page.records();
                let found = by_id.binary_search_by(|&at| records[at].id.as_str().cmp(id)).ok()?;
                Some(by_id[found])
            }
        }
    }

    /// The place of a record on the previous page and the text that the page showed of it.
    pub(super) fn shown(&self, id: &str) -> Option<(usize, &str)> {
        let Previous::Page { page, .. } = &self.previous else { return None };
        let place = self.place_of(id)?;
        Some((place, page.text(&page.records()[place])))
    }

    /// How a record relates to the previous page, given its latest version in the store. A version
    /// that was stored since the previous page shows that the record changed, even if it changed
    /// back. An ignored field counts, unless it changes by itself.
    pub(super) fn relation(
        &self,
        id: &str,
        text: &str,
        stored: Option<&StoredVersion>,
        ignored: &IgnoredFields,
    ) -> Relation {
        let Some(place) = self.place_of(id) else { return Relation::NotShown };
        let untouched = stored.is_none_or(|version| version.seq <= self.seq);
        let same = self
            .shown(id)
            .map(|(_, text)| text)
            .or(stored.map(|version| version.body.as_str()))
            .is_some_and(|before| same_record_except(before, text, ignored.moving()));
        if untouched && same { Relation::Unchanged(place) } else { Relation::Changed(place) }
    }

    /// What the contiguity rule has to know of the previous page.
    pub(super) fn previous_page(&self) -> PreviousPage {
        PreviousPage {
            records: self.len(),
            high_id: self.row.high_id,
            usual_hole: self.integers().map_or(0, usual_hole),
        }
    }

    /// The ids of the previous page while all are integers.
    fn integers(&self) -> Option<Vec<i64>> {
        match &self.previous {
            Previous::Ids(ids) => ids.iter().map(|(id, _)| id.parse().ok()).collect(),
            Previous::Page { page, .. } => {
                page.records().iter().map(|record| record.id.as_integer()).collect()
            }
        }
    }

    /// The lowest id of the previous page while all are integers.
    pub(super) fn lowest_id(&self) -> Option<i64> {
        self.integers()?.into_iter().min()
    }

    /// Whether the ids in the store have little left of this page, so that a restart would take it
    /// for a gap. This happens when another poller stores the records first.
    pub(super) fn has_drifted(&self, page: &Page) -> bool {
        let ids: Vec<String> = serde_json::from_str(&self.row.head).unwrap_or_default();
        let held = page.records().iter().filter(|r| ids.iter().any(|id| id == r.id.as_str()));
        held.count() * 2 < page.records().len()
    }

    /// Writes what has changed only in memory.
    pub(super) fn save(
        &mut self,
        connection: &Connection,
        poller: &PollerId,
    ) -> rusqlite::Result<()> {
        if !self.head_is_current {
            self.row.head = self.head_json();
            self.row.head_seq = self.seq;
        }
        self.head_is_current = true;
        pollers::save(connection, poller, &self.row)
    }

    fn head_json(&self) -> String {
        match &self.previous {
            Previous::Ids(_) => self.row.head.clone(),
            Previous::Page { page, undecided, .. } => head_json(page, undecided),
        }
    }

    /// Takes a page as the previous one. `undecided` are the places of records that differ from a
    /// version stored since the page was requested; `seq` is the last row of the log now.
    pub(super) fn take_page(&mut self, page: Page, undecided: Vec<usize>, seq: i64) {
        let mut by_id: Vec<usize> = (0..page.records().len()).collect();
        by_id.sort_unstable_by_key(|&at| page.records()[at].id.as_str());
        self.is_stale = !undecided.is_empty();
        self.previous = Previous::Page { page, by_id, undecided };
        self.seq = seq;
        self.head_is_current = false;
    }

    /// Notes that `row` holds the ids of the previous page.
    pub(super) fn head_was_saved(&mut self) {
        self.head_is_current = true;
    }
}

/// The ids of a page as the store holds them, without those that prove nothing after a restart.
pub(super) fn head_json(page: &Page, undecided: &[usize]) -> String {
    let ids: Vec<&str> = (0..)
        .zip(page.records())
        .filter(|(place, _)| !undecided.contains(place))
        .map(|(_, record)| record.id.as_str())
        .collect();
    serde_json::to_string(&ids).expect("ids are text")
}
