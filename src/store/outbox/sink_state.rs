//! The states of a sink and of one delivery, stored and shown under the same words.

use rusqlite::types::{ToSql, ToSqlOutput};
use serde::{Deserialize, Serialize};

/// What the row of a sink says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkState {
    /// The sink is configured and takes changes.
    Active,
    /// The endpoint answered 410; the changes are kept.
    Disabled,
    /// The sink is no longer in the configuration.
    Removed,
}

/// Whether new changes are handed to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// They are.
    Open,
    /// Too many came at once: they wait until an operator releases or drops them.
    Held,
}

/// What happens next to a row of a sink's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// It goes in its turn.
    Ready,
    /// It is handed over again at `due_at`.
    Retrying,
    /// It waits until an earlier change of the same record is delivered or dead.
    Waiting,
    /// The sink refused it for good; only `shopmirror sinks NAME redrive` or `drop` changes that.
    Dead,
}

impl RowState {
    /// The word in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Retrying => "retrying",
            Self::Waiting => "waiting",
            Self::Dead => "dead",
        }
    }
}

impl ToSql for RowState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}
