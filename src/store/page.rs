//! Storing a page: mirror rows, log rows, poller state and gap in one transaction, or nothing.
//!
//! What a page changes is found in three steps, cheapest first: the whole body against the last
//! one, then each record's text, then its meaning. A page that changes nothing writes nothing.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::Writer;
use super::error::StoreError;
use super::gaps::{self, Holes, Place};
use super::known::{Known, head_json};
use super::ledger::{Evidence, Gap};
use super::log::{self, NewChange};
use super::mirror::{self, Fields, RowFacts};
use super::pollers::{self, PollNote, PollerRow};
use crate::contiguity::Contiguity;
use crate::record::{Kind, Page, PollerId, Record, Route, field, same_record};

/// What is known of a poll beside its page.
#[derive(Debug, Clone)]
pub struct PollFacts {
    /// When the page was read.
    pub at: jiff::Timestamp,
    /// The last row of the log when the page was asked for; what was stored since is newer than it.
    pub asked_after: i64,
    /// Records asked for.
    pub limit: u32,
    /// How long the request took.
    pub latency: Duration,
    /// `X-RateLimit-Remaining` of the answer.
    pub remaining: Option<i64>,
    /// What the schedule has learned of this poller, as its own text.
    pub learned: String,
}

/// What a page came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whether the page said nothing new; the ledger's word is then that of a page that overlaps.
    pub unchanged: bool,
    /// What the page proved.
    pub contiguity: Contiguity,
    /// Records on the page.
    pub records: usize,
    /// Records stored for the first time.
    pub created: usize,
    /// Records whose meaning changed.
    pub updated: usize,
    /// Ids that were on the poller's page before, too.
    pub overlap: usize,
    /// Time from the oldest to the newest `created_at` on the page, where records show it.
    pub window: Option<Duration>,
    /// The gap that was recorded.
    pub gap: Option<Gap>,
}

/// What is to be written for one record.
enum Step {
    Create,
    Update {
        version: i64,
    },
    /// Found by search before, now seen by a poll.
    Adopt,
}

/// Stores a page; see [`super::Store::store_page`].
pub(super) fn store(
    writer: &mut Writer,
    key: &PollerId,
    page: Page,
    facts: &PollFacts,
) -> Result<Stored, StoreError> {
    writer.refuse_replaced_file()?;
    let stamp = crate::clock::stamp(facts.at);
    if !writer.known.contains_key(key)
        && let Some(row) = pollers::find(&writer.connection, key)?
    {
        writer.known.insert(key.clone(), Known::new(row));
    }
    if let Some(known) = writer.known.get_mut(key)
        && !known.by_id.is_empty()
        && known.page.body() == page.body()
    {
        known.row.last_success_at.clone_from(&stamp);
        let stored = Stored {
            unchanged: true,
            contiguity: contiguity_of_overlap(page.records().len(), facts.limit),
            records: page.records().len(),
            created: 0,
            updated: 0,
            overlap: page.records().len(),
            window: None,
            gap: None,
        };
        writer.note(key, poll_note(&stored, &stamp, facts));
        return Ok(stored);
    }
    let known = writer.known.get(key);
    let Compared { steps, overlap, late } = {
        // One snapshot for all look-ups: taking its lock anew for each record costs more than they do.
        let snapshot = writer.connection.transaction()?;
        compare(&snapshot, key.route, known, &page, facts.asked_after)?
    };
    let high_id = known.and_then(|k| k.row.high_id);
    let page_ids = id_bounds(page.records(), high_id);
    let evidence = Evidence {
        polled_before: known.is_some(),
        knew_records: known.is_some_and(|k| !k.head.is_empty()),
        records: page.records().len(),
        limit: facts.limit as usize,
        overlap,
        high_id,
        page_ids,
    };
    let contiguity = evidence.classify();
    let mut stored = Stored {
        unchanged: steps.is_empty()
            && known.is_some()
            && !matches!(contiguity, Contiguity::Gap | Contiguity::Suspect),
        contiguity,
        records: page.records().len(),
        created: steps.iter().filter(|(_, s)| matches!(s, Step::Create)).count(),
        updated: steps.iter().filter(|(_, s)| matches!(s, Step::Update { .. })).count(),
        overlap,
        window: window(&page),
        gap: None,
    };
    if page.records().is_empty() && contiguity == Contiguity::Suspect {
        // What was known stays what the next page is judged by.
        stored.unchanged = true;
        writer.note(
            key,
            PollNote { outcome: contiguity.as_str(), ..poll_note(&stored, &stamp, facts) },
        );
        return Ok(stored);
    }
    let gap = matches!(contiguity, Contiguity::Gap | Contiguity::Suspect)
        .then(|| gaps::found(&writer.connection, key, known, &evidence, contiguity, &stamp))
        .transpose()?;
    let mut row = next_row(key, known, &page, &stamp, stored.unchanged);
    if stored.unchanged && !known.is_some_and(|k| k.has_drifted(&page)) {
        writer.note(key, poll_note(&stored, &stamp, facts));
        let known = writer.known.get_mut(key).expect("an unchanged page has one before it");
        known.row = row;
        known.take_page(page);
        if late {
            known.forget_texts();
        }
        return Ok(stored);
    }
    let older_than = known.and_then(|k| k.older_than(facts.limit));
    row.learned = Some(facts.learned.clone());
    row.page_limit = i64::from(facts.limit);
    row.head = head_json(&page);
    let note = poll_note(&stored, &stamp, facts);
    let finding =
        Finding { page: &page, steps: &steps, contiguity, older_than, row: &row, note: &note };
    match write(writer, key, &finding, gap) {
        Ok(gap) => stored.gap = gap,
        Err(error) => {
            // The columns in memory may be ahead of a rolled-back table.
            writer.mirrors.clear();
            return Err(error);
        }
    }
    if !steps.is_empty() {
        writer.forget_texts(key.route, Some(key));
    }
    let known = writer.known.entry(key.clone()).or_insert_with(|| Known::new(row.clone()));
    known.row = row;
    known.take_page(page);
    known.saved.clone_from(&known.head);
    if late {
        known.forget_texts();
    }
    Ok(stored)
}

