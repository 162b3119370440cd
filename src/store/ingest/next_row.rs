//! What a poller knows after a page: the row that is saved, and with which the next page is
//! compared. Writes nothing.
//!
//! A page that is older than the one before, or empty after one with records, leaves most of the
//! row as it was.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use shopmirror_core::clock::stamp;
use shopmirror_core::contiguity::Contiguity;
use shopmirror_core::newest::{NewestGone, NewestPage};
use shopmirror_core::record::Page;
use shopmirror_core::vanishing::Vanishing;

use super::classify::Decisions;
use super::compare::{Comparison, Finding};
use super::prove::{Role, Verdict, highest_id};
use super::{Found, Ingest, Poll};
use crate::store::log;
use crate::store::pollers::PollerRow;

/// What the poller knows after the page. `last_version` is the row of the log of the last new
/// version of a record of the page, if there is one.
pub(super) fn next_row(
    ingest: &Ingest<'_>,
    found: &Found<'_>,
    poll: &Poll,
    last_version: Option<i64>,
) -> rusqlite::Result<PollerRow> {
    let decisions = found.decisions;
    let mut row = PollerRow {
        waiting: decisions.waiting.clone(),
        vanishing: found.vanished.vanishing.clone(),
        proven_at: proven_at(ingest, poll, found.verdict),
        newest_gone: newest_gone(ingest, found.comparison, decisions),
        ids_reused_at: ids_reused_at(ingest, decisions),
        ..row_by_role(ingest, poll, found, last_version)?
    };
    if decisions.has_reused_ids() {
        // Ids begin again below those that were lost, and what may be missed with them.
        row.high_id = highest_id(&ingest.reading.page);
    }
    Ok(row)
}

/// What the role of the page decides of the row.
fn row_by_role(
    ingest: &Ingest<'_>,
    poll: &Poll,
    found: &Found<'_>,
    last_version: Option<i64>,
) -> rusqlite::Result<PollerRow> {
    match (found.verdict.role, ingest.before) {
        (Role::Older { count }, Some(before)) => Ok(PollerRow {
            business: ingest.reading.poller.business.clone(),
            set_aside_at: None,
            older_pages: count,
            ..before.row.clone()
        }),
        (Role::Emptied, Some(before)) => Ok(PollerRow {
            emptied_at: match &before.row.emptied_at {
                Some(since) => Some(since.clone()),
                None => Some(stamp(ingest.reading.at)),
            },
            business: ingest.reading.poller.business.clone(),
            set_aside_at: None,
            older_pages: 0,
            ..before.row.clone()
        }),
        _ => newest_row(ingest, poll, found, last_version),
    }
}

/// What the poller knows after a page that the next one is compared with.
fn newest_row(
    ingest: &Ingest<'_>,
    poll: &Poll,
    found: &Found<'_>,
    last_version: Option<i64>,
) -> rusqlite::Result<PollerRow> {
    let Found {
        comparison,
        verdict,
        ..
    } = *found;
    let page = &ingest.reading.page;
    let at = stamp(ingest.reading.at);
    let before = ingest.before.map(|before| &before.row);
    let (head, head_seq) = match (before, last_version) {
        (Some(row), _) if comparison.is_last_page(row.head.len()) => {
            (Arc::clone(&row.head), row.head_seq)
        }
        (_, Some(seq)) => (head(page, comparison), seq),
        (_, None) => (head(page, comparison), log::last_seq(&ingest.tx)?),
    };
    Ok(PollerRow {
        route: ingest.reading.poller.route.as_str().to_owned(),
        business: ingest.reading.poller.business.clone(),
        first_polled_at: match before {
            Some(row) => row.first_polled_at.clone(),
            None => at,
        },
        complete_since: complete_since(ingest, verdict),
        last_success_at: ingest.reading.current_at(poll.page_age),
        emptied_at: None,
        high_id: next_high_id(before, page),
        page_limit: i64::from(poll.limit),
        learned: match (&poll.learned, before) {
            (None, Some(row)) => row.learned.clone(),
            (learned, _) => learned.clone(),
        },
        served_business: match (&poll.served_business, before) {
            (None, Some(row)) => row.served_business.clone(),
            (served, _) => served.clone(),
        },
        head,
        head_seq,
        profile: verdict.profile.clone(),
        set_aside_at: None,
        older_pages: 0,
        // The same for each role: see `next_row`.
        waiting: BTreeMap::new(),
        vanishing: Vanishing::default(),
        proven_at: None,
        newest_gone: None,
        ids_reused_at: None,
    })
}

