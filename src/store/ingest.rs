//! Storing what the workspace has shown: the page of a poll, or what a search has found.
//!
//! One way, in one transaction: compare the records with the store, decide what the page proves,
//! then write mirror rows, log rows, the poller's row and the gap together, or nothing. A page that
//! changes nothing writes nothing. A search proves nothing and touches no poller.

pub(super) mod compare;
mod kind;
mod write;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;
use shopmirror_core::contiguity::{self, Contiguity, PreviousPage, Proof};
use shopmirror_core::record::{Fields, Kind, Page, PollerId, RecordId, Route};

use super::error::StoreError;
use super::gaps::{self, Gap};
use super::handle::Store;
use super::open::write_tx;
use super::pollers::{self, PollerRow};
use super::sql::Sql;
use super::writer::Batch;
use super::{log, sightings};
use crate::store::mirror::{job_links, job_states, views};
use compare::{PageDiff, RecordDiff};
use kind::NewRecords;

/// So many pages in a row that are older than the one before are not taken for it. Then the newest
/// record has left the list, and the server is not behind.
const MAX_STALE_PAGES: u32 = 2;

/// What is known of a poll beside its page.
#[derive(Debug, Clone)]
pub struct PollFacts {
    /// When the page was read.
    pub at: Timestamp,
    /// The last row of the log when the page was requested; later rows are newer than the page.
    pub asked_after: i64,
    /// Records requested.
    pub limit: u32,
    /// How long ago the page was requested: what happened since then may be missing from it.
    pub latency: Duration,
    /// `X-Business` of the response: the business it is of, whether it was requested or is the
    /// workspace default.
    pub served_business: Option<String>,
}

impl PollFacts {
    /// When the page was requested. The poller is known to be complete up to then, not up to the
    /// time at which the page was read.
    fn asked_at(&self) -> String {
        stamp(self.at.checked_sub(self.latency).unwrap_or(self.at))
    }
}

/// What storing a page changed and proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOutcome {
    /// Whether the page showed nothing new.
    pub unchanged: bool,
    /// What the page proved.
    pub contiguity: Contiguity,
    /// Records on the page.
    pub records: usize,
    /// Records stored for the first time.
    pub created: usize,
    /// Records whose meaning changed.
    pub updated: usize,
    /// The gap that was recorded.
    pub gap: Option<Gap>,
}

/// A customer search and its response.
#[derive(Debug, Clone)]
pub struct Search {
    /// The business that was searched; `None` is the workspace default.
    pub business: Option<String>,
    /// The response.
    pub page: Page,
    /// The kind of change for a customer that is stored for the first time and that no gap can have
    /// hidden: `created` or `baseline`.
    pub kind: Kind,
    /// When the response was read.
    pub at: Timestamp,
    /// The last row of the log when the search was sent; later rows are newer than its response.
    pub asked_after: i64,
    /// The search term if it belongs to a backfill, which can be resumed.
    pub backfill_term: Option<String>,
}

/// What storing a search changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// Customers stored for the first time.
    pub created: usize,
    /// Customers whose meaning changed.
    pub updated: usize,
}

impl Store {
    /// Stores a page in one transaction: mirror rows, log rows, poller state and, if the page
    /// does not prove contiguity, a gap. A page that shows nothing new writes nothing. `learned` is
    /// what the schedule learned of the poller, as its own text; `None` without a schedule.
    ///
    /// # Errors
    /// Nothing of the page is stored.
    pub async fn store_page(
        &self,
        poller: PollerId,
        page: Page,
        facts: PollFacts,
        learned: Option<String>,
    ) -> Result<PageOutcome, StoreError> {
        self.write(move |writer| {
            writer.refuse_replaced_file()?;
            writer.know(&poller)?;
            let at = stamp(facts.at);
            let arrival = Arrival {
                poller: &poller,
                page,
                facts: &facts,
                at,
                learned,
            };
            let (outcome, row) = writer.in_batch(poller.route, |batch| arrival.store(batch))?;
            writer.known.insert(poller, row);
            Ok(outcome)
        })
        .await
    }