/// What a page that has to be written came to.
struct Finding<'a> {
    page: &'a Page,
    steps: &'a [(usize, Step)],
    contiguity: Contiguity,
    /// New records below this id were there before the page grew to show them.
    older_than: Option<i64>,
    row: &'a PollerRow,
    note: &'a PollNote,
}

impl Finding<'_> {
    fn kind_of_new(&self, record: &Record, holes: &mut Holes) -> Kind {
        let was_there = match self.contiguity {
            Contiguity::Baseline => return Kind::Baseline,
            Contiguity::Contiguous | Contiguity::Complete => {
                self.older_than.zip(record.id.as_integer()).is_some_and(|(low, id)| id < low)
            }
            Contiguity::Suspect | Contiguity::Gap => false,
        };
        // What was or may have been missed is news.
        if was_there && holes.credit(record, self.page.text(record)) == Place::Outside {
            Kind::Baseline
        } else {
            Kind::Created
        }
    }
}

/// What a page is beside what is stored.
struct Compared {
    steps: Vec<(usize, Step)>,
    /// Ids that were on the poller's page before, too. An older record proves nothing: it may have
    /// come back for a reason of its own, past others that nobody saw.
    overlap: usize,
    /// Whether a record differs that was stored since the page was asked for: which of the two is
    /// the newer, the next page tells.
    late: bool,
}

/// Finds what each record of the page is beside what is stored.
fn compare(
    connection: &Connection,
    route: Route,
    known: Option<&Known>,
    page: &Page,
    asked_after: i64,
) -> Result<Compared, StoreError> {
    let mut find = connection.prepare_cached(&format!(
        "SELECT m._via, c.seq, c.version, c.body FROM \"{route}\" m JOIN changes c ON c.seq = m._seq WHERE m.id = ?1",
    ))?;
    let mut steps = Vec::new();
    let (mut overlap, mut late) = (0, false);
    for (index, record) in page.records().iter().enumerate() {
        let id = record.id.as_str();
        let text = page.text(record);
        overlap += usize::from(known.is_some_and(|k| k.head.contains(id)));
        if known.and_then(|k| k.text_of(id)) == Some(text) {
            continue;
        }
        let row = find
            .query_row([id], |row| {
                let via: Option<String> = row.get(0)?;
                let seq: i64 = row.get(1)?;
                let version: i64 = row.get(2)?;
                let body: String = row.get(3)?;
                Ok((via, seq, version, body))
            })
            .optional()?;
        let Some((via, seq, version, body)) = row else {
            steps.push((index, Step::Create));
            continue;
        };
        match same_record(&body, text) {
            true if via.is_some() => steps.push((index, Step::Adopt)),
            true => {}
            false if seq > asked_after => late = true,
            false => steps.push((index, Step::Update { version: version + 1 })),
        }
    }
    Ok(Compared { steps, overlap, late })
}

