//! The table `_replays`: which older changes a sink is given once more, and how far it has come.
//!
//! A sink has at most one. It is kept after its end until the next one begins, so that its outcome
//! can be read. Nothing here touches the position or the counters of the sink.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::operate::Operator;
use crate::store::reader::Reader;

/// What became of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// It is under way, or waits for the daemon.
    Running,
    /// Every change of its range was handed over.
    Done,
    /// An operator ended it.
    Cancelled,
    /// It got nowhere for too long and was given up.
    Failed,
}

/// Which changes of the range are given to the sink; an empty list means what the sink asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayChoice {
    /// The names of routes.
    pub routes: Vec<String>,
    /// The names of kinds.
    pub kinds: Vec<String>,
    /// Fields of the record and the value that each must have.
    pub wheres: Vec<(String, String)>,
    /// Also versions that are older than the newest one that the sink got.
    pub all_versions: bool,
}

/// One replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Replay {
    /// The sink's name.
    pub sink: String,
    /// Tells it apart from an earlier one of the same sink.
    pub id: String,
    /// The range begins after this row of the log.
    pub from_seq: i64,
    /// The last row of the range.
    pub to_seq: i64,
    /// Which changes of it.
    pub choice: ReplayChoice,
    /// The most changes per second.
    pub rate: f64,
    /// The last row that is done with.
    pub position: i64,
    /// Changes that the sink has taken.
    pub sent: i64,
    /// Changes that it refused.
    pub refused: i64,
    /// Changes that were left out: parked ones, and versions that are older than what the sink has.
    pub left_out: i64,
    /// What became of it.
    pub state: ReplayState,
    /// The last refusal or fault.
    pub last_error: Option<String>,
    /// Since when its next change fails; absent while it goes on.
    #[serde(default)]
    pub failing_since: Option<String>,
    /// For how long the daemon has run since then.
    #[serde(skip)]
    pub failing_for: Duration,
    /// When it was begun.
    pub begun_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

const SELECT: &str = "SELECT sink, id, from_seq, to_seq, wanted, rate, position, sent, refused, left_out, state, \
     last_error, begun_at, ended_at, failing_since, failing_for_ms FROM _replays";

const BEGIN: &str = "INSERT OR REPLACE INTO _replays (sink, id, from_seq, to_seq, wanted, rate, position, state, begun_at) \
     VALUES (?1, lower(hex(randomblob(8))), ?2, ?3, ?4, ?5, ?2, 'running', ?6)";

const SAVE: &str = "UPDATE _replays SET position = ?3, sent = ?4, refused = ?5, left_out = ?6, state = ?7, \
     last_error = ?8, ended_at = ?9, failing_since = ?10, failing_for_ms = ?11 WHERE sink = ?1 AND id = ?2 AND state = 'running'";

const CANCEL: &str = "UPDATE _replays SET state = 'cancelled', ended_at = ?2 WHERE sink = ?1 AND state IN ('running', 'failed')";

impl ReplayState {
    /// The word in the store, which is also shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    fn of(word: &str) -> Self {
        let all = [Self::Running, Self::Done, Self::Failed];
        all.into_iter().find(|state| state.as_str() == word).unwrap_or(Self::Cancelled)
    }
}

impl Replay {
    /// Whether it is shown with its sink: it is under way, or an operator has to do something.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        matches!(self.state, ReplayState::Running | ReplayState::Failed) || self.may_leave_older()
    }

    /// Whether records may be in an older state at the receiver than before: older versions were sent,
    /// and not every newer one after them. What was under way at the end counts nowhere.
    #[must_use]
    pub fn may_leave_older(&self) -> bool {
        let is_short = match self.state {
            ReplayState::Running => false,
            ReplayState::Done => self.refused > 0,
            ReplayState::Cancelled | ReplayState::Failed => true,
        };
        self.choice.all_versions && is_short
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Replay> {
    let choice: String = row.get(4)?;
    let state: String = row.get(10)?;
    Ok(Replay {
        sink: row.get(0)?,
        id: row.get(1)?,
        from_seq: row.get(2)?,
        to_seq: row.get(3)?,
        choice: serde_json::from_str(&choice).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                4,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })?,
        rate: row.get(5)?,
        position: row.get(6)?,
        sent: row.get(7)?,
        refused: row.get(8)?,
        left_out: row.get(9)?,
        state: ReplayState::of(&state),
        last_error: row.get(11)?,
        begun_at: row.get(12)?,
        ended_at: row.get(13)?,
        failing_since: row.get(14)?,
        failing_for: Duration::from_millis(row.get::<_, i64>(15)?.unsigned_abs()),
    })
}

fn find(connection: &Connection, sink: &str) -> rusqlite::Result<Option<Replay>> {
    let sql = format!("{SELECT} WHERE sink = ?1");
    connection.prepare_cached(&sql)?.query_row([sink], read).optional()
}

impl Reader {
    /// The last replay of a sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn replay(&self, sink: &str) -> Result<Option<Replay>, StoreError> {
        Ok(find(&self.connection, sink)?)
    }
}

impl Operator {
    /// Begins a replay of a sink; returns the one that is under way already, if there is one, and then
    /// changes nothing. `rows` are the last row before the range and the last row of it.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn begin_replay(
        &mut self,
        sink: &str,
        rows: (i64, i64),
        choice: &ReplayChoice,
        rate: f64,
        at: &str,
    ) -> Result<Option<Replay>, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let before = find(&tx, sink)?.filter(|replay| replay.state == ReplayState::Running);
        if before.is_none() {
            let choice = serde_json::to_string(choice).expect("a choice holds plain texts");
            tx.execute(BEGIN, (sink, rows.0, rows.1, choice, rate, at))?;
        }
        tx.commit()?;
        Ok(before)
    }

    /// Ends the replay of a sink, or lets go of one that was given up; false if there is none.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn cancel_replay(&mut self, sink: &str, at: &str) -> Result<bool, StoreError> {
        Ok(self.connection.execute(CANCEL, (sink, at))? > 0)
    }
}

impl Store {
    /// Saves how far a replay has come; false if it is no longer under way.
    ///
    /// # Errors
    /// Nothing is stored; those changes are handed over again under the same event ids.
    pub async fn save_replay(&self, replay: Replay) -> Result<bool, StoreError> {
        self.write(move |writer| {
            let values = (
                &replay.sink,
                &replay.id,
                replay.position,
                replay.sent,
                replay.refused,
                replay.left_out,
                replay.state.as_str(),
                &replay.last_error,
                &replay.ended_at,
                &replay.failing_since,
                i64::try_from(replay.failing_for.as_millis()).unwrap_or(i64::MAX),
            );
            Ok(writer.connection.prepare_cached(SAVE)?.execute(values)? > 0)
        })
        .await
    }
}
