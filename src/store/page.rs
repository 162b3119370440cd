//! Storing a page: mirror rows, log rows, poller state and gap in one transaction, or nothing.
//!
//! Four steps: is the page unchanged, what differs from the store, what does it prove, commit. A
//! page that changes nothing writes nothing.

use std::collections::hash_map::Entry;

use super::batch::NewVersion;
use super::diff::{self, PageDiff, RecordDiff};
use super::error::StoreError;
use super::gaps::{self, OpenGaps};
use super::known::{KnownPoller, head_json};
use super::log;
use super::page_facts::{PageOutcome, PollFacts};
use super::pollers::{self, PollNote, PollOutcome, PollerRow};
use super::succession::{self, Predecessor};
use super::writer::{Batch, Writer};
use crate::contiguity::{self, Contiguity, Proof};
use crate::record::{Kind, Page, PollerId};
use news::{LongerPage, NewRecords};

/// A page on its way into the store.
struct Arrival<'a> {
    poller: &'a PollerId,
    page: Page,
    facts: &'a PollFacts,
    stamp: String,
    /// What the schedule has learned of the poller, as its own text; `None` if that need not be
    /// saved now.
    learned: Option<String>,
}

/// What comparing a page with the store has shown.
struct Judged {
    diff: PageDiff,
    proof: Proof,
    /// The last row of the log that the comparison has seen.
    seen: i64,
}

/// Notes a page that is the poller's previous one, byte for byte; `None` if it is another, and
/// [`store`] has to look at it.
pub(super) fn note_unchanged(
    writer: &mut Writer,
    poller: &PollerId,
    body: &[u8],
    facts: &PollFacts,
) -> Option<PageOutcome> {
    let known = writer.known.get_mut(poller)?;
    if !known.shows_again(body) {
        return None;
    }
    let stamp = crate::clock::stamp(facts.at);
    known.row.last_success_at = facts.asked_at();
    let records = known.len();
    let repeats = known.page().map(Page::repeats).cloned().unwrap_or_default();
    let is_short = records + (repeats.count as usize) < facts.limit as usize;
    let outcome = PageOutcome {
        unchanged: true,
        contiguity: if is_short { Contiguity::Complete } else { Contiguity::Contiguous },
        records,
        created: 0,
        updated: 0,
        overlap: records,
        gap: None,
        changed_fields: Vec::new(),
        two_texts: repeats.two_texts,
    };
    writer.note(poller, poll_note(&outcome, &stamp, facts));
    Some(outcome)
}

/// Stores a page; see [`super::Store::store_page`].
pub(super) fn store(
    writer: &mut Writer,
    poller: &PollerId,
    page: Page,
    facts: &PollFacts,
    learned: Option<String>,
) -> Result<PageOutcome, StoreError> {
    writer.refuse_replaced_file()?;
    if let Some(outcome) = note_unchanged(writer, poller, page.body().as_bytes(), facts) {
        return Ok(outcome);
    }
    // A full page that shows a record twice is full, although it has fewer records than its limit.
    let facts =
        &PollFacts { limit: facts.limit.saturating_sub(page.repeats().count), ..facts.clone() };
    let arrival = Arrival { poller, page, facts, stamp: crate::clock::stamp(facts.at), learned };
    load_known(writer, poller)?;
    writer.until_not_overtaken(|writer| compare_and_store(writer, &arrival))
}

fn compare_and_store(
    writer: &mut Writer,
    arrival: &Arrival<'_>,
) -> Result<PageOutcome, StoreError> {
    let Arrival { poller, page, facts, .. } = arrival;
    let predecessor = match writer.known.contains_key(*poller) {
        true => None,
        false => succession::find(writer, poller, facts)?,
    };
    let judge = predecessor.as_ref().map_or(*poller, |predecessor| &predecessor.poller);
    let mut judged = judged(writer, arrival, judge)?;
    if judged.diff.is_of_another_shop() {
        return Err(StoreError::OtherShop);
    }
    let predecessor = predecessor.and_then(|found| found.settle(&judged.diff, &mut judged.proof));
    let judge = predecessor.as_ref().map_or(*poller, |predecessor| &predecessor.poller);
    let known = writer.known.get(judge);
    let outcome = outcome(page, &judged, known.is_some());
    if page.records().is_empty() && judged.proof.contiguity == Contiguity::Suspect {
        return note_emptied(writer, arrival, outcome);
    }
    if outcome.unchanged && predecessor.is_none() && can_skip_write(known, page, facts) {
        return note_same_meaning(writer, arrival, judged, outcome);
    }
    commit(writer, arrival, judged, predecessor.as_ref(), outcome)
}

