//! The rows of a sink's queue, and what becomes of them, as values.

use rusqlite::types::{ToSql, ToSqlOutput};
use serde::{Deserialize, Serialize};
use shopmirror_core::record::MadeRecord;

/// What a row is about. Rows of a lower lane go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "i64")]
pub enum QueueLane {
    /// An alert or a report of this program.
    Notice = 0,
    /// A change that the destination has lost.
    Refill = 1,
    /// A change.
    Change = 2,
    /// An older change that an operator sends once more.
    Replay = 3,
}

/// What happens next to a row of a sink's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RowState {
    /// Ready to send.
    Ready,
    /// It is sent again at `due_at`.
    Retrying,
    /// It waits until an earlier change of the same record is delivered or dead.
    Waiting,
    /// The sink refused it for good; only `shopmirror sinks NAME redrive` or `drop` changes that.
    Dead,
}

impl RowState {
    /// Its word in the table and in JSON: `retrying`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One row: something that a sink has not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// What it is about.
    #[serde(skip_serializing)]
    pub lane: QueueLane,
    /// The change's number in the log.
    pub seq: i64,
    /// The route of its record.
    pub route: String,
    /// The record's id; empty for a gap.
    pub record_id: String,
    /// What happens next.
    pub state: RowState,
    /// How often the sink refused it.
    pub attempts: i64,
    /// How often the destination failed when it was given this change.
    pub faults: i64,
    /// When the next attempt is due; absent if none was made or none follows. While the row is
    /// `waiting`, an earlier one may come after that time.
    pub due_at: Option<String>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// What the receiver said with it: not our words.
    pub last_error_quotation: Option<String>,
    /// When it was queued.
    pub since: String,
    /// It is sent only while the sink has no newer version of its record.
    #[serde(skip_serializing)]
    pub only_if_newest: bool,
}

impl QueueRow {
    /// Its key within the sink.
    #[must_use]
    pub fn key(&self) -> (QueueLane, i64) {
        (self.lane, self.seq)
    }

    /// What order is kept for; `None` for a gap, which belongs to no record and may pass any
    /// change.
    #[must_use]
    pub fn record(&self) -> Option<(&str, &str)> {
        (!self.record_id.is_empty()).then_some((self.route.as_str(), self.record_id.as_str()))
    }
}

/// Rows to queue, and what moves with them in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// Their lane.
    pub lane: QueueLane,
    /// The position from which they were read. If it is another meanwhile, nothing is queued.
    pub after: i64,
    /// The new position.
    pub upto: i64,
    /// The changes, by their numbers.
    pub rows: Vec<i64>,
    /// Rows between the positions that are not for the sink.
    pub unwanted: i64,
    /// Whether each is sent only while the sink has no newer version of its record.
    pub only_if_newest: bool,
    /// When this is.
    pub at: String,
}

/// The latest times for which an attempt can be planned now, by the number of refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestDue {
    /// After a refusal.
    pub refused: Vec<String>,
    /// After a fault of the destination.
    pub failed: Vec<String>,
}

/// Why a row leaves the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// The sink acknowledged it.
    Delivered,
    /// The sink refused it, and nothing waits for it.
    Refused,
    /// The sink has a newer version of the record, or the change is no longer in the log.
    LeftOut,
}

/// The rows of the log that a destination was given: those after one row, up to another. It is
/// saved with the progress of the sink in one transaction. A destination that holds less has lost
/// something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Acknowledged {
    /// It was given nothing up to this row.
    #[serde(rename = "given_after")]
    pub after: i64,
    /// It acknowledged what it was given up to this row.
    #[serde(rename = "given_upto")]
    pub upto: i64,
}

/// What became of rows that were sent; saved in one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Rows that leave the queue.
    pub gone: Vec<(QueueRow, RemovalReason)>,
    /// Rows that stay, with what is new about them.
    pub kept: Vec<QueueRow>,
    /// A fault or a refusal to be shown with the sink.
    pub last_error: Option<String>,
    /// What the receiver said with it: not our words.
    pub last_error_quotation: Option<String>,
    /// Whether the sink is to be disabled.
    pub disable: bool,
    /// The new acknowledged range, for sinks that track one.
    pub acknowledged: Option<Acknowledged>,
    /// What the sink is to remember, if that changed.
    pub mark: Option<String>,
    /// What the changes became in another workspace.
    pub made: Vec<MadeRecord>,
    /// What moves the position over changes that had no row of the queue. Those that it names are
    /// queued, because they are not done.
    pub fed: Option<Feed>,
}

impl Settlement {
    /// Whether there is nothing to save.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ToSql for RowState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(<&'static str>::from(self).into())
    }
}

impl ToSql for QueueLane {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok((*self as i64).into())
    }
}

impl TryFrom<i64> for QueueLane {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        [Self::Notice, Self::Refill, Self::Change, Self::Replay]
            .into_iter()
            .find(|lane| *lane as i64 == number)
            .ok_or("there is no such lane")
    }
}