/// When the last page was requested that was no gap and no suspect.
fn proven_at(ingest: &Ingest<'_>, poll: &Poll, verdict: &Verdict) -> Option<String> {
    if verdict.role == Role::Newest && verdict.proof.contiguity.is_proven() {
        return Some(ingest.reading.current_at(poll.page_age));
    }
    ingest
        .before
        .and_then(|before| before.row.proven_at.clone())
}

/// Which of the newest records are gone after the page.
fn newest_gone(
    ingest: &Ingest<'_>,
    comparison: &Comparison,
    decisions: &Decisions<'_>,
) -> Option<NewestGone> {
    let before = &ingest.before?.row;
    let shown = ids_of(&ingest.reading.page);
    let page = NewestPage {
        before: &before.head,
        before_at: before.last_read_at().unwrap_or(ingest.reading.at),
        shown: &shown,
        shows_newer: comparison.shows_newer() || decisions.has_reused_ids(),
        at: ingest.reading.at,
    };
    NewestGone::after_page(before.newest_gone.as_ref(), page)
}

/// When an id came last with another record.
fn ids_reused_at(ingest: &Ingest<'_>, decisions: &Decisions<'_>) -> Option<String> {
    if decisions.has_reused_ids() {
        return Some(stamp(ingest.reading.at));
    }
    ingest.before?.row.ids_reused_at.clone()
}

/// Since when every created record was seen, but for gaps.
fn complete_since(ingest: &Ingest<'_>, verdict: &Verdict) -> Option<String> {
    let Some(before) = ingest.before else {
        if verdict.profile.lengths.is_whole() {
            return None;
        }
        return Some(stamp(ingest.reading.at));
    };
    let row = &before.row;
    if verdict.proof.contiguity == Contiguity::Complete && shows_all_of(&ingest.reading.page, row) {
        // The page before was the end of the list, and so was every one since the first.
        return None;
    }
    let lengths = &verdict.profile.lengths;
    if lengths.server_limit().is_some() && row.profile.lengths.server_limit().is_none() {
        // The first page was taken for the whole list, and the server had ended it.
        let since = row.complete_since.as_ref();
        return Some(since.unwrap_or(&row.first_polled_at).clone());
    }
    row.complete_since.clone()
}

/// Whether a page shows every record of the page before.
fn shows_all_of(page: &Page, before: &PollerRow) -> bool {
    let shown = ids_of(page);
    before.head.iter().all(|id| shown.contains(id.as_str()))
}

/// The ids of a page, in no order.
fn ids_of(page: &Page) -> HashSet<&str> {
    let mut ids = HashSet::with_capacity(page.records().len());
    for record in page.records() {
        ids.insert(record.id.as_str());
    }
    ids
}

/// The ids of a page, without the records that are undecided: they prove nothing for the next page.
fn head(page: &Page, comparison: &Comparison) -> Arc<[String]> {
    let mut head = Vec::with_capacity(page.records().len());
    for (record, compared) in page.records().iter().zip(&comparison.records) {
        if compared.finding != Finding::Undecided {
            head.push(record.id.as_str().to_owned());
        }
    }
    head.into()
}

/// The highest id that the poller was ever shown, while ids are integers.
fn next_high_id(before: Option<&PollerRow>, page: &Page) -> Option<i64> {
    let before = before.and_then(|row| row.high_id);
    if page.records().is_empty() {
        return before;
    }
    before.max(Some(highest_id(page)?))
}
