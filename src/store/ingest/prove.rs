//! The third step: what a page proves about the time since its poller's previous page, and which of
//! the two the next page is compared with. Writes nothing.

use rusqlite::Connection;
use shopmirror_core::contiguity::{Bounds, Contiguity, ListProfile, PreviousPage, Proof};
use shopmirror_core::record::{Page, PollerId};

use super::compare::{Comparison, Finding};
use super::{Ingest, Poll, Source};
use crate::store::pollers::{self, PollerRow};

/// So many pages in a row that are older than the one before are not taken for it. Then the newest
/// record has left the list, and the server is not behind.
const MAX_STALE_PAGES: u32 = 2;

/// What a page proves, and what it is to its poller.
pub(super) struct Verdict {
    pub(super) proof: Proof,
    pub(super) role: Role,
    /// What the poller has learned of its list, with what this page showed of it.
    pub(super) profile: ListProfile,
}

/// What was shown is to its poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The page that the next one is compared with.
    Newest,
    /// A page that is older than the one before, which stays what the next one is compared with.
    Older {
        /// How many came in a row.
        count: u32,
    },
    /// An empty page after one with records, which stays what the next one is compared with.
    Emptied,
    /// The response to a search.
    Search,
}

/// Decides what a page proves. A search proves nothing.
pub(super) fn prove(ingest: &Ingest<'_>, comparison: &Comparison) -> Verdict {
    let poll = match &ingest.reading.source {
        Source::Poll(poll) => poll,
        Source::Search(_) => return search(),
    };
    let page = &ingest.reading.page;
    let mut profile = ListProfile::default();
    if let Some(before) = ingest.before {
        profile = before.row.profile.clone();
        let older_pages = before.row.stale_pages;
        if older_pages < MAX_STALE_PAGES && is_older(page, &before.row, comparison) {
            let count = older_pages + 1;
            return Verdict {
                proof: NOTHING,
                role: Role::Older { count },
                profile,
            };
        }
    }
    let proof = read_page(ingest, poll, comparison, &mut profile);
    let is_emptied = ingest.before.is_some()
        && page.records().is_empty()
        && proof.contiguity == Contiguity::Suspect;
    let role = if is_emptied {
        Role::Emptied
    } else {
        Role::Newest
    };
    Verdict {
        proof,
        role,
        profile,
    }
}

/// What a page proves that replaces nothing.
const NOTHING: Proof = Proof {
    contiguity: Contiguity::Stale,
    bounds: Bounds {
        after: None,
        before: None,
        missed: None,
    },
};

fn search() -> Verdict {
    Verdict {
        proof: NOTHING,
        role: Role::Search,
        profile: ListProfile::default(),
    }
}

fn read_page(
    ingest: &Ingest<'_>,
    poll: &Poll,
    comparison: &Comparison,
    profile: &mut ListProfile,
) -> Proof {
    let page = &ingest.reading.page;
    // A full page that shows a record twice is full, although it has fewer records than its limit.
    let limit = (poll.limit as usize).saturating_sub(page.duplicates());
    let previous = ingest.before.map(|before| PreviousPage {
        records: before.row.head.len(),
        high_id: before.row.high_id,
    });
    let sightings = comparison.sightings(page);
    let proof = profile.read_page(previous, &sightings, limit);
    // Another poller read the list before: nothing shows what lies between its last page and this.
    // A page that is not full is the whole list.
    if ingest.read_before.is_some() && sightings.len() >= limit {
        let contiguity = Contiguity::Suspect;
        return Proof {
            contiguity,
            ..proof
        };
    }
    proof
}

/// Whether a page is older than the one before, as a server shows it whose data lags behind another
/// one's: its newest record is older. Nothing shows it unless ids are integers.
fn is_older(page: &Page, before: &PollerRow, comparison: &Comparison) -> bool {
    let newest = highest_id(page);
    let newest_before = highest(before.head.iter().map(|id| id.parse().ok()));
    let (Some(newest), Some(newest_before)) = (newest, newest_before) else {
        return false;
    };
    let written = comparison.records.iter().filter(|compared| {
        matches!(
            compared.finding,
            Finding::New | Finding::Changed(_) | Finding::SameAsFound(_)
        )
    });
    // A page of edits may lack the newest record.
    newest < newest_before && written.count() * 2 < page.records().len()
}

/// The highest id of a page, while ids are integers.
pub(super) fn highest_id(page: &Page) -> Option<i64> {
    highest(page.records().iter().map(|record| record.id.as_integer()))
}

/// The highest of ids. Once one of them is no integer, the highest integer would no longer be the
/// last id.
fn highest(ids: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    let mut highest = None;
    for id in ids {
        highest = highest.max(Some(id?));
    }
    highest
}

/// The poller that read a new poller's list last, as far as is known; `None` for the first one, and
/// for a business that is added to others.
pub(super) fn last_read(
    connection: &Connection,
    poller: &PollerId,
) -> rusqlite::Result<Option<PollerRow>> {
    let mut last: Option<PollerRow> = None;
    for row in pollers::list(connection)? {
        if row.route != poller.route.as_str() {
            continue;
        }
        let is_later = match &last {
            Some(last) => row.last_success_at >= last.last_success_at,
            None => true,
        };
        if is_later {
            last = Some(row);
        }
    }
    Ok(last.filter(|row| match (&poller.business, &row.business) {
        (Some(name), None) => match &row.served_business {
            Some(served) => served == name,
            None => true,
        },
        (named, _) => named.is_none(),
    }))
}
