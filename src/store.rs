//! The store: one SQLite file that holds the mirror, the log, the ledger and the positions.
//!
//! It is the only meeting point of polling and delivery, and the only history there is. One
//! connection writes, inside `BEGIN IMMEDIATE`; every call leaves the async threads in one place, the
//! module `calls`. A failed write stores nothing.

mod acknowledged;
mod alerts;
mod backup;
mod backup_error;
mod backup_folder;
mod browse;
mod calls;
mod checkpoint;
mod deliveries;
mod error;
#[cfg(test)]
mod fixtures;
mod forget;
mod forms;
mod full_text;
mod gaps;
mod history;
mod identity;
mod ingest;
mod job_links;
mod job_states;
mod ledger;
mod log;
mod maintain;
mod meta;
mod mirror;
mod notices;
mod open;
mod operate;
mod passed;
mod people;
#[cfg(test)]
mod plans;
mod pollers;
mod query;
mod quotes;
mod reader;
mod rebuild;
mod related;
mod replays;
mod report_runs;
mod restore;
mod sink_state;
mod sinks;
mod spending;
mod state_topics;
mod time_zone;
mod verify;
mod views;
mod workspace;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

pub use acknowledged::Acknowledged;
pub use alerts::{AlertRow, AlertStep};
pub use backup::{CopyControl, CopyFacts, CopyProgress, back_up};
pub use backup_error::BackupError;
pub use backup_folder::{BackupFile, BackupFolder};
pub use browse::RecordPage;
pub use deliveries::{DueBy, PendingDelivery};
pub use error::{OpenError, StoreError};
pub use forget::{Forgotten, Purged, Rewritten};
pub use forms::{Form, FormChange};
pub use full_text::{Found, IndexProgress, index_log};
pub use gaps::Repairable;
pub use history::RecordHistory;
pub use ingest::{PageOutcome, PollFacts, Search, SearchOutcome};
pub use job_links::{JobLink, missing_link};
pub use ledger::{Certainty, Gap, GapState};
pub use maintain::Upkeep;
pub use mirror::MISSING_TABLE;
pub use mirror::lookup::PersonField;
pub use notices::{DueNotice, NewNotice, NoticeCounts, NoticeFate, PendingNotice};
pub use open::holder;
pub use operate::Operator;
pub use pollers::{LastPoll, PollNote, PollOutcome, PollerRow};
pub use query::{Beyond, QueryError, QueryLimits, QueryRows, ReportDay};
pub use rusqlite::types::Value as SqlValue;

pub use reader::{Reader, RecordFilter};
pub use rebuild::rebuild;
pub use related::RelatedRecord;
pub use replays::{Replay, ReplayChoice, ReplayState};
pub use report_runs::ReportRun;
pub use restore::{ForgottenSince, Restored, restore};
pub use sink_state::{DeliveryState, GateState, SinkState};
pub use sinks::{Begin, SinkProgress, SinkRow};
pub use verify::{Verification, VerifyFinding};
pub use workspace::{
    Acceptance, KnownWorkspace, OtherWorkspace, WorkspaceJudgement, judge_workspace,
};

pub use crate::contiguity::Contiguity;
use crate::record::{Page, PollerId, Route};
use passed::PassedPositions;
use writer::Writer;

struct StoreParts {
    /// `None` once closed.
    writer: Mutex<Option<Writer>>,
    reader: Mutex<Reader>,
    /// One permit each: who waits for a connection waits here and holds no thread, so that the number
    /// of threads does not grow with the number of sinks.
    write_turn: Semaphore,
    read_turn: Semaphore,
    passed: PassedPositions,
    /// Whether the store was not closed in order and is not checked since.
    is_unchecked: AtomicBool,
    is_closing: AtomicBool,
    last_seq: watch::Sender<i64>,
    /// Counts the gaps that were recorded since the store was opened.
    gaps_found: watch::Sender<u64>,
    path: PathBuf,
}

/// A handle on the open store; cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<StoreParts>,
}