    /// Sets the fields of each route whose changes do not count as a change of a record. The mirror
    /// keeps such a field as it was when the record last changed in another one.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn ignore_fields(
        &self,
        ignored: HashMap<Route, Vec<String>>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.ignored = ignored;
            Ok(())
        })
        .await
    }

    /// Stores what a customer search found; see [`Search`]. Proves nothing about contiguity and
    /// touches no poller.
    ///
    /// # Errors
    /// Nothing of it is stored.
    pub async fn store_found(&self, search: Search) -> Result<SearchOutcome, StoreError> {
        self.write(move |writer| {
            writer.refuse_replaced_file()?;
            let route = Route::Customers;
            let page = &search.page;
            writer.in_batch(route, |batch| {
                let (tx, ignored) = (batch.tx, batch.ignored);
                let mut diff =
                    compare::compare(tx, route, None, page, search.asked_after, ignored)?;
                diff.records.retain(|(place, record)| match record {
                    RecordDiff::New => true,
                    RecordDiff::Changed(stored) => {
                        stored.seq <= search.asked_after
                            && has_fields_of(page, *place, &stored.body)
                    }
                    RecordDiff::SeenByPoll => false,
                });
                let outcome = SearchOutcome {
                    created: diff.created(),
                    updated: diff.updated(),
                };
                if diff.records.is_empty() && search.backfill_term.is_none() {
                    return Ok(outcome);
                }
                let poller = PollerId {
                    route,
                    business: search.business.clone(),
                };
                let row = match batch.known.get(&poller) {
                    Some(known) => Some(known.clone()),
                    None => pollers::find(batch.tx, &poller)?,
                };
                let new = NewRecords::Found {
                    last_page: row.as_ref(),
                    old: search.kind,
                };
                let source = write::Source {
                    route,
                    business: search.business.as_deref(),
                    at: &stamp(search.at),
                    via: Some("search"),
                    is_newest: false,
                };
                write::write(batch, &source, page, &diff.records, &new)?;
                note_term(batch.tx, &search)?;
                Ok(outcome)
            })
        })
        .await
    }

    /// Keeps what the schedule learned of each poller, and writes what is only remembered.
    ///
    /// # Errors
    /// Nothing is lost by a failure but what was learned since the last write.
    pub async fn remember_learned(
        &self,
        learned: Vec<(PollerId, String)>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            for (poller, text) in learned {
                if let Some(known) = writer.known.get_mut(&poller) {
                    known.learned = Some(text);
                }
            }
            writer.save_memory()
        })
        .await
    }

    /// Takes the field that the configuration names; `None` lets it be found in the data.
    ///
    /// # Errors
    /// If the file cannot be written; the links stay as they were.
    pub async fn link_jobs(&self, field: Option<String>) -> Result<(), StoreError> {
        self.write(move |writer| {
            // If the file cannot be written now, a later page takes it.
            writer.job_link = field;
            let tx = write_tx(&mut writer.connection)?;
            if !job_links::look(&tx, writer.job_link.as_deref())? {
                return Ok(());
            }
            views::refresh(&tx)?;
            job_states::rebuild(&tx)?;
            Ok(tx.commit()?)
        })
        .await
    }
}

/// A page on its way into the store.
struct Arrival<'a> {
    poller: &'a PollerId,
    page: Page,
    facts: &'a PollFacts,
    at: String,
    /// What the schedule has learned of the poller, as its own text; `None` without a schedule.
    learned: Option<String>,
}

