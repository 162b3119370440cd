//! The sixth step: everything that a page changed, written in one transaction or not at all.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rusqlite::named_params;
use shopmirror_core::clock::stamp;
use shopmirror_core::contiguity::Contiguity;
use shopmirror_core::newest::{NewestGone, NewestPage};
use shopmirror_core::record::{Fields, Kind, Page, PollerId, Route};
use shopmirror_core::vanishing::Vanishing;

use super::classify::{Decisions, Write};
use super::compare::{Comparison, Finding};
use super::prove::{Role, Verdict, highest_id};
use super::vanish::Vanished;
use super::{Found, FoundBy, Ingest, Poll, Source};
use crate::store::error::StoreError;
use crate::store::gaps::{self, Gap};
use crate::store::log::{self, NewChange};
use crate::store::mirror::field_rules::FieldRules;
use crate::store::mirror::{Mirror, RowFacts, job_states, reread};
use crate::store::pollers::{self, PollerRow};
use crate::store::sightings;
use crate::store::sql::Sql;
use crate::store::withheld;
use crate::store::writer::ViewState;

/// What was committed.
pub(super) struct Committed {
    /// The gap that was recorded.
    pub(super) gap: Option<Gap>,
    /// The row of the log of each new version, by the record's place on the page.
    pub(super) versions: Vec<(usize, i64)>,
    /// What the poller knows now; `None` after a search.
    pub(super) row: Option<PollerRow>,
    /// Whether the page is what the next one is compared with.
    pub(super) is_newest: bool,
}

/// What was written to the log and the mirror.
#[derive(Default)]
struct Written {
    /// The row of the log of each new version, by the record's place on the page.
    versions: Vec<(usize, i64)>,
    has_new_columns: bool,
    /// The jobs whose current state may be another one now.
    jobs: Vec<String>,
}

/// Writes what was decided. A page without news writes nothing.
pub(super) fn commit(
    ingest: Ingest<'_>,
    found: &Found<'_>,
    views: &mut ViewState,
) -> Result<Committed, StoreError> {
    let Found {
        comparison,
        verdict,
        decisions,
        vanished,
    } = *found;
    rename_pollers(&ingest)?;
    // Before the records of the page, so that a reader of the log sees the gap first.
    let gap = record_gap(&ingest, verdict)?;
    close_gaps(&ingest, verdict, decisions)?;
    let mut written = write_records(&ingest, verdict, decisions)?;
    write_vanished(&ingest, vanished, &mut written)?;
    decisions.gaps.save(&ingest.tx)?;
    let row = match &ingest.reading.source {
        Source::Poll(poll) => {
            let mut row = PollerRow {
                waiting: decisions.waiting.clone(),
                vanishing: vanished.vanishing.clone(),
                proven_at: proven_at(&ingest, poll, verdict),
                newest_gone: newest_gone(&ingest, comparison, decisions),
                ids_reused_at: ids_reused_at(&ingest, decisions),
                ..next_row(&ingest, poll, comparison, verdict, &written)?
            };
            if decisions.has_reused_ids() {
                // Ids begin again below those that were lost, and what may be missed with them.
                row.high_id = highest_id(&ingest.reading.page);
            }
            save_row(&ingest, &row, decisions.is_unchanged, &mut written)?;
            Some(row)
        }
        Source::Search(search) => {
            note_term(&ingest, search)?;
            None
        }
    };
    job_states::refresh(&ingest.tx, &written.jobs)?;
    if let Some((_, last_seq)) = written.versions.last() {
        views.keep_up(&ingest.tx, written.has_new_columns, *last_seq)?;
    }
    ingest.tx.commit()?;
    Ok(Committed {
        gap,
        versions: written.versions,
        row,
        is_newest: verdict.role == Role::Newest,
    })
}

/// Lets the list be known by the name by which it is requested now.
fn rename_pollers(ingest: &Ingest<'_>) -> rusqlite::Result<()> {
    let poller = &ingest.reading.poller;
    if let Some(business) = &ingest.list.set_aside {
        let business = Some(business.clone());
        let route = poller.route;
        let own = PollerId { route, business };
        pollers::rename(&ingest.tx, poller, &own)?;
        pollers::set_aside(&ingest.tx, &own, &stamp(ingest.reading.at))?;
    }
    match &ingest.list.poller {
        Some(before) if before != poller => pollers::rename(&ingest.tx, before, poller),
        _ => Ok(()),
    }
}

/// When the last page was requested that was no gap and no suspect.
fn proven_at(ingest: &Ingest<'_>, poll: &Poll, verdict: &Verdict) -> Option<String> {
    if verdict.role == Role::Newest && verdict.proof.contiguity.is_proven() {
        return Some(ingest.reading.requested_at(poll.latency));
    }
    ingest
        .before
        .and_then(|before| before.row.proven_at.clone())
}

