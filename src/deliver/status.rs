//! The status of a sink, for people and tools.

use serde::{Deserialize, Serialize};

use crate::store::{NoticeCounts, Replay, SinkRow};

/// What a sink is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SinkActivity {
    /// It takes changes.
    Active,
    /// The endpoint failed; the next attempt is at `next_attempt_s`.
    Paused,
    /// It refuses everything that it is given.
    Refusing,
    /// Too many changes were refused; it takes no new ones.
    Holding,
    /// Too many changes came at once; an operator has to release them.
    Held,
    /// The endpoint returned 410; the changes are kept.
    Disabled,
    /// No daemon runs.
    Stopped,
}

impl SinkActivity {
    /// Its word in JSON and in tables: `paused`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The status of a sink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SinkStatus {
    /// The sink's name.
    pub name: String,
    /// The type in the configuration, for example `webhook` or `file`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What it is doing.
    pub state: SinkActivity,
    /// The changes up to this row of the log were acknowledged, are queued, or were not asked for.
    pub position: i64,
    /// Changes that the sink asked for and does not have yet, with those being retried.
    pub backlog: i64,
    /// Changes delivered since the sink was first opened.
    pub delivered: i64,
    /// Changes of the backlog that are being retried, or that wait for one that is.
    pub retrying: i64,
    /// Changes refused for good; they are not in the backlog.
    pub dead: i64,
    /// Changes up to the position that the sink did not ask for.
    pub filtered: i64,
    /// Changes before its beginning, changes that were dropped, and changes that were no longer in
    /// the log.
    pub skipped: i64,
    /// The replay that is under way, or the last one.
    pub replay: Option<Replay>,
    /// Alerts and reports that the sink has not taken; they are no changes.
    pub notices: NoticeCounts,
    /// Seconds until the next attempt while paused.
    pub next_attempt_s: Option<f64>,
    /// The last fault.
    pub last_error: Option<String>,
    /// What the receiver said with it: not our words.
    pub last_error_quotation: Option<String>,
}

impl SinkStatus {
    /// The status of a sink according to its row; `backlog` has only what is
    /// being retried until the rest is counted.
    #[must_use]
    pub fn from_row(row: SinkRow, state: SinkActivity) -> Self {
        Self {
            name: row.name,
            type_name: row.type_name,
            state,
            position: row.position,
            backlog: row.retrying,
            delivered: row.delivered,
            retrying: row.retrying,
            dead: row.dead,
            filtered: row.filtered,
            skipped: row.skipped,
            replay: None,
            notices: NoticeCounts::default(),
            next_attempt_s: None,
            last_error: row.last_error,
            last_error_quotation: row.last_error_quotation,
        }
    }
}
