//! Storing records: the page of a poll, what a search has found, or a part of a file that an
//! operator imports.
//!
//! All enter by one door, [`ingest`], which reads from top to bottom: compare the records with the
//! store, decide what the page proves, what each record becomes and which ones are gone from the
//! list, and commit all of it in one transaction, or nothing. A page that changes nothing writes
//! nothing. A search and an import prove nothing and touch no poller.

mod classify;
mod commit;
pub(super) mod compare;
mod import;
mod list;
pub(super) mod memory;
mod next_row;
mod prove;
mod vanish;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;
use shopmirror_core::contiguity::Contiguity;
use shopmirror_core::record::{Kind, Page, PollerId, Route};

use super::error::StoreError;
use super::gaps::Gap;
use super::handle::Store;
use super::identity::Identities;
use super::open::write_tx;
use super::pollers::PollerRow;
use super::writer::{Writer, ignored_fields};
use crate::store::mirror::{job_links, job_states, views};
use classify::Decisions;
use compare::Comparison;
pub use import::{CompleteImport, Import, ImportOutcome};
use list::List;
use memory::{Memory, PollerMemory};
use prove::Verdict;
use vanish::Vanished;

/// What is known of a poll beside its page.
#[derive(Debug, Clone)]
pub struct PollFacts {
    /// When the page was read.
    pub at: Timestamp,
    /// The last row of the log when the page was requested; later rows are newer than the page.
    pub asked_after: i64,
    /// Records requested.
    pub limit: u32,
    /// How old the page is: since its request, and as a cache says that it has kept it. What
    /// happened since then may be missing from it.
    pub page_age: Duration,
    /// `X-Business` of the response: the business that served it, whether it was requested or is
    /// the workspace default.
    pub served_business: Option<String>,
}

/// What storing a page changed and proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOutcome {
    /// Whether the page showed nothing new.
    pub unchanged: bool,
    /// What the page proved.
    pub contiguity: Contiguity,
    /// Records on the page as it was received.
    pub records: usize,
    /// Records stored for the first time.
    pub created: usize,
    /// Records whose meaning changed.
    pub updated: usize,
    /// Records that are gone from the list.
    pub vanished: usize,
    /// The gap that was recorded.
    pub gap: Option<Gap>,
    /// The gaps that were recorded of records that cannot be stored.
    pub left_out: Vec<Gap>,
    /// The business whose list was requested by the poller's name until now, if it is another one.
    pub served_before: Option<String>,
    /// The most records that the server shows, where it was found to be less than was requested.
    pub server_limit: Option<usize>,
    /// The same before this page.
    pub server_limit_before: Option<usize>,
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

/// Records that were shown, and what is known of the request for them.
struct Reading {
    poller: PollerId,
    page: Arc<Page>,
    /// When the response was read.
    at: Timestamp,
    /// The last row of the log when the request was sent; later rows are newer than the response.
    asked_after: i64,
    source: Source,
}

/// Where the records come from.
enum Source {
    Poll(Poll),
    Search(FoundBy),
    /// A file that an operator has, and up to when it shows its records.
    Import {
        as_of: Timestamp,
    },
}

/// How a record is found that only a search has shown, in the mirror.
const SEARCH: &str = "search";
/// The same of a record that only an import has brought.
const IMPORT: &str = "import";

/// What only a poll has.
struct Poll {
    limit: u32,
    page_age: Duration,
    served_business: Option<String>,
    /// What the schedule learned of the poller, as its own text; `None` without a schedule.
    learned: Option<String>,
}

/// What only a search has.
struct FoundBy {
    /// The kind of a customer that is stored for the first time and that no gap can have hidden.
    kind: Kind,
    backfill_term: Option<String>,
}

impl Reading {
    /// When the page was requested, or made if a cache kept it. The poller is known to be complete
    /// up to then, not up to the time at which the page was read.
    fn current_at(&self, page_age: Duration) -> String {
        stamp(self.at.checked_sub(page_age).unwrap_or(self.at))
    }
}

/// What every step reads.
struct Ingest<'a> {
    tx: Transaction<'a>,
    reading: &'a Reading,
    /// What the poller saw last; `None` before its first page.
    before: Option<&'a PollerMemory>,
    /// The list that the poller reads.
    list: &'a List,
    memory: &'a Memory,
    identities: &'a Identities,
    /// The fields whose changes alone are no change of a record.
    ignored: &'a [String],
}

