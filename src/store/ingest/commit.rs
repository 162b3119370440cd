//! The sixth step: everything that a page changed, written in one transaction or not at all.

use std::collections::BTreeSet;

use rusqlite::named_params;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Fields, Kind, PollerId, Route};

use super::classify::{Decisions, Write};
use super::next_row::next_row;
use super::prove::{Role, Verdict};
use super::vanish::Vanished;
use super::{Found, FoundBy, IMPORT, Ingest, SEARCH, Source};
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
    /// The gaps that were recorded of records that cannot be stored.
    pub(super) left_out: Vec<Gap>,
    /// The row of the log of each new version, by the record's place on the page.
    pub(super) versions: Vec<(usize, i64)>,
    /// What the poller knows now; `None` after a search or an import.
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
        verdict,
        decisions,
        vanished,
        ..
    } = *found;
    rename_pollers(&ingest)?;
    // Before the records of the page, so that a reader of the log sees the gap first.
    let gap = record_gap(&ingest, verdict)?;
    let left_out = gaps::record_left_out(
        &ingest.tx,
        ingest.identities.first(),
        &ingest.reading.poller,
        ingest.last_row(),
        ingest.reading.page.left_out(),
        &stamp(ingest.reading.at),
    )?;
    close_gaps(&ingest, verdict, decisions)?;
    let mut written = write_records(&ingest, verdict, decisions)?;
    write_vanished(&ingest, vanished, &mut written)?;
    decisions.gaps.save(&ingest.tx)?;
    let row = match &ingest.reading.source {
        Source::Poll(poll) => {
            let last_version = written.versions.last().map(|(_, seq)| *seq);
            let row = next_row(&ingest, found, poll, last_version)?;
            save_row(&ingest, &row, decisions.is_unchanged, &mut written)?;
            Some(row)
        }
        Source::Search(search) => {
            note_term(&ingest, search)?;
            None
        }
        Source::Import { .. } => None,
    };
    job_states::refresh(&ingest.tx, &written.jobs)?;
    if let Some((_, last_seq)) = written.versions.last() {
        views.keep_up(&ingest.tx, written.has_new_columns, *last_seq)?;
    }
    ingest.tx.commit()?;
    Ok(Committed {
        gap,
        left_out,
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
        let jobs = withheld::mark(tx, ingest.identities, &change, latest.seq)?;
        written.jobs.extend(jobs);
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
        Source::Search(_) => Some(SEARCH),
        Source::Import { .. } => Some(IMPORT),
    };
    // An older page does not show until when a record is one of the newest, and neither does a
    // search.
    let last_seen_at = match (verdict.role, &ingest.reading.source) {
        (Role::Newest, _) => None,
        (_, Source::Import { as_of }) => Some(stamp(*as_of)),
        _ => Some(at.clone()),
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
                written.jobs.extend(mirror.jobs_of(tx, id)?);
                continue;
            }
            Write::First(kind) => (*kind, None),
            Write::Next(before) | Write::Again(before) => (Kind::Updated, Some(*before)),
            Write::Another(before) => (Kind::Created, Some(*before)),
            Write::InPlaceOfImport(before) => (Kind::Baseline, Some(*before)),
        };
        // A search says neither whose a stored record is nor how it was found first.
        let (business, via) = match (via, before) {
            (Some(_), Some(before)) if !before.is_imported() => {
                (before.business.as_deref(), before.via.as_deref())
            }
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
            last_seen_at: last_seen_at.clone(),
            seq,
            via: via.map(str::to_owned),
            vanished_at: None,
        };
        // An update may name another job than before.
        if before.is_some() && *route != Route::Jobs {
            written.jobs.extend(mirror.jobs_of(tx, id)?);
        }
        mirror.put(tx, &facts, fields, &rules)?;
        if let Write::Another(_) | Write::InPlaceOfImport(_) = write {
            mirror.begin_again(tx, id, &at)?;
        }
        written.jobs.extend(mirror.jobs_of(tx, id)?);
        written.versions.push((*place, seq));
    }
    Ok(written)
}

/// Learns from the records of a page how their values are read, before the first of them is stored.
/// If stored values are read in another way now, their table is read again. The values of an import
/// are written by another program, and say nothing of those that the workspace sends.
fn learn_rules(
    ingest: &Ingest<'_>,
    route: Route,
    writes: &[(usize, Write<'_>)],
    fields: &[Fields<'_>],
) -> Result<FieldRules, StoreError> {
    let tx = &ingest.tx;
    let mut rules = FieldRules::load(tx, route)?;
    if let Source::Import { .. } = ingest.reading.source {
        return Ok(rules);
    }
    for ((place, write), fields) in writes.iter().zip(fields) {
        match write {
            Write::SeenByPoll => {
                let id = ingest.reading.page.records()[*place].id.as_str();
                if sightings::is_imported(tx, route, id)? {
                    rules.learn(None, fields);
                }
            }
            Write::First(_) | Write::InPlaceOfImport(_) => rules.learn(None, fields),
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
    let moved = sightings::note(&ingest.tx, poller, before, row)?;
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