fn write(
    writer: &mut Writer,
    key: &PollerId,
    finding: &Finding<'_>,
    gap: Option<Gap>,
) -> Result<Option<Gap>, StoreError> {
    let Finding { page, steps, row, note, .. } = *finding;
    let route = key.route;
    let stamp = note.at.as_str();
    let mirror = mirror::of_route(&mut writer.mirrors, &writer.connection, route)?;
    let tx = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut holes = Holes::open(&tx, route, key.business.as_deref())?;
    // Before the records of the page, so that a reader of the log learns of the hole first.
    let gap = match gap {
        Some(gap) => Some(gaps::record(&tx, &writer.identity, key, gap)?),
        None => None,
    };
    let parsed: Vec<Fields<'_>> =
        steps.iter().map(|(index, _)| Fields::of(page.text(&page.records()[*index]))).collect();
    mirror.grow(&tx, &parsed)?;
    // A page is newest first; the log reads better oldest first.
    for ((index, step), fields) in steps.iter().zip(&parsed).rev() {
        let record = &page.records()[*index];
        let (kind, version) = match step {
            Step::Create => (finding.kind_of_new(record, &mut holes), 1),
            Step::Update { version } => (Kind::Updated, *version),
            Step::Adopt => {
                adopt(&tx, key, record)?;
                continue;
            }
        };
        let change = NewChange {
            route,
            record_id: record.id.as_str(),
            kind,
            version,
            observed_at: stamp,
            business: key.business.as_deref(),
            body: page.text(record),
        };
        let seq = log::append(&tx, &writer.identity, &change)?;
        let facts = RowFacts {
            id: record.id.as_str(),
            business: key.business.as_deref(),
            at: stamp,
            seq,
            via: None,
        };
        mirror.put(&tx, &facts, fields)?;
    }
    holes.save(&tx)?;
    pollers::save(&tx, key, row)?;
    writer.pending.write(&tx, Some((key, note)))?;
    tx.commit()?;
    writer.pending.clear();
    Ok(gap)
}

fn adopt(connection: &Connection, key: &PollerId, record: &Record) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!(
            "UPDATE \"{}\" SET _via = NULL, _business = ?2 WHERE id = ?1",
            key.route
        ))?
        .execute((record.id.as_str(), &key.business))?;
    Ok(())
}

fn next_row(
    key: &PollerId,
    known: Option<&Known>,
    page: &Page,
    stamp: &str,
    unchanged: bool,
) -> PollerRow {
    let mut row = known.map_or_else(
        || PollerRow {
            route: key.route.as_str().to_owned(),
            business: key.business.clone(),
            first_polled_at: stamp.to_owned(),
            last_success_at: stamp.to_owned(),
            last_change_at: None,
            high_id: None,
            page_limit: 0,
            learned: None,
            head: "[]".to_owned(),
        },
        |k| k.row.clone(),
    );
    row.last_success_at = stamp.to_owned();
    if !unchanged {
        row.last_change_at = Some(stamp.to_owned());
    }
    if let Some((_, highest)) = id_bounds(page.records(), None) {
        row.high_id = row.high_id.max(Some(highest));
    } else if !page.records().is_empty() {
        // The highest integer would no longer be the last id.
        row.high_id = None;
    }
    row
}

fn poll_note(stored: &Stored, stamp: &str, facts: &PollFacts) -> PollNote {
    PollNote {
        outcome: if stored.unchanged { "unchanged" } else { stored.contiguity.as_str() },
        detail: None,
        at: stamp.to_owned(),
        records: stored.records,
        created: stored.created,
        updated: stored.updated,
        overlap: stored.overlap,
        latency: facts.latency,
        remaining: facts.remaining,
    }
}

fn contiguity_of_overlap(records: usize, limit: u32) -> Contiguity {
    if records < limit as usize { Contiguity::Complete } else { Contiguity::Contiguous }
}

/// The lowest id above `known`, or of all if none is, and the highest; only if all are integers.
fn id_bounds(records: &[Record], known: Option<i64>) -> Option<(i64, i64)> {
    let ids: Option<Vec<i64>> = records.iter().map(|r| r.id.as_integer()).collect();
    let ids = ids?;
    let above = ids.iter().filter(|id| known.is_some_and(|known| **id > known)).min();
    Some((*above.or(ids.iter().min())?, *ids.iter().max()?))
}

/// Time from the oldest to the newest `created_at`, reckoned from the first and last record.
fn window(page: &Page) -> Option<Duration> {
    let at = |record: &Record| -> Option<jiff::Timestamp> {
        let text: String = serde_json::from_str(field(page.text(record), "created_at")?).ok()?;
        text.parse().ok()
    };
    let first = at(page.records().first()?)?;
    let last = at(page.records().last()?)?;
    Some(first.duration_since(last).unsigned_abs())
}

#[cfg(test)]
mod tests;