/// Writes which records are gone from the list, and which are there after all.
fn write_vanished(
    ingest: &Ingest<'_>,
    vanished: &Vanished,
    written: &mut Written,
) -> Result<(), StoreError> {
    let tx = &ingest.tx;
    let reading = ingest.reading;
    let route = reading.poller.route;
    let at = stamp(reading.at);
    if vanished.shown.has_withheld {
        for record in reading.page.records() {
            withheld::remove(tx, route, record.id.as_str())?;
        }
    }
    for (poller, row) in &vanished.shown.pollers {
        pollers::save(tx, poller, row)?;
    }
    for (id, latest) in &vanished.marked {
        let change = NewChange {
            route,
            record_id: id,
            kind: Kind::Vanished,
            version: latest.version + 1,
            observed_at: &at,
            business: latest.business.as_deref(),
            body: &latest.body,
        };
        let job = withheld::mark(tx, ingest.identities, &change, latest.seq)?;
        written.jobs.extend(job);
    }
    for candidate in &vanished.withheld {
        withheld::add(tx, &reading.poller, candidate)?;
    }
    Ok(())
}

fn record_gap(ingest: &Ingest<'_>, verdict: &Verdict) -> Result<Option<Gap>, StoreError> {
    if verdict.role != Role::Newest || verdict.proof.contiguity.is_proven() {
        return Ok(None);
    }
    let gap = gaps::record(
        &ingest.tx,
        ingest.identities.first(),
        &ingest.reading.poller,
        ingest.last_row(),
        &verdict.proof,
        &stamp(ingest.reading.at),
    )?;
    Ok(gap)
}

/// Gives the gaps of the list their upper id, if the page shows a new record.
fn close_gaps(
    ingest: &Ingest<'_>,
    verdict: &Verdict,
    decisions: &Decisions<'_>,
) -> rusqlite::Result<()> {
    if verdict.role != Role::Newest || decisions.created() == 0 {
        return Ok(());
    }
    let steps = &verdict.profile.steps;
    let reading = ingest.reading;
    gaps::close(
        &ingest.tx,
        &reading.poller,
        &reading.page,
        |after, before| steps.own_ids(after, before),
    )
}

/// Writes the log row and the mirror row of each record.
fn write_records(
    ingest: &Ingest<'_>,
    verdict: &Verdict,
    decisions: &Decisions<'_>,
) -> Result<Written, StoreError> {
    let mut written = Written::default();
    if decisions.writes.is_empty() {
        return Ok(written);
    }
    let tx = &ingest.tx;
    let page = &ingest.reading.page;
    let PollerId { route, business } = &ingest.reading.poller;
    let at = stamp(ingest.reading.at);
    let via = match ingest.reading.source {
        Source::Poll(_) => None,
        Source::Search(_) => Some("search"),
    };
    // An older page does not show until when a record is one of the newest, and neither does a
    // search.
    let last_seen_at = match verdict.role {
        Role::Newest => None,
        _ => Some(at.as_str()),
    };
    let mut fields = Vec::with_capacity(decisions.writes.len());
    for (place, write) in &decisions.writes {
        fields.push(match write {
            Write::Again(before) => Fields::parse(&before.body).unwrap_or_default(),
            _ => page.fields(&page.records()[*place]),
        });
    }
    let mut mirror = Mirror::load(tx, *route)?;
    // The newest record first, as its columns have always been found.
    written.has_new_columns = mirror.grow(tx, fields.iter().rev())?;
    let rules = learn_rules(ingest, *route, &decisions.writes, &fields)?;
    for ((place, write), fields) in decisions.writes.iter().zip(&fields) {
        let record = &page.records()[*place];
        let id = record.id.as_str();
        let (kind, before) = match write {
            Write::SeenByPoll => {
                mirror.seen_by_poll(tx, id, business.as_deref())?;
                continue;
            }
            Write::First(kind) => (*kind, None),
            Write::Next(before) | Write::Again(before) => (Kind::Updated, Some(*before)),
            Write::Another(before) => (Kind::Created, Some(*before)),
        };
        // A search says neither whose a stored record is nor how it was found first.
        let (business, via) = match (via, before) {
            (Some(_), Some(before)) => (before.business.as_deref(), before.via.as_deref()),
            _ => (business.as_deref(), via),
        };
        let change = NewChange {
            route: *route,
            record_id: id,
            kind,
            version: before.map_or(1, |before| before.version + 1),
            observed_at: &at,
            business,
            body: match write {
                Write::Again(before) => &before.body,
                _ => page.text(record),
            },
        };
        let identity = ingest.identities.for_next(before.map(|before| before.seq));
        let seq = log::append(tx, identity, &change)?;
        let facts = RowFacts {
            id: id.to_owned(),
            business: business.map(str::to_owned),
            first_seen_at: at.clone(),
            changed_at: at.clone(),
            last_seen_at: last_seen_at.map(str::to_owned),
            seq,
            via: via.map(str::to_owned),
            vanished_at: None,
        };
        // An update may name another job than before.
        if before.is_some() && *route != Route::Jobs {
            written.jobs.extend(mirror.job_of(tx, id)?);
        }
        mirror.put(tx, &facts, fields, &rules)?;
        if let Write::Another(_) = write {
            mirror.begin_again(tx, id, &at)?;
        }
        written.jobs.extend(mirror.job_of(tx, id)?);
        written.versions.push((*place, seq));
    }
    Ok(written)
}

