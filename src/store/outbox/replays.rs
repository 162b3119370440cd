//! The table `_replays`: which older changes a sink is given once more, and how far it has come.
//!
//! A sink has at most one. It is kept after its end until the next one begins, so that its outcome
//! can be read. Nothing here touches the position or the counters of the sink.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::open::write_tx;
use crate::store::operate::Operator;
use crate::store::outbox::rows::Feed;
use crate::store::reader::Reader;
use crate::store::sql::{self, Sql};

/// What became of a replay.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// It is under way, or waits for the daemon.
    #[default]
    Running,
    /// Every change of its range was handed over.
    Done,
    /// An operator ended it.
    Cancelled,
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
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
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
    #[serde(deserialize_with = "sql::json")]
    pub choice: ReplayChoice,
    /// The most changes per second.
    pub rate: f64,
    /// The last row that is done with.
    pub position: i64,
    /// Changes that the sink has taken.
    pub sent: i64,
    /// Changes that it refused.
    pub refused: i64,
    /// Changes that were left out: those that are in the queue, and versions that are older than
    /// what the sink has.
    pub left_out: i64,
    /// What became of it.
    pub state: ReplayState,
    /// The last refusal or fault.
    pub last_error: Option<String>,
    /// When it was begun.
    pub begun_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

const BEGIN: &str = "INSERT OR REPLACE INTO _replays (sink, id, from_seq, to_seq, wanted, rate, position, state, begun_at) \
     VALUES (?1, lower(hex(randomblob(8))), ?2, ?3, ?4, ?5, ?2, 'running', ?6)";

const ADVANCE: &str = "UPDATE _replays SET position = ?3, left_out = left_out + ?4 \
     WHERE sink = ?1 AND position = ?2 AND state = 'running'";

const COUNT: &str = "UPDATE _replays SET sent = sent + ?2, refused = refused + ?3, left_out = left_out + ?4, \
     last_error = CASE WHEN ?3 > 0 THEN ?5 ELSE last_error END WHERE sink = ?1";

const END: &str = "UPDATE _replays SET state = 'done', ended_at = ?1 WHERE state = 'running' AND position >= to_seq \
     AND NOT EXISTS (SELECT 1 FROM _queue q WHERE q.sink = _replays.sink AND q.lane = 3)";

const CANCEL: &str =
    "UPDATE _replays SET state = 'cancelled', ended_at = ?2 WHERE sink = ?1 AND state = 'running'";

fn find(connection: &Connection, sink: &str) -> rusqlite::Result<Option<Replay>> {
    connection.row(
        "SELECT *, wanted AS choice FROM _replays WHERE sink = ?1",
        [sink],
    )
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
    /// Begins a replay of a sink; returns the one that is under way already, if there is one, and
    /// then changes nothing. `rows` are the last row before the range and the last row of it.
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

    /// Ends the replay of a sink; false if none is under way.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn cancel_replay(&mut self, sink: &str, at: &str) -> Result<bool, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let is_cancelled = tx.execute(CANCEL, (sink, at))? > 0;
        tx.execute("DELETE FROM _queue WHERE sink = ?1 AND lane = 3", [sink])?;
        tx.commit()?;
        Ok(is_cancelled)
    }
}

/// Ends each replay whose last row has left its queue.
pub(in crate::store) fn end_all(connection: &Connection, at: &str) -> rusqlite::Result<()> {
    connection.run(END, [at])?;
    Ok(())
}

/// Moves a replay over the rows that are queued; false if it is no longer under way.
pub(in crate::store) fn advance(
    tx: &Connection,
    sink: &str,
    feed: &Feed,
    absent: i64,
) -> rusqlite::Result<bool> {
    let moved = (sink, feed.after, feed.upto, feed.unwanted + absent);
    let is_running = tx.run(ADVANCE, moved)? > 0;
    end_all(tx, &feed.at)?;
    Ok(is_running)
}

/// Counts the rows that the sink has taken, that it refused and that were left out, and ends the
/// replay with its last one.
pub(in crate::store) fn count(
    tx: &Connection,
    sink: &str,
    [sent, refused, left_out]: [i64; 3],
    last_error: Option<&str>,
    at: &str,
) -> rusqlite::Result<()> {
    if sent + refused + left_out > 0 {
        tx.run(COUNT, (sink, sent, refused, left_out, last_error))?;
        end_all(tx, at)?;
    }
    Ok(())
}
