//! The fifth step: which records are gone from the list. Writes nothing.
//!
//! A record that is missing on two pages in a row has vanished once each other business of the route
//! has given a page since, no gap and no suspect, that does not show it. Whatever shows a record
//! ends what is thought of it: see [`Shown`].

use rusqlite::{Connection, named_params};
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Kind, Page, PollerId, field_text, parse_timestamp};
use shopmirror_core::vanishing::{Candidate, SeenPage, Vanishing};

use super::classify::Decisions;
use super::compare::{Comparison, Finding, StoredVersion, latest_version_sql};
use super::prove::{Role, Verdict};
use super::{Ingest, Source};
use crate::store::error::StoreError;
use crate::store::pollers::PollerRow;
use crate::store::sql::Sql;
use crate::store::withheld;

/// What a page shows of records that are gone from the list.
#[derive(Default)]
pub(super) struct Vanished {
    /// What the poller knows of them after the page.
    pub(super) vanishing: Vanishing,
    /// The records that have vanished, by their latest version.
    pub(super) marked: Vec<(String, StoredVersion)>,
    /// The records that are not marked, because they are too many in a day.
    pub(super) withheld: Vec<Candidate>,
    /// What the page ends elsewhere.
    pub(super) shown: Shown,
}

/// What ends because the page shows records that were missing.
#[derive(Default)]
pub(super) struct Shown {
    /// The pollers of other businesses of which a candidate ends, or what is thought of their newest
    /// records, with what they know after it.
    pub(super) pollers: Vec<(PollerId, PollerRow)>,
    /// Whether withheld records of the route may be among those shown.
    pub(super) has_withheld: bool,
}

/// Finds the records that are gone from the list.
pub(super) fn vanish(
    ingest: &Ingest<'_>,
    comparison: &Comparison,
    verdict: &Verdict,
    decisions: &Decisions<'_>,
) -> Result<Vanished, StoreError> {
    let mut vanished = Vanished {
        shown: shown(ingest, verdict.role)?,
        ..Vanished::default()
    };
    let (Source::Poll(_), Some(before)) = (&ingest.reading.source, ingest.before) else {
        return Ok(vanished);
    };
    vanished.vanishing = before.row.vanishing.clone();
    match verdict.role {
        Role::Newest => {}
        Role::Emptied => {
            vanished.vanishing.end_all();
            return Ok(vanished);
        }
        Role::Older { .. } | Role::Search | Role::Import => return Ok(vanished),
    }
    read_page(
        ingest,
        &before.row,
        comparison,
        verdict,
        decisions,
        &mut vanished.vanishing,
    )?;
    if vanished.vanishing.candidates().is_empty() {
        return Ok(vanished);
    }
    let route = ingest.reading.poller.route;
    if withheld::is_hiding(&ingest.tx, route)? {
        vanished.vanishing.end_all();
        return Ok(vanished);
    }
    let confirmed = vanished
        .vanishing
        .take_confirmed(|candidate| is_absent_elsewhere(ingest, candidate));
    let mut gone = Vec::with_capacity(confirmed.len());
    for candidate in confirmed {
        let latest = latest_version(ingest, &candidate.id)?;
        // What was stored since the page was requested was shown since.
        if let Some(latest) = latest
            && latest.seq <= ingest.reading.asked_after
            && !matches!(latest.kind, Kind::Vanished | Kind::Forgotten)
        {
            gone.push((candidate, latest));
        }
    }
    let may_mark = vanished.vanishing.may_mark(gone.len(), ingest.reading.at);
    for (candidate, latest) in gone {
        if may_mark {
            vanished.marked.push((candidate.id, latest));
        } else {
            vanished.withheld.push(candidate);
        }
    }
    Ok(vanished)
}

