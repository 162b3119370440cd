//! The table `_sinks`: how far the queue of each sink was filled from the log, and its counters.
//!
//! The changes up to a sink's position are in its queue, were acknowledged, or were not asked for.

use rusqlite::Connection;
use serde::Deserialize;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::log;
use crate::store::open::write_tx;
use crate::store::operate::Operator;
use crate::store::outbox::rows::{Acknowledged, Feed, Outcomes};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// What the row of a sink says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// They are.
    Open,
    /// Too many came at once: they wait until an operator releases or drops them.
    Held,
}

/// A sink's row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SinkRow {
    /// The sink's name.
    pub name: String,
    /// `webhook`, `file`, `command`
    #[serde(rename = "type")]
    pub type_name: String,
    /// Whether it takes changes.
    pub state: SinkState,
    /// The sink needs nothing more of the log up to this row.
    pub position: i64,
    /// Changes delivered since the sink was first opened.
    pub delivered: i64,
    /// When a change was last delivered.
    pub last_success_at: Option<String>,
    /// The last fault.
    pub last_error: Option<String>,
    /// Changes being retried, or waiting for one that is.
    pub retrying: i64,
    /// Changes refused for good.
    pub dead: i64,
    /// Changes that the sink did not ask for.
    pub filtered: i64,
    /// Changes before its beginning, changes that were dropped, and changes that were no longer in
    /// the log.
    pub skipped: i64,
    /// Whether new changes are handed to it.
    pub gate: GateState,
    /// The flood gate does not count changes up to this row of the log.
    pub released_to: i64,
    /// What the sink remembered of its last delivery.
    pub mark: Option<String>,
    /// What a destination that keeps its own account has acknowledged.
    #[serde(flatten)]
    pub acknowledged: Acknowledged,
}

/// Where a new sink begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// After the last row of the log.
    Now,
    /// At its first row.
    Beginning,
    /// At the first row observed at or after this stamp.
    At(String),
}

impl Begin {
    fn position(&self, connection: &Connection) -> rusqlite::Result<i64> {
        match self {
            Self::Now => log::last_seq(connection),
            Self::Beginning => Ok(0),
            Self::At(stamp) => log::position_at(connection, stamp),
        }
    }
}

impl Reader {
    /// The stored state of each sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sinks(&self) -> Result<Vec<SinkRow>, StoreError> {
        Ok(self.connection.rows(LIST, [])?)
    }

    /// The stored state of one sink.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sink(&self, name: &str) -> Result<Option<SinkRow>, StoreError> {
        Ok(find(&self.connection, name)?)
    }
}

impl Store {
    /// Makes the sink's row where it is to begin unless there is one, marks it active, and returns
    /// it. A row that is active already costs no write, so that a full disk or a locked store does
    /// not matter.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn open_sink(
        &self,
        name: String,
        type_name: &'static str,
        begin: Begin,
        at: String,
    ) -> Result<SinkRow, StoreError> {
        self.write(move |writer| {
            let is_open =
                |row: &SinkRow| row.state == SinkState::Active && row.type_name == type_name;
            if let Some(row) = find(&writer.connection, &name)?.filter(is_open) {
                return Ok(row);
            }
            let tx = write_tx(&mut writer.connection)?;
            if let Some(before) = find(&tx, &name)? {
                if before.type_name != type_name {
                    begin_account(&tx, &before, &begin)?;
                }
                tx.execute(ACTIVATE, (&name, type_name))?;
            } else {
                let position = begin.position(&tx)?;
                tx.execute(
                    INSERT,
                    (&name, type_name, position, &at, log::last_seq(&tx)?),
                )?;
            }
            let row = find(&tx, &name)?.expect("it was written just now");
            tx.commit()?;
            Ok(row)
        })
        .await
    }

    /// Marks every sink not named as removed; returns the rows of those that were not yet. The log
    /// keeps what they need until they are forgotten.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn retire_sinks(&self, configured: Vec<String>) -> Result<Vec<SinkRow>, StoreError> {
        self.write(move |writer| {
            let mut gone: Vec<SinkRow> = writer.connection.rows(LIST, [])?;
            gone.retain(|row| row.state != SinkState::Removed && !configured.contains(&row.name));
            for row in &gone {
                writer.connection.execute(RETIRE, [&row.name])?;
            }
            Ok(gone)
        })
        .await
    }

    /// Holds a sink back until an operator releases it; returns its row.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn hold_sink(&self, sink: String) -> Result<Option<SinkRow>, StoreError> {
        self.write(move |writer| {
            writer.connection.run(HOLD, [&sink])?;
            Ok(find(&writer.connection, &sink)?)
        })
        .await
    }
}

const LIST: &str = "SELECT * FROM _sinks ORDER BY name LIMIT 10000";

pub(in crate::store) const FIND: &str = "SELECT * FROM _sinks WHERE name = ?1";

/// Every change ever stored that the log no longer holds after the position is skipped: those
/// before the position, and those that were pruned.
const INSERT: &str = "INSERT INTO _sinks (name, type, state, position, given_after, skipped, created_at, released_to) \
     VALUES (?1, ?2, 'active', ?3, ?3, \
     coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0) \
     - (SELECT count(*) FROM changes WHERE seq > ?3), ?4, ?5)";

/// The tables with what is kept for a sink, and the column that names it.
const OWNED: [(&str, &str); 4] = [
    ("_sinks", "name"),
    ("_queue", "sink"),
    ("_alerts", "sink"),
    ("_replays", "sink"),
];