/// Compares a page with the store and with what the poller `judge` knows.
fn judged(writer: &Writer, arrival: &Arrival<'_>, judge: &PollerId) -> Result<Judged, StoreError> {
    let Arrival { poller, page, facts, .. } = arrival;
    let known = writer.known.get(judge);
    // One snapshot for all look-ups: taking its lock anew for each record costs more than they do.
    let snapshot = writer.connection.unchecked_transaction()?;
    let seen = log::last_seq(&snapshot)?;
    let ignored = writer.ignored(poller.route);
    let diff = diff::compare(&snapshot, poller.route, known, page, facts.asked_after, ignored)?;
    let previous = known.map(KnownPoller::previous_page);
    let proof = contiguity::classify(previous.as_ref(), &diff.sightings, facts.limit as usize);
    Ok(Judged { diff, proof, seen })
}

/// Reads what the poller knows from the store, the first time it is needed.
fn load_known(writer: &mut Writer, poller: &PollerId) -> Result<(), StoreError> {
    if !writer.known.contains_key(poller)
        && let Some(row) = pollers::find(&writer.connection, poller)?
    {
        writer.known.insert(poller.clone(), KnownPoller::new(row));
    }
    Ok(())
}

fn outcome(page: &Page, judged: &Judged, polled_before: bool) -> PageOutcome {
    let Judged { diff, proof, .. } = judged;
    PageOutcome {
        unchanged: polled_before && diff.records.is_empty() && proof.contiguity.is_proven(),
        contiguity: proof.contiguity,
        records: page.records().len(),
        created: diff.created(),
        updated: diff.updated(),
        overlap: proof.shared,
        gap: None,
        changed_fields: diff.changed_fields.clone(),
        two_texts: page.repeats().two_texts.clone(),
    }
}

/// Whether the poller's row in the store stays good enough for a restart.
fn can_skip_write(known: Option<&KnownPoller>, page: &Page, facts: &PollFacts) -> bool {
    known.is_some_and(|known| {
        known.row.emptied_at.is_none()
            && (facts.served_business.is_none()
                || known.row.served_business == facts.served_business)
            && !known.has_drifted(page)
    })
}

/// A page without records where there were some. The previous page stays what the next one is
/// judged by; when the route turned empty is written at once.
fn note_emptied(
    writer: &mut Writer,
    arrival: &Arrival<'_>,
    outcome: PageOutcome,
) -> Result<PageOutcome, StoreError> {
    let outcome = PageOutcome { unchanged: true, ..outcome };
    let note = PollNote {
        outcome: PollOutcome::Read(Contiguity::Suspect),
        ..poll_note(&outcome, &arrival.stamp, arrival.facts)
    };
    if let Some(known) = writer.known.get_mut(arrival.poller)
        && known.row.emptied_at.is_none()
    {
        pollers::set_emptied(&writer.connection, arrival.poller, &arrival.stamp)?;
        known.row.emptied_at = Some(arrival.stamp.clone());
    }
    writer.note(arrival.poller, note);
    Ok(outcome)
}

/// A page whose text differs but whose records all mean what is stored: only memory changes.
fn note_same_meaning(
    writer: &mut Writer,
    arrival: &Arrival<'_>,
    judged: Judged,
    outcome: PageOutcome,
) -> Result<PageOutcome, StoreError> {
    writer.note(arrival.poller, poll_note(&outcome, &arrival.stamp, arrival.facts));
    let known = writer.known.get_mut(arrival.poller).expect("an unchanged page has one before it");
    known.row.last_success_at = arrival.facts.asked_at();
    known.row.high_id = next_high_id(Some(&known.row), &arrival.page);
    known.take_page(arrival.page.clone(), judged.diff.undecided, judged.seen);
    writer.learn_ignored(arrival.poller.route, &judged.diff.ignored)?;
    Ok(outcome)
}

/// Writes the page in one transaction, then takes it into memory.
fn commit(
    writer: &mut Writer,
    arrival: &Arrival<'_>,
    judged: Judged,
    predecessor: Option<&Predecessor>,
    mut outcome: PageOutcome,
) -> Result<PageOutcome, StoreError> {
    let Arrival { poller, page, .. } = arrival;
    let Judged { diff, proof, seen } = judged;
    let judge = predecessor.map_or(*poller, |predecessor| &predecessor.poller);
    let known = writer.known.get(judge);
    let shown_at = known.map(|known| known.row.last_success_at.clone());
    let gap = (!proof.contiguity.is_proven())
        .then(|| gaps::found(&writer.connection, poller, known, &proof, page, &arrival.stamp))
        .transpose()?;
    let new = NewRecords {
        contiguity: proof.contiguity,
        high_id: known.and_then(|known| known.row.high_id),
        longer_page: known.and_then(|known| LongerPage::of(known, page, arrival.facts.limit)),
        unsure: predecessor.filter(|found| !found.is_certain).map(|found| &found.row),
    };
    let mut row = next_row(arrival, known, outcome.unchanged);
    row.head = head_json(page, &diff.undecided);
    let note = poll_note(&outcome, &arrival.stamp, arrival.facts);
    outcome.gap = writer.in_batch(poller.route, seen, |batch| {
        if let Some(predecessor) = predecessor.filter(|found| found.is_certain) {
            succession::take_over(batch.tx, poller, predecessor)?;
        }
        // Before the records of the page, so that a reader of the log sees the gap first.
        let gap = match gap {
            Some(gap) => gaps::record(batch.tx, batch.identities.first(), poller, gap)?,
            None => None,
        };
        write_records(batch, arrival, &diff.records, &new)?;
        row.head_seq = log::last_seq(batch.tx)?;
        if let Some(at) = &shown_at {
            // The table may be a minute older.
            pollers::set_read(batch.tx, poller, at)?;
        }
        pollers::save(batch.tx, poller, &row)?;
        batch.pending.write(batch.tx, Some((poller, &note)))?;
        Ok(gap)
    })?;
    writer.pending.clear();
    if !diff.records.is_empty() {
        writer.route_was_written(poller.route, Some(poller));
    }
    if let Some(predecessor) = predecessor {
        writer.known.remove(&predecessor.poller);
    }
    let seq = row.head_seq;
    let known = match writer.known.entry((*poller).clone()) {
        Entry::Occupied(known) => {
            let known = known.into_mut();
            known.row = row;
            known
        }
        Entry::Vacant(place) => place.insert(KnownPoller::new(row)),
    };
    known.take_page(page.clone(), diff.undecided, seq);
    known.head_was_saved();
    writer.learn_ignored(poller.route, &diff.ignored)?;
    Ok(outcome)
}

