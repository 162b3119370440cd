//! The third step: what a page proves about the time since its poller's previous page, and which of
//! the two the next page is compared with. Writes nothing.

use shopmirror_core::contiguity::{Bounds, Contiguity, ListProfile, PreviousPage, Proof};
use shopmirror_core::record::Page;

use super::compare::Comparison;
use super::{Ingest, Poll, Source};
use crate::store::pollers::PollerRow;

/// How many pages in a row may be older than the one before. After them the newest record has left
/// the list, and the server does not lag.
const MOST_OLDER_PAGES: u32 = 2;

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
    /// A part of a file that an operator imports.
    Import,
}

/// Decides what a page proves. A search and an import prove nothing.
pub(super) fn prove(ingest: &Ingest<'_>, comparison: &Comparison) -> Verdict {
    let poll = match &ingest.reading.source {
        Source::Poll(poll) => poll,
        Source::Search(_) => return no_page(Role::Search),
        Source::Import { .. } => return no_page(Role::Import),
    };
    let page = &ingest.reading.page;
    let mut profile = ListProfile::default();
    if let Some(before) = ingest.before {
        profile = before.row.profile.clone();
        let older_pages = before.row.older_pages;
        if older_pages < MOST_OLDER_PAGES && lags_behind(page, &before.row, comparison) {
            let count = older_pages + 1;
            return Verdict {
                proof: nothing(),
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
fn nothing() -> Proof {
    Proof {
        contiguity: Contiguity::Stale,
        bounds: Bounds::default(),
    }
}

fn no_page(role: Role) -> Verdict {
    Verdict {
        proof: nothing(),
        role,
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
    // A page that shows a record twice has fewer records than the server showed, and is never taken
    // for the whole list.
    let left_out = page.left_out().len();
    let limit = match page.duplicates() {
        0 => poll.limit as usize,
        _ => page.records().len() + left_out,
    };
    // `head` lacks undecided records and repeats, so a full page may count as one that is not: then
    // the rule trusts the new page less, never more.
    let previous = ingest.before.map(|before| {
        let records = before.row.head.len();
        let received = records + before.row.profile.lengths.left_out();
        PreviousPage {
            records,
            is_full: i64::try_from(received).unwrap_or(i64::MAX) >= before.row.page_limit,
            high_id: before.row.high_id,
            read_at: before.row.last_read_at(),
        }
    });
    let proof = profile.read_shortened_page(previous, &comparison.sightings, limit, left_out);
    // Another poller may have read the list before: nothing shows what lies between its last page
    // and this one, unless this one is the whole list.
    if ingest.list.maybe.is_some() && !profile.lengths.is_whole() {
        let contiguity = Contiguity::Suspect;
        return Proof {
            contiguity,
            ..proof
        };
    }
    proof
}

/// Whether a page may be older than the one before, as a server shows it whose data lags behind
/// another one's: it shows no record for the first time, and it lacks the first record of the page
/// before, or that page's highest id and any higher one.
fn lags_behind(page: &Page, before: &PollerRow, comparison: &Comparison) -> bool {
    if page.records().is_empty() || comparison.shows_new_record(before.head_seq) {
        return false;
    }
    let Some(first) = before.head.first() else {
        return false;
    };
    let lacks_first = page
        .records()
        .iter()
        .all(|record| record.id.as_str() != first);
    let highest_before = highest(before.head.iter().map(|id| id.parse().ok()));
    let lacks_highest = match (highest_id(page), highest_before) {
        (Some(shown), Some(before)) => shown < before,
        _ => false,
    };
    lacks_first || lacks_highest
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
