//! Storing a page: mirror rows, log rows, poller state and gap in one transaction, or nothing.
//!
//! Four steps: is the page unchanged, what differs from the store, what does it prove, commit. A
//! page that changes nothing writes nothing.

use super::batch::NewVersion;
use super::diff::{self, PageDiff, RecordDiff};
use super::error::StoreError;
use super::gaps::{self, GapPlace, OpenGaps};
use super::known::{KnownPoller, head_json};
use super::log;
use super::page_facts::{PageOutcome, PollFacts};
use super::pollers::{self, PollNote, PollOutcome, PollerRow};
use super::succession::{self, Predecessor};
use super::writer::{Batch, Writer};
use crate::contiguity::{self, Contiguity, Proof};
use crate::record::{Kind, Page, PollerId, Record, created_at};

/// A page on its way into the store.
struct Arrival<'a> {
    poller: &'a PollerId,
    facts: &'a PollFacts,
    stamp: String,
    /// What the schedule has learned of the poller, as its own text.
    learned: String,
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
    known.row.last_success_at.clone_from(&stamp);
    let records = known.len();
    let is_short = records < facts.limit as usize;
    let outcome = PageOutcome {
        unchanged: true,
        contiguity: if is_short { Contiguity::Complete } else { Contiguity::Contiguous },
        records,
        created: 0,
        updated: 0,
        overlap: records,
        gap: None,
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
    learned: String,
) -> Result<PageOutcome, StoreError> {
    writer.refuse_replaced_file()?;
    if let Some(outcome) = note_unchanged(writer, poller, page.body().as_bytes(), facts) {
        return Ok(outcome);
    }
    let arrival = Arrival { poller, facts, stamp: crate::clock::stamp(facts.at), learned };
    load_known(writer, poller)?;
    let predecessor = match writer.known.contains_key(poller) {
        true => None,
        false => succession::find(writer, poller, facts)?,
    };
    let judge = predecessor.as_ref().map_or(poller, |predecessor| &predecessor.poller);
    let known = writer.known.get(judge);
    let page_diff = {
        // One snapshot for all look-ups: taking its lock anew for each record costs more than they do.
        let snapshot = writer.connection.unchecked_transaction()?;
        diff::compare(
            &snapshot,
            poller.route,
            known,
            &page,
            facts.asked_after,
            writer.ignored(poller.route),
        )?
    };
    let previous = known.map(KnownPoller::previous_page);
    let mut proof =
        contiguity::classify(previous.as_ref(), &page_diff.sightings, facts.limit as usize);
    let predecessor = predecessor.and_then(|found| found.settle(&page_diff, &mut proof));
    let judge = predecessor.as_ref().map_or(poller, |predecessor| &predecessor.poller);
    let known = writer.known.get(judge);
    let outcome = outcome(&page, &page_diff, &proof, known.is_some());
    if page.records().is_empty() && proof.contiguity == Contiguity::Suspect {
        return note_emptied(writer, &arrival, outcome);
    }
    if outcome.unchanged && predecessor.is_none() && can_skip_write(known, &page, facts) {
        return note_same_meaning(writer, &arrival, page, page_diff, outcome);
    }
    commit(writer, &arrival, page, &page_diff, &proof, predecessor.as_ref(), outcome)
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

fn outcome(page: &Page, diff: &PageDiff, proof: &Proof, polled_before: bool) -> PageOutcome {
    PageOutcome {
        unchanged: polled_before && diff.records.is_empty() && proof.contiguity.is_proven(),
        contiguity: proof.contiguity,
        records: page.records().len(),
        created: diff.created(),
        updated: diff.updated(),
        overlap: proof.shared,
        gap: None,
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
    page: Page,
    diff: PageDiff,
    outcome: PageOutcome,
) -> Result<PageOutcome, StoreError> {
    writer.note(arrival.poller, poll_note(&outcome, &arrival.stamp, arrival.facts));
    let seq = log::last_seq(&writer.connection)?;
    let known = writer.known.get_mut(arrival.poller).expect("an unchanged page has one before it");
    known.row.last_success_at.clone_from(&arrival.stamp);
    known.row.high_id = next_high_id(Some(&known.row), &page);
    known.take_page(page, diff.undecided, seq);
    Ok(outcome)
}

/// Writes the page in one transaction, then takes it into memory.
fn commit(
    writer: &mut Writer,
    arrival: &Arrival<'_>,
    page: Page,
    diff: &PageDiff,
    proof: &Proof,
    predecessor: Option<&Predecessor>,
    mut outcome: PageOutcome,
) -> Result<PageOutcome, StoreError> {
    let poller = arrival.poller;
    let judge = predecessor.map_or(poller, |predecessor| &predecessor.poller);
    let known = writer.known.get(judge);
    let gap = (!proof.contiguity.is_proven())
        .then(|| gaps::found(&writer.connection, poller, known, proof, &page, &arrival.stamp))
        .transpose()?;
    let new = NewRecords {
        contiguity: proof.contiguity,
        high_id: known.and_then(|known| known.row.high_id),
        longer_page: known.and_then(|known| LongerPage::of(known, &page, arrival.facts.limit)),
        unsure: predecessor.filter(|found| !found.is_certain).map(|found| &found.row),
    };
    let mut row = next_row(arrival, known, &page, outcome.unchanged);
    row.head = head_json(&page, &diff.undecided);
    let note = poll_note(&outcome, &arrival.stamp, arrival.facts);
    outcome.gap = writer.in_batch(poller.route, |batch| {
        if let Some(predecessor) = predecessor.filter(|found| found.is_certain) {
            succession::take_over(batch.tx, poller, predecessor)?;
        }
        // Before the records of the page, so that a reader of the log sees the gap first.
        let gap = match gap {
            Some(gap) => gaps::record(batch.tx, batch.identity, poller, gap)?,
            None => None,
        };
        write_records(batch, arrival, &page, &diff.records, &new)?;
        row.head_seq = log::last_seq(batch.tx)?;
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
    let known = writer.known.entry(poller.clone()).or_insert_with(|| KnownPoller::new(row.clone()));
    known.row = row;
    known.take_page(page, diff.undecided.clone(), seq);
    known.head_was_saved();
    Ok(outcome)
}

/// Writes the records that differ, the oldest first: a page is newest first, and the log reads
/// better the other way round.
fn write_records(
    batch: &mut Batch<'_>,
    arrival: &Arrival<'_>,
    page: &Page,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
) -> Result<(), StoreError> {
    let PollerId { route, business } = arrival.poller;
    let mut open_gaps = OpenGaps::read(batch.tx, *route, business.as_deref())?;
    let mut versions = Vec::with_capacity(records.len());
    for (place, diff) in records.iter().rev() {
        let record = &page.records()[*place];
        let (id, text) = (record.id.as_str(), page.text(record));
        let (kind, version) = match diff {
            RecordDiff::New => (new.kind(*place, record, text, &mut open_gaps), 1),
            RecordDiff::Changed { version } => (Kind::Updated, *version),
            RecordDiff::SeenByPoll => {
                batch.mirror.seen_by_poll(batch.tx, id, business.as_deref())?;
                continue;
            }
            RecordDiff::Restored { seq } => {
                batch.restore(id, text, business.as_deref(), &arrival.stamp, *seq)?;
                continue;
            }
        };
        let business = business.as_deref();
        versions.push(NewVersion { id, text, kind, version, business, via: None });
    }
    batch.append(*route, &arrival.stamp, &versions)?;
    open_gaps.save(batch.tx)?;
    Ok(())
}

/// Decides of each record that is stored for the first time whether it is `created` or `baseline`.
struct NewRecords<'a> {
    contiguity: Contiguity,
    /// The highest id known before this page.
    high_id: Option<i64>,
    longer_page: Option<LongerPage>,
    /// The poller that this one may or may not take over from.
    unsure: Option<&'a PollerRow>,
}

impl NewRecords<'_> {
    fn kind(&self, place: usize, record: &Record, text: &str, gaps: &mut OpenGaps) -> Kind {
        match (self.contiguity, self.unsure) {
            (Contiguity::Baseline, _) => return Kind::Baseline,
            (_, Some(row)) if !row.is_newer(record, text) => return Kind::Baseline,
            (Contiguity::Suspect | Contiguity::Gap, _) => return Kind::Created,
            _ => {}
        }
        let was_below =
            self.longer_page.as_ref().is_some_and(|longer| longer.was_below(place, record, text));
        let is_old = self.high_id.zip(record.id.as_integer()).is_some_and(|(high, id)| id <= high);
        // A record that a gap may have hidden counts as created.
        if (was_below || is_old) && gaps.credit(record, text) != GapPlace::Outside {
            return Kind::Created;
        }
        // An old record that was never shown and is now counts as created too: its last change brought it.
        if was_below { Kind::Baseline } else { Kind::Created }
    }
}

/// A page that is longer than the one before because the limit was raised: it shows records that
/// were there already, below the end of the shorter page.
struct LongerPage {
    lowest_id: Option<i64>,
    oldest: Option<jiff::Timestamp>,
    last_shared: usize,
}

impl LongerPage {
    fn of(known: &KnownPoller, page: &Page, limit: u32) -> Option<Self> {
        let before = known.row.page_limit;
        // A page that was not full was the whole list.
        let was_full = i64::try_from(known.len()).is_ok_and(|records| records >= before);
        if before >= i64::from(limit) || !was_full {
            return None;
        }
        let shared = || {
            let records = page.records().iter().enumerate();
            records.filter(|(_, record)| known.contains(record.id.as_str()))
        };
        let made = |(_, record): (usize, &Record)| created_at(page.text(record));
        Some(Self {
            lowest_id: known.lowest_id(),
            oldest: shared().map(made).min().flatten(),
            last_shared: shared().map(|(place, _)| place).max()?,
        })
    }

    /// By its id while ids are integers, else by when it was made, else by its place on the page.
    fn was_below(&self, place: usize, record: &Record, text: &str) -> bool {
        if let Some((lowest, id)) = self.lowest_id.zip(record.id.as_integer()) {
            return id < lowest;
        }
        match self.oldest.zip(created_at(text)) {
            Some((oldest, made)) => made <= oldest,
            None => place > self.last_shared,
        }
    }
}

fn next_row(
    arrival: &Arrival<'_>,
    known: Option<&KnownPoller>,
    page: &Page,
    unchanged: bool,
) -> PollerRow {
    let Arrival { poller, facts, stamp, learned } = arrival;
    let before = known.map(|known| &known.row);
    let last_change_at = before.and_then(|row| row.last_change_at.clone());
    PollerRow {
        route: poller.route.as_str().to_owned(),
        business: poller.business.clone(),
        first_polled_at: before.map_or(stamp, |row| &row.first_polled_at).clone(),
        last_success_at: stamp.clone(),
        last_change_at: if unchanged { last_change_at } else { Some(stamp.clone()) },
        emptied_at: None,
        high_id: next_high_id(before, page),
        page_limit: i64::from(facts.limit),
        learned: Some(learned.clone()),
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

#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