/// While a sink was removed the log may have lost changes that it did not get.
const ACTIVATE: &str = "UPDATE _sinks SET type = ?2, state = 'active', skipped = skipped + iif(state = 'removed', \
     max(0, (SELECT coalesce(max(seq), 0) FROM changes) - position \
     - (SELECT count(*) FROM changes c WHERE c.seq > _sinks.position)), 0) WHERE name = ?1";

const RETIRE: &str = "UPDATE _sinks SET state = 'removed' WHERE name = ?1";

pub(in crate::store) const HOLD: &str = "UPDATE _sinks SET gate = 'held' WHERE name = ?1";

pub(in crate::store) const RELEASE: &str =
    "UPDATE _sinks SET gate = 'open', released_to = ?2 WHERE name = ?1 AND gate = 'held'";

pub(in crate::store) const SKIP: &str = "UPDATE _sinks SET gate = 'open', released_to = ?3, position = ?3, skipped = skipped + ?4, \
     filtered = filtered + ?3 - ?2 - ?4 WHERE name = ?1 AND gate = 'held' AND position = ?2";

pub(in crate::store) const ADVANCE: &str = "UPDATE _sinks SET position = ?3, filtered = filtered + ?4, skipped = skipped + ?5 \
     WHERE name = ?1 AND position = ?2";

pub(in crate::store) const COUNT: &str = "UPDATE _sinks SET delivered = max(0, delivered + ?2), skipped = skipped + ?3, \
     last_success_at = CASE WHEN ?2 > 0 THEN ?4 ELSE last_success_at END, \
     last_error = coalesce(?5, last_error), \
     state = CASE WHEN ?6 THEN 'disabled' ELSE state END, mark = coalesce(?7, mark) WHERE name = ?1";

pub(in crate::store) fn find(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<SinkRow>> {
    connection.row(FIND, [name])
}

/// A sink of another type takes the name over. What the sink before it was given is not at the new
/// destination, which is to have everything from its own beginning.
fn begin_account(tx: &Connection, before: &SinkRow, begin: &Begin) -> Result<(), StoreError> {
    let account = match begin {
        Begin::Now => Acknowledged {
            after: before.position,
            upto: 0,
        },
        _ => Acknowledged {
            after: begin.position(tx)?,
            upto: before.position,
        },
    };
    Ok(set_acknowledged(tx, &before.name, account)?)
}

/// Saves what the destination of a sink has acknowledged.
pub(in crate::store) fn set_acknowledged(
    connection: &Connection,
    sink: &str,
    acknowledged: Acknowledged,
) -> rusqlite::Result<()> {
    let sql = "UPDATE _sinks SET given_after = ?2, given_upto = ?3 WHERE name = ?1";
    connection.run(sql, (sink, acknowledged.after, acknowledged.upto))?;
    Ok(())
}

/// Moves the position over the rows that are queued, of which `absent` were no longer in the log;
/// false if the position is another one meanwhile.
pub(in crate::store) fn advance(
    tx: &Connection,
    name: &str,
    feed: &Feed,
    absent: i64,
) -> rusqlite::Result<bool> {
    let moved = (name, feed.after, feed.upto, feed.unwanted, absent);
    Ok(tx.run(ADVANCE, moved)? > 0)
}

/// Counts what became of changes: those that were delivered, and those that were no longer in the
/// log.
pub(in crate::store) fn count(
    tx: &Connection,
    name: &str,
    (delivered, left_out): (i64, i64),
    outcomes: &Outcomes,
    at: &str,
) -> rusqlite::Result<()> {
    let Outcomes {
        last_error,
        disable,
        mark,
        ..
    } = outcomes;
    let counted = (name, delivered, left_out, at, last_error, disable, mark);
    tx.run(COUNT, counted).map(|_| ())
}

impl Operator {
    /// Lets the changes of a held sink go, all that the log has now; false if it is not held.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn release_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let released = tx.execute(RELEASE, (sink, log::last_seq(&tx)?))?;
        tx.commit()?;
        Ok(released > 0)
    }

    /// Moves a held sink on from one row of the log to another without delivering what lies
    /// between, of which it asked for `wanted`; false if it is not held, or not at the first row
    /// any more.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn skip_held(
        &mut self,
        sink: &str,
        (from, to): (i64, i64),
        wanted: i64,
    ) -> Result<bool, StoreError> {
        Ok(self.connection.execute(SKIP, (sink, from, to, wanted))? > 0)
    }

    /// Forgets a sink that is no longer configured, with its position, its queue and its
    /// dead letters; false if it is in use.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn forget_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let removed = "SELECT EXISTS (SELECT 1 FROM _sinks WHERE name = ?1 AND state = 'removed')";
        let is_removed = tx.value(removed, [sink])?;
        if is_removed {
            for (table, column) in OWNED {
                tx.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [sink])?;
            }
        }
        tx.commit()?;
        Ok(is_removed)
    }

    /// Gives a sink another name, with its position, its queue and its dead letters; false if a
    /// sink of that name has received something or is owed something. Call it while no daemon runs.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn rename_sink(&mut self, sink: &str, new: &str) -> Result<bool, StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let used = "SELECT EXISTS (SELECT 1 FROM _sinks WHERE name = ?1 AND delivered > 0) \
             OR EXISTS (SELECT 1 FROM _queue WHERE sink = ?1)";
        if tx.value(used, [new])? {
            return Ok(false);
        }
        for (table, column) in OWNED {
            tx.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [new])?;
            let moved = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
            tx.execute(&moved, [sink, new])?;
        }
        tx.execute(
            "UPDATE OR REPLACE _alerts SET about = 'sink/' || ?2 WHERE about = 'sink/' || ?1",
            [sink, new],
        )?;
        tx.commit()?;
        Ok(true)
    }
}