/// Learns from the records of a page how their values are read, before the first of them is stored.
/// If stored values are read in another way now, their table is read again.
fn learn_rules(
    ingest: &Ingest<'_>,
    route: Route,
    writes: &[(usize, Write<'_>)],
    fields: &[Fields<'_>],
) -> Result<FieldRules, StoreError> {
    let tx = &ingest.tx;
    let mut rules = FieldRules::load(tx, route)?;
    for ((_, write), fields) in writes.iter().zip(fields) {
        match write {
            Write::SeenByPoll => {}
            Write::First(_) => rules.learn(None, fields),
            Write::Next(before) | Write::Again(before) | Write::Another(before) => {
                rules.learn(Some(&before.body), fields);
            }
        }
    }
    // The row of the log that the first of these records gets.
    if rules.judge(log::last_seq(tx)? + 1) {
        reread::begin(tx, route)?;
    }
    rules.save(tx)?;
    Ok(rules)
}

/// What the poller knows after the page.
fn next_row(
    ingest: &Ingest<'_>,
    poll: &Poll,
    comparison: &Comparison,
    verdict: &Verdict,
    written: &Written,
) -> rusqlite::Result<PollerRow> {
    match (verdict.role, ingest.before) {
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
        _ => newest_row(ingest, poll, comparison, verdict, written),
    }
}

/// What the poller knows after a page that the next one is compared with.
fn newest_row(
    ingest: &Ingest<'_>,
    poll: &Poll,
    comparison: &Comparison,
    verdict: &Verdict,
    written: &Written,
) -> rusqlite::Result<PollerRow> {
    let page = &ingest.reading.page;
    let at = stamp(ingest.reading.at);
    let before = ingest.before.map(|before| &before.row);
    let (head, head_seq) = match (before, written.versions.last()) {
        (Some(row), _) if comparison.is_last_page(row.head.len()) => {
            (Arc::clone(&row.head), row.head_seq)
        }
        (_, Some((_, seq))) => (head(page, comparison), *seq),
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
        last_success_at: ingest.reading.requested_at(poll.latency),
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
        waiting: BTreeMap::new(),
        vanishing: Vanishing::default(),
        proven_at: None,
        newest_gone: None,
        ids_reused_at: None,
    })
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
        before_at: before.last_success_at.parse().unwrap_or(ingest.reading.at),
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

/// Saves the poller's row, unless the stored one serves a restart as well.
fn save_row(
    ingest: &Ingest<'_>,
    row: &PollerRow,
    is_unchanged: bool,
    written: &mut Written,
) -> Result<(), StoreError> {
    let poller = &ingest.reading.poller;
    let Some(before) = ingest.before.map(|before| &before.row) else {
        return Ok(pollers::save(&ingest.tx, poller, row)?);
    };
    if is_unchanged && serves_as_well(before, row) {
        return Ok(());
    }
    pollers::save(&ingest.tx, poller, row)?;
    let moved = sightings::note(&ingest.tx, poller, before, &row.head)?;
    if poller.route == Route::Jobs {
        written.jobs.extend(moved);
    }
    Ok(())
}

/// Whether a process that starts with the stored row does the same as with the new one.
fn serves_as_well(stored: &PollerRow, new: &PollerRow) -> bool {
    stored.emptied_at == new.emptied_at
        && stored.profile == new.profile
        && stored.set_aside_at == new.set_aside_at
        && stored.older_pages == new.older_pages
        && stored.waiting == new.waiting
        && stored.vanishing == new.vanishing
        && stored.newest_gone == new.newest_gone
        && stored.served_business == new.served_business
        && (stored.head == new.head || sorted(&stored.head) == sorted(&new.head))
}

fn sorted(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().map(String::as_str).collect()
}

/// Notes the term of a backfill and how many records it returned.
fn note_term(ingest: &Ingest<'_>, search: &FoundBy) -> rusqlite::Result<()> {
    let Some(term) = &search.backfill_term else {
        return Ok(());
    };
    let reading = ingest.reading;
    let returned = i64::try_from(reading.page.records().len()).unwrap_or(i64::MAX);
    ingest.tx.run(
        "INSERT OR REPLACE INTO _backfill_terms (business, term, returned, asked_at)
         VALUES (:business, :term, :returned, :asked_at)",
        named_params! {
            ":business": reading.poller.business.as_deref().unwrap_or(""),
            ":term": term,
            ":returned": returned,
            ":asked_at": stamp(reading.at),
        },
    )?;
    Ok(())
}