impl Store {
    /// Opens or makes the store, takes its lock and brings its schema up to date. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] when the file is held, foreign, newer, damaged or out of reach; nothing is changed then.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = OpenError::sqlite(path);
        let opened = open::open(path)?;
        let is_unchecked = AtomicBool::new(!opened.was_closed);
        let writer = Writer::new(opened, path).map_err(&failed)?;
        let reader = Reader::open(path)?;
        let last = log::last_seq(&writer.connection).map_err(&failed)?;
        let shared = StoreParts {
            writer: Mutex::new(Some(writer)),
            reader: Mutex::new(reader),
            write_turn: Semaphore::new(1),
            read_turn: Semaphore::new(1),
            passed: PassedPositions::default(),
            is_unchecked,
            is_closing: AtomicBool::new(false),
            last_seq: watch::Sender::new(last),
            gaps_found: watch::Sender::default(),
            path: path.to_owned(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Stores a page in one transaction: mirror rows, log rows, poller state and, if the page
    /// does not prove contiguity, a gap. A page that shows nothing new writes nothing. `learned` is
    /// what the schedule learned of the poller, as its own text, if it is to be saved.
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
        let stored =
            self.write(move |writer| ingest::store_page(writer, &poller, page, &facts, learned));
        let outcome = stored.await?;
        if outcome.gap.is_some() {
            self.shared.gaps_found.send_modify(|gaps| *gaps += 1);
        }
        Ok(outcome)
    }

    /// Sets the fields of each route whose changes do not count as a change of a record. The mirror keeps
    /// such a field as it was when the record last changed in another one.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn ignore_fields(
        &self,
        ignored: HashMap<Route, Vec<String>>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.set_ignored(ignored);
            Ok(())
        })
        .await
    }

    /// Notes a poll whose body is the poller's previous page byte for byte. Returns `None` if it is
    /// not, or if a write is under way; the caller then decodes the body and calls
    /// [`Self::store_page`]. Never waits and never touches the disk.
    #[must_use]
    pub fn note_unchanged(
        &self,
        poller: &PollerId,
        body: &[u8],
        facts: &PollFacts,
    ) -> Option<PageOutcome> {
        let mut guard = self.shared.writer.try_lock().ok()?;
        let writer = guard.as_mut()?;
        if writer.pending.is_full() {
            return None;
        }
        ingest::note_unchanged(writer, poller, body, facts)
    }

    /// Stores what a customer search found; see [`Search`]. Proves nothing about contiguity and
    /// touches no poller.
    ///
    /// # Errors
    /// Nothing of it is stored.
    pub async fn store_found(&self, search: Search) -> Result<SearchOutcome, StoreError> {
        self.write(move |writer| ingest::store_found(writer, &search)).await
    }

    /// Remembers up to which row of the log a gap's records were searched for, and with how many searches.
    ///
    /// # Errors
    /// Nothing is stored; the searches are repeated.
    pub async fn gap_searched(&self, id: i64, seq: i64, searches: i64) -> Result<(), StoreError> {
        self.write(move |writer| Ok(gaps::searched(&writer.connection, id, seq, searches)?)).await
    }

    /// Remembers a poll that failed; it is written with the next thing that is.
    ///
    /// # Errors
    /// Only when the store is closing.
    pub async fn note_failed_poll(
        &self,
        poller: PollerId,
        note: PollNote,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.pending.add(&poller, note);
            if writer.pending.is_full() { writer.flush() } else { Ok(()) }
        })
        .await
    }

    /// Writes what has only been remembered so far: polls that changed nothing.
    ///
    /// # Errors
    /// Nothing is lost by a failure; it is tried again.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.write(Writer::flush).await
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
                    known.row.learned = Some(text);
                }
            }
            writer.save_memory()
        })
        .await
    }

    /// Writes a few pages that say nothing, to learn whether the disk takes them.
    ///
    /// # Errors
    /// [`StoreError::Full`] as long as it does not.
    pub async fn try_write(&self) -> Result<(), StoreError> {
        self.write(|writer| {
            writer.refuse_long_wal()?;
            writer.connection.execute(
                "INSERT OR REPLACE INTO _meta (name, value) VALUES ('room', hex(randomblob(4096)))",
                [],
            )?;
            Ok(())
        })
        .await
    }

    /// One bounded step of upkeep: retention, unless the time is not known, and a checkpoint.
    ///
    /// # Errors
    /// A checkpoint that cannot write is an error of the disk, and ends the process.
    pub async fn upkeep(
        &self,
        now: Option<Timestamp>,
        retention: Duration,
    ) -> Result<Upkeep, StoreError> {
        self.write(move |writer| maintain::step(writer, now, retention)).await
    }

    /// The number of the last row of the log; to be noted with each question to the workspace, so
    /// that its response does not overwrite what was stored since.
    #[must_use]
    pub fn seq(&self) -> i64 {
        *self.shared.last_seq.borrow()
    }

    /// The number of the last row of the log, and a wake-up whenever it grows.
    #[must_use]
    pub fn last_seq(&self) -> watch::Receiver<i64> {
        self.shared.last_seq.subscribe()
    }

    /// A wake-up whenever a page has recorded a gap.
    #[must_use]
    pub fn gaps_found(&self) -> watch::Receiver<u64> {
        self.shared.gaps_found.subscribe()
    }
}