/// Writes the records that differ, the oldest first: a page is newest first, and the log reads
/// better the other way round.
fn write_records(
    batch: &mut Batch<'_>,
    arrival: &Arrival<'_>,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
) -> Result<(), StoreError> {
    let PollerId { route, business } = arrival.poller;
    let page = &arrival.page;
    let mut open_gaps = OpenGaps::read(batch.tx, *route, business.as_deref())?;
    let mut versions = Vec::with_capacity(records.len());
    for (place, diff) in records.iter().rev() {
        let record = &page.records()[*place];
        let (id, text) = (record.id.as_str(), page.text(record));
        let (kind, version, before, is_missing) = match diff {
            RecordDiff::New => (new.kind(*place, record, &mut open_gaps), 1, None, false),
            RecordDiff::Changed { version, before, is_missing } => {
                (Kind::Updated, *version, Some(*before), *is_missing)
            }
            RecordDiff::SeenByPoll => {
                batch.mirror.seen_by_poll(batch.tx, id, business.as_deref())?;
                continue;
            }
            RecordDiff::Restored { seq } => {
                batch.restore(*route, (id, text), business.as_deref(), *seq)?;
                continue;
            }
        };
        let business = business.as_deref();
        let via = None;
        let is_on_page = true;
        versions.push(NewVersion {
            id,
            text,
            kind,
            version,
            before,
            business,
            via,
            is_on_page,
            is_missing,
        });
    }
    batch.append(*route, &arrival.stamp, &versions)?;
    open_gaps.save(batch.tx)?;
    Ok(())
}

fn next_row(arrival: &Arrival<'_>, known: Option<&KnownPoller>, unchanged: bool) -> PollerRow {
    let Arrival { poller, page, facts, stamp, learned } = arrival;
    let before = known.map(|known| &known.row);
    let last_change_at = before.and_then(|row| row.last_change_at.clone());
    PollerRow {
        route: poller.route.as_str().to_owned(),
        business: poller.business.clone(),
        first_polled_at: before.map_or(stamp, |row| &row.first_polled_at).clone(),
        complete_since: match before {
            Some(row) => row.complete_since.clone(),
            None => (page.records().len() >= facts.limit as usize).then(|| stamp.clone()),
        },
        last_success_at: facts.asked_at(),
        last_change_at: if unchanged { last_change_at } else { Some(stamp.clone()) },
        emptied_at: None,
        high_id: next_high_id(before, page),
        page_limit: i64::from(facts.limit),
        learned: learned.clone().or_else(|| before.and_then(|row| row.learned.clone())),
        served_business: facts
            .served_business
            .clone()
            .or_else(|| before.and_then(|row| row.served_business.clone())),
        head: String::new(),
        head_seq: 0,
    }
}

/// The highest id known after a page, while ids are integers.
fn next_high_id(before: Option<&PollerRow>, page: &Page) -> Option<i64> {
    let before = before.and_then(|row| row.high_id);
    if page.records().is_empty() {
        return before;
    }
    // Once one id is no integer, the highest integer would no longer be the last id.
    let ids: Option<Vec<i64>> = page.records().iter().map(|r| r.id.as_integer()).collect();
    before.max(Some(ids?.into_iter().max()?))
}

fn poll_note(outcome: &PageOutcome, stamp: &str, facts: &PollFacts) -> PollNote {
    PollNote {
        outcome: match outcome.unchanged {
            true => PollOutcome::Unchanged,
            false => PollOutcome::Read(outcome.contiguity),
        },
        detail: None,
        at: stamp.to_owned(),
        records: outcome.records,
        created: outcome.created,
        updated: outcome.updated,
        overlap: outcome.overlap,
        latency: facts.latency,
        remaining: facts.remaining,
    }
}

mod news;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