impl Arrival<'_> {
    /// What became of the page, and what its poller knows now.
    fn store(self, batch: &mut Batch<'_>) -> Result<(PageOutcome, PollerRow), StoreError> {
        let before = batch.known.get(self.poller).cloned();
        let stale_before = before.as_ref().map_or(0, |row| row.stale_pages);
        let Self {
            poller,
            page,
            facts,
            ..
        } = &self;
        let mut diff = compare::compare(
            batch.tx,
            poller.route,
            before.as_ref(),
            page,
            facts.asked_after,
            batch.ignored,
        )?;
        let is_stale = stale_before < MAX_STALE_PAGES
            && before.as_ref().is_some_and(|row| is_older(page, row))
            // A page of edits may lack the newest record.
            && diff.records.len() * 2 < page.records().len();
        let stale_pages = if is_stale { stale_before + 1 } else { 0 };
        if is_stale {
            diff.records.retain(|(_, diff)| *diff == RecordDiff::New);
        }
        let mirrored = match &before {
            None => last_read(batch.tx, poller)?,
            Some(_) => None,
        };
        let proof = self.proof(&diff, before.as_ref(), mirrored.as_ref(), is_stale);
        let mut outcome = PageOutcome {
            unchanged: before.is_some() && diff.records.is_empty() && proof.contiguity.is_proven(),
            contiguity: proof.contiguity,
            records: page.records().len(),
            created: diff.created(),
            updated: diff.updated(),
            gap: None,
        };
        if let Some(row) = &before
            && page.records().is_empty()
            && proof.contiguity == Contiguity::Suspect
        {
            // The previous page stays what the next one is judged by.
            outcome.unchanged = true;
            let emptied_at = row.emptied_at.clone().or(Some(self.at.clone()));
            let row = PollerRow {
                emptied_at,
                stale_pages,
                ..row.clone()
            };
            self.save(batch, &outcome, &row)?;
            return Ok((outcome, row));
        }
        let row = match &before {
            Some(row) if is_stale => row.clone(),
            _ => self.next_row(before.as_ref(), mirrored.as_ref(), &diff),
        };
        if !proof.contiguity.is_proven() {
            let last = before.as_ref().or(mirrored.as_ref());
            // Before the records of the page, so that a reader of the log sees the gap first.
            let identity = batch.identities.first();
            outcome.gap = gaps::record(batch.tx, identity, poller, last, &proof, &self.at)?;
        }
        let new = self.new_records(&proof, before.as_ref(), mirrored.as_ref());
        let source = write::Source {
            route: poller.route,
            business: poller.business.as_deref(),
            at: &self.at,
            via: None,
            is_newest: !is_stale,
        };
        write::write(batch, &source, page, &diff.records, &new)?;
        let is_later = !is_stale && !before.as_ref().is_some_and(|row| diff.is_last_page(row));
        let head_seq = if is_later {
            log::last_seq(batch.tx)?
        } else {
            row.head_seq
        };
        let row = PollerRow {
            head_seq,
            stale_pages,
            ..row
        };
        self.save(batch, &outcome, &row)?;
        Ok((outcome, row))
    }

    fn proof(
        &self,
        diff: &PageDiff,
        before: Option<&PollerRow>,
        mirrored: Option<&PollerRow>,
        is_stale: bool,
    ) -> Proof {
        // A full page that shows a record twice is full, although it has fewer records than its
        // limit.
        let limit = (self.facts.limit as usize).saturating_sub(self.page.duplicates());
        let previous = before.map(|row| PreviousPage::new(&row.head, row.high_id));
        let proof = contiguity::classify(previous.as_ref(), &diff.sightings, limit);
        match mirrored {
            _ if is_stale => Proof {
                contiguity: Contiguity::Stale,
                ..proof
            },
            // Another poller read the route before: nothing shows what lies between its last page
            // and this. A page that is not full is the whole list.
            Some(_) if diff.sightings.len() >= limit => Proof {
                contiguity: Contiguity::Suspect,
                ..proof
            },
            _ => proof,
        }
    }

    fn new_records<'r>(
        &self,
        proof: &Proof,
        before: Option<&PollerRow>,
        mirrored: Option<&'r PollerRow>,
    ) -> NewRecords<'r> {
        let Some(row) = before else {
            return NewRecords::FirstPage {
                read_before: mirrored,
            };
        };
        let grew = i64::from(self.facts.limit) > row.page_limit;
        let shared = |id: &RecordId| row.head.iter().any(|known| known == id.as_str());
        let last_shared = self.page.records().iter().rposition(|r| shared(&r.id));
        NewRecords::NextPage {
            high_id: row.high_id,
            last_shared: last_shared.filter(|_| grew && proof.contiguity.is_proven()),
        }
    }

    /// Saves the poller's row, unless the stored one serves a restart as well.
    fn save(
        &self,
        batch: &Batch<'_>,
        outcome: &PageOutcome,
        row: &PollerRow,
    ) -> Result<(), StoreError> {
        let before = batch.known.get(self.poller);
        let is_written = !outcome.unchanged
            || before.is_none_or(|before| {
                let ids = |row: &PollerRow| row.head.iter().cloned().collect::<BTreeSet<_>>();
                before.emptied_at != row.emptied_at
                    || before.served_business != row.served_business
                    || ids(before) != ids(row)
            });
        if !is_written {
            return Ok(());
        }
        pollers::save(batch.tx, self.poller, row)?;
        if let Some(before) = before {
            sightings::note(batch.tx, self.poller, before, &row.head)?;
        }
        Ok(())
    }

    fn next_row(
        &self,
        before: Option<&PollerRow>,
        mirrored: Option<&PollerRow>,
        diff: &PageDiff,
    ) -> PollerRow {
        let Self {
            poller,
            page,
            facts,
            at,
            learned,
        } = self;
        // A record that is undecided proves nothing for the next page.
        let head = (0..)
            .zip(page.records())
            .filter(|(place, _)| !diff.undecided.contains(place))
            .map(|(_, record)| record.id.as_str().to_owned());
        PollerRow {
            route: poller.route.as_str().to_owned(),
            business: poller.business.clone(),
            first_polled_at: before.map_or(at, |row| &row.first_polled_at).clone(),
            // Of another business nothing is known.
            complete_since: match before
                .or(mirrored.filter(|row| row.is_of(facts.served_business.as_deref())))
            {
                Some(row) => row.complete_since.clone(),
                None => (page.records().len() >= facts.limit as usize).then(|| at.clone()),
            },
            last_success_at: facts.asked_at(),
            emptied_at: None,
            high_id: next_high_id(before, page),
            page_limit: i64::from(facts.limit),
            learned: learned
                .clone()
                .or_else(|| before.and_then(|row| row.learned.clone())),
            served_business: facts
                .served_business
                .clone()
                .or_else(|| before.and_then(|row| row.served_business.clone())),
            head: head.collect(),
            head_seq: before.map_or(0, |row| row.head_seq),
            stale_pages: 0,
        }
    }
}

