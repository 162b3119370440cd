//! The store: one SQLite file that holds the mirror, the log, the gaps and the positions.
//!
//! It is the only meeting point of polling and delivery, and the only history there is. One
//! connection writes, inside `BEGIN IMMEDIATE`; every call leaves the async threads in one place,
//! the module `handle`. A failed write stores nothing.

mod attempts;
mod custom_fields;
mod customers;
mod error;
#[cfg(test)]
pub(crate) mod fixtures;
mod gaps;
mod handle;
mod identity;
mod ingest;
mod list_query;
mod log;
mod maintenance;
mod meta;
mod mirror;
mod missed;
mod open;
mod operator;
mod outbox;
mod place;
mod pollers;
mod query;
mod reader;
mod schema;
mod search_index;
mod sightings;
mod sql;
mod time_zone;
mod withheld;
mod workspace;
mod writer;

pub use attempts::{Attempt, RouteRest};
pub use error::StoreError;
pub use gaps::{Certainty, Gap, GapState};
pub use handle::Store;
pub use ingest::{
    CompleteImport, Import, ImportOutcome, PageOutcome, PollFacts, Search, SearchOutcome,
};
pub use list_query::{Filter, FilterWay, ListError, ListQuery, PageKey, Sort};
pub use maintenance::Upkeep;
#[cfg(feature = "s3")]
pub use maintenance::archive::{
    ArchiveError, ArchiveFiles, ArchiveKey, ArchiveTexts, read as read_archive,
};
pub use maintenance::backup::{CopyControl, CopyFacts, back_up};
pub use maintenance::backup_folder::{BackupFile, BackupFolder};
pub use maintenance::forget::Forgotten;
#[cfg(feature = "s3")]
pub use maintenance::offsite::{OffsiteBackup, OffsiteBackups, OffsiteError};
pub use mirror::browse::{RecordColumn, RecordColumnKind, RecordList, RecordSelect};
pub use mirror::field_rules::{FieldRule, FieldStatus};
pub use mirror::history::RecordHistory;
pub use mirror::job_links::{JobLink, missing_link};
pub use mirror::job_states::JobState;
pub use mirror::job_words::JobWords;
pub use mirror::word_fields::FieldSource;
pub use missed::Stretch;
pub use open::{holder, refuse_stale_log};
pub use operator::Operator;
pub use outbox::alerts::{AlertRow, AlertStep};
pub use outbox::notices::{NewNotice, NoticeCounts};
pub use outbox::rows::{
    Acknowledged, Feed, LatestDue, QueueLane, QueueRow, RemovalReason, RowState, Settlement,
};
pub use place::{StorePlace, begin_again};
pub use pollers::PollerRow;
pub use query::{QueryError, QueryLimits, QueryReads, QueryRows, ReportDay};
pub use rusqlite::types::Value as SqlValue;
pub use search_index::{Found, IndexProgress, SearchIndex, index_log};

pub use maintenance::rebuild::{Rebuilt, rebuild};
pub use maintenance::restore::{Restored, restore, restore_beside};
pub use maintenance::verify::VerifyFinding;
pub use meta::MetaKey;
pub use mirror::related::RelatedRecord;
pub use mirror::reread::Reread;
pub use mirror::views::{compared, number_sql};
pub use outbox::replays::{Replay, ReplayChoice, ReplayState};
pub use outbox::sinks::{Begin, GateState, SinkRow, SinkState};
pub use reader::Reader;
pub use withheld::Withheld;
pub use workspace::{Acceptance, OtherWorkspace, StoredWorkspace, judge_workspace};

pub use shopmirror_core::contiguity::Contiguity;

#[cfg(test)]
mod tests;
