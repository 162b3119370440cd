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
mod checkpoint;
mod deliveries;
mod error;
#[cfg(test)]
mod fixtures;
mod forget;
mod forms;
mod full_text;
mod gaps;
mod handle;
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
mod sightings;
mod sink_state;
mod sinks;
mod spending;
mod state_topics;
mod time_zone;
mod verify;
mod views;
mod workspace;
mod writer;

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
pub use handle::Store;
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