/// The poller that read a new poller's list last, as far as is known; `None` for the first one, and
/// for a business that is added to others.
fn last_read(connection: &Connection, poller: &PollerId) -> rusqlite::Result<Option<PollerRow>> {
    let rows = pollers::list(connection)?.into_iter();
    let rows = rows.filter(|row| row.route == poller.route.as_str());
    let last = rows.max_by(|a, b| a.last_success_at.cmp(&b.last_success_at));
    Ok(last.filter(|row| match (&poller.business, &row.business) {
        (Some(name), None) => row
            .served_business
            .as_ref()
            .is_none_or(|served| served == name),
        (named, _) => named.is_none(),
    }))
}

/// Whether the newest record of a page is older than that of the page before, as a server shows it
/// whose data lags behind another one's. Nothing shows it unless ids are integers.
fn is_older(page: &Page, before: &PollerRow) -> bool {
    let before = highest(before.head.iter().map(|id| id.parse().ok()));
    highest_id(page)
        .zip(before)
        .is_some_and(|(newest, before)| newest < before)
}

fn highest_id(page: &Page) -> Option<i64> {
    highest(page.records().iter().map(|record| record.id.as_integer()))
}

/// The highest of ids. Once one of them is no integer, the highest integer would no longer be the
/// last id.
fn highest(ids: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    ids.collect::<Option<Vec<i64>>>()?.into_iter().max()
}

/// The highest id known after a page, while ids are integers.
fn next_high_id(before: Option<&PollerRow>, page: &Page) -> Option<i64> {
    let before = before.and_then(|row| row.high_id);
    if page.records().is_empty() {
        return before;
    }
    before.max(Some(highest_id(page)?))
}

/// Notes the term of a backfill and how many records it returned.
fn note_term(tx: &Connection, search: &Search) -> rusqlite::Result<()> {
    let Some(term) = &search.backfill_term else {
        return Ok(());
    };
    let returned = i64::try_from(search.page.records().len()).unwrap_or(i64::MAX);
    tx.run(
        "INSERT OR REPLACE INTO _backfill_terms (business, term, returned, asked_at) VALUES (?1, ?2, ?3, ?4)",
        (search.business.as_deref().unwrap_or(""), term, returned, stamp(search.at)),
    )?;
    Ok(())
}

/// Whether a record is shown with the fields it is known by. Absent values are null and their field
/// is present (contract, "Data conventions"). A record with other fields is shown in another shape
/// than a poll shows it in, which says nothing about what changed.
fn has_fields_of(page: &Page, place: usize, known: &str) -> bool {
    let shown = page.fields(&page.records()[place]);
    Fields::of(known).is_some_and(|known| {
        known.len() == shown.len() && known.iter().all(|(name, _)| shown.get(name).is_some())
    })
}

#[cfg(test)]
mod tests;
