//! The table `_replays`: which older changes a sink is given once more, and how far it has come.
//!
//! A sink has at most one. It is kept after its end until the next one begins, so that its outcome
//! can be read. Nothing here touches the position or the counters of the sink.

use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::operator::Operator;
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
    /// Every change of its range was sent.
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

/// Begins a replay, in place of the last one.
const BEGIN: &str = "
    INSERT OR REPLACE INTO _replays
        (sink, id, from_seq, to_seq, wanted, rate, position, state, begun_at)
    VALUES
        (:sink, lower(hex(randomblob(8))), :after, :upto, :choice, :rate, :after, 'running', :at)
";

/// Moves a replay that runs over rows of the log, unless it is elsewhere meanwhile.
const ADVANCE: &str = "
    UPDATE _replays
    SET position = :upto, left_out = left_out + :left_out
    WHERE sink = :sink
        AND position = :after
        AND state = 'running'
";

/// Counts what became of rows; the reason of a refusal is kept.
const COUNT: &str = "
    UPDATE _replays
    SET sent = sent + :sent,
        refused = refused + :refused,
        left_out = left_out + :left_out,
        last_error = CASE WHEN :refused > 0 THEN :last_error ELSE last_error END
    WHERE sink = :sink
";

/// Ends each replay that has gone through its range and has no row left in its queue.
const END: &str = "
    UPDATE _replays
    SET state = 'done', ended_at = :at
    WHERE state = 'running'
        AND position >= to_seq
        AND NOT EXISTS (
            SELECT 1
            FROM _queue
            WHERE sink = _replays.sink
                AND lane = 3
        )
";

/// Ends the replay of a sink before it is done.
const CANCEL: &str = "
    UPDATE _replays
    SET state = 'cancelled', ended_at = :at
    WHERE sink = :sink
        AND state = 'running'
";

/// Removes what a replay has queued.
const DELETE_QUEUED: &str = "
    DELETE FROM _queue
    WHERE sink = :sink
        AND lane = 3
";

/// The last replay of a sink.
const FIND: &str = "
    SELECT *, wanted AS choice
    FROM _replays
    WHERE sink = :sink
";

fn find(connection: &Connection, sink: &str) -> rusqlite::Result<Option<Replay>> {
    connection.row(FIND, named_params! {":sink": sink})
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
    /// Begins a replay of a sink; returns the one that runs already, if there is one, and
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
        let tx = self.write_tx()?;
        let before = find(&tx, sink)?.filter(|replay| replay.state == ReplayState::Running);
        if before.is_none() {
            let choice = serde_json::to_string(choice).expect("a choice holds plain texts");
            let (after, upto) = rows;
            tx.run(
                BEGIN,
                named_params! {
                    ":sink": sink,
                    ":after": after,
                    ":upto": upto,
                    ":choice": choice,
                    ":rate": rate,
                    ":at": at,
                },
            )?;
        }
        tx.commit()?;
        Ok(before)
    }

    /// Ends the replay of a sink; false if none runs.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn cancel_replay(&mut self, sink: &str, at: &str) -> Result<bool, StoreError> {
        let tx = self.write_tx()?;
        let is_cancelled = tx.run(CANCEL, named_params! {":sink": sink, ":at": at})? > 0;
        tx.run(DELETE_QUEUED, named_params! {":sink": sink})?;
        tx.commit()?;
        Ok(is_cancelled)
    }
}

/// Ends each replay whose last row has left its queue.
pub(in crate::store) fn end_all(connection: &Connection, at: &str) -> rusqlite::Result<()> {
    connection.run(END, named_params! {":at": at})?;
    Ok(())
}

/// Moves a replay over the rows that are queued; false if it no longer runs.
pub(in crate::store) fn advance(
    tx: &Connection,
    sink: &str,
    feed: &Feed,
    absent: i64,
) -> rusqlite::Result<bool> {
    let values = named_params! {
        ":sink": sink,
        ":after": feed.after,
        ":upto": feed.upto,
        ":left_out": feed.unwanted + absent,
    };
    let is_running = tx.run(ADVANCE, values)? > 0;
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
        let values = named_params! {
            ":sink": sink,
            ":sent": sent,
            ":refused": refused,
            ":left_out": left_out,
            ":last_error": last_error,
        };
        tx.run(COUNT, values)?;
        end_all(tx, at)?;
    }
    Ok(())
}