/// Learns from a page that replaces the one before.
fn read_page(
    ingest: &Ingest<'_>,
    before: &PollerRow,
    comparison: &Comparison,
    verdict: &Verdict,
    decisions: &Decisions<'_>,
    vanishing: &mut Vanishing,
) -> Result<(), StoreError> {
    if vanishing.candidates().is_empty() && comparison.is_last_page(before.head.len()) {
        return Ok(());
    }
    let page = &ingest.reading.page;
    let mut ids = Vec::with_capacity(page.records().len());
    let mut undecided = Vec::new();
    for (place, record) in page.records().iter().enumerate() {
        ids.push(record.id.as_str());
        if comparison.records[place].finding == Finding::Undecided {
            undecided.push(place);
        }
    }
    let may_be_older = ids.iter().any(|id| decisions.waiting.contains_key(*id));
    let seen = SeenPage {
        at: ingest.reading.at,
        order: verdict.profile.order.order(),
        contiguity: verdict.proof.contiguity,
        previous: &before.head,
        ids: &ids,
        sightings: &comparison.sightings,
        may_be_older,
    };
    vanishing.read_page(&seen, |id| {
        let latest = latest_version(ingest, id)?;
        Ok::<_, StoreError>(latest.and_then(|latest| {
            let text = field_text(&latest.body, "created_at")?;
            parse_timestamp(text)
        }))
    })?;
    vanishing.leave_out(&undecided);
    Ok(())
}

fn latest_version(ingest: &Ingest<'_>, id: &str) -> Result<Option<StoredVersion>, StoreError> {
    let connection: &Connection = &ingest.tx;
    let sql = latest_version_sql(ingest.reading.poller.route);
    Ok(connection.row(&sql, named_params! { ":id": id })?)
}

/// Whether each other business of the route has given a page since a record was missing first that
/// was no gap and no suspect. Had one shown the record, the candidate would have ended.
fn is_absent_elsewhere(ingest: &Ingest<'_>, candidate: &Candidate) -> bool {
    let route = ingest.reading.poller.route;
    let since = stamp(candidate.since);
    for (id, row) in ingest.memory.of_route(route) {
        if reads_own_list(ingest, id) || row.set_aside_at.is_some() {
            continue;
        }
        let of_route = ingest.memory.of_route(route).map(|(_, row)| row);
        let is_proven_since = row.proven_at.as_ref() > Some(&since);
        if !is_proven_since && !row.is_gone(of_route) {
            return false;
        }
    }
    true
}

/// Whether a poller reads the list of the page, or did until now.
fn reads_own_list(ingest: &Ingest<'_>, poller: &PollerId) -> bool {
    *poller == ingest.reading.poller || ingest.list.poller.as_ref() == Some(poller)
}

/// What a page ends elsewhere. One that is older than the one before says nothing of what is
/// withheld. It ends candidates all the same: in doubt, nothing is marked.
fn shown(ingest: &Ingest<'_>, role: Role) -> Result<Shown, StoreError> {
    let route = ingest.reading.poller.route;
    let page = &ingest.reading.page;
    let is_older = matches!(role, Role::Older { .. });
    let is_search = matches!(ingest.reading.source, Source::Search(_));
    let mut shown = Shown {
        has_withheld: !is_older && withheld::exist(&ingest.tx, route)?,
        ..Shown::default()
    };
    for (id, row) in ingest.memory.of_route(route) {
        let misses_nothing = row.vanishing.candidates().is_empty() && row.newest_gone.is_none();
        if misses_nothing || (reads_own_list(ingest, id) && !is_search) {
            continue;
        }
        let mut row = row.clone();
        let mut has_ended = row.vanishing.end(|candidate| is_shown(page, &candidate.id));
        if let Some(gone) = &row.newest_gone
            && gone.ids.iter().any(|id| is_shown(page, id))
        {
            row.newest_gone = None;
            has_ended = true;
        }
        if has_ended {
            shown.pollers.push((id.clone(), row));
        }
    }
    Ok(shown)
}

fn is_shown(page: &Page, id: &str) -> bool {
    page.records().iter().any(|record| record.id.as_str() == id)
}