/// What the steps before the last one found.
#[derive(Clone, Copy)]
struct Found<'a> {
    comparison: &'a Comparison,
    verdict: &'a Verdict,
    decisions: &'a Decisions<'a>,
    vanished: &'a Vanished,
}

impl Ingest<'_> {
    /// The row of the poller that read the list until now, as far as is known.
    fn last_row(&self) -> Option<&PollerRow> {
        match self.before {
            Some(before) => Some(&before.row),
            None => self.list.maybe.as_ref(),
        }
    }
}

/// Stores what was shown, or nothing of it.
fn ingest(writer: &mut Writer, reading: &Reading) -> Result<PageOutcome, StoreError> {
    writer.refuse_long_wal()?;
    let tx = write_tx(&mut writer.connection)?;
    writer.memory.notice_other_writers(&tx)?;
    writer.memory.load_route(&tx, reading.poller.route)?;
    let list = list::find(&tx, &writer.memory, reading)?;
    let ingest = Ingest {
        tx,
        reading,
        list: &list,
        before: match &list.poller {
            Some(poller) => writer.memory.poller(poller),
            None => None,
        },
        memory: &writer.memory,
        identities: &writer.identities,
        ignored: ignored_fields(&writer.ignored, reading.poller.route),
    };

    let server_limit_before = match ingest.before {
        Some(before) => before.row.profile.lengths.server_limit(),
        None => None,
    };
    let comparison = compare::compare(&ingest)?;
    let verdict = prove::prove(&ingest, &comparison);
    let decisions = classify::classify(&ingest, &comparison, &verdict)?;
    let vanished = vanish::vanish(&ingest, &comparison, &verdict, &decisions)?;
    let found = Found {
        comparison: &comparison,
        verdict: &verdict,
        decisions: &decisions,
        vanished: &vanished,
    };
    let committed = commit::commit(ingest, &found, &mut writer.views)?;

    let outcome = PageOutcome {
        unchanged: decisions.is_unchanged && vanished.marked.is_empty(),
        contiguity: verdict.proof.contiguity,
        records: reading.page.records().len() + reading.page.left_out().len(),
        created: decisions.created(),
        updated: decisions.updated(),
        vanished: vanished.marked.len(),
        gap: committed.gap.clone(),
        left_out: committed.left_out.clone(),
        served_before: list.set_aside.clone(),
        server_limit: verdict.profile.lengths.server_limit(),
        server_limit_before,
    };
    writer
        .memory
        .end_candidates(&vanished, reading.poller.route);
    writer
        .memory
        .remember(reading, list, &comparison, committed);
    Ok(outcome)
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
        page: impl Into<Arc<Page>>,
        facts: PollFacts,
        learned: Option<String>,
    ) -> Result<PageOutcome, StoreError> {
        let reading = Reading {
            poller,
            page: page.into(),
            at: facts.at,
            asked_after: facts.asked_after,
            source: Source::Poll(Poll {
                limit: facts.limit,
                page_age: facts.page_age,
                served_business: facts.served_business,
                learned,
            }),
        };
        self.write(move |writer| ingest(writer, &reading)).await
    }

    /// Stores what a customer search found; see [`Search`]. Proves nothing about contiguity and
    /// touches no poller.
    ///
    /// # Errors
    /// Nothing of it is stored.
    pub async fn store_found(&self, search: Search) -> Result<SearchOutcome, StoreError> {
        let reading = Reading {
            poller: PollerId {
                route: Route::Customers,
                business: search.business,
            },
            page: search.page.into(),
            at: search.at,
            asked_after: search.asked_after,
            source: Source::Search(FoundBy {
                kind: search.kind,
                backfill_term: search.backfill_term,
            }),
        };
        let stored = self.write(move |writer| ingest(writer, &reading)).await?;
        Ok(SearchOutcome {
            created: stored.created,
            updated: stored.updated,
        })
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
            // What means the same may be another one now.
            writer.memory.drop_versions();
            Ok(())
        })
        .await
    }

    /// Stores what the schedule learned of each poller, and writes what is only in memory.
    ///
    /// # Errors
    /// Nothing is lost by a failure but what was learned since the last write.
    pub async fn remember_learned(
        &self,
        learned: Vec<(PollerId, String)>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            for (poller, text) in learned {
                writer.memory.set_learned(&poller, text);
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
            writer.views.job_link = field;
            let tx = write_tx(&mut writer.connection)?;
            if !job_links::refresh(&tx, writer.views.job_link.as_deref())? {
                return Ok(());
            }
            views::refresh(&tx)?;
            job_states::rebuild(&tx)?;
            Ok(tx.commit()?)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
