//! The table `_sinks`: how far the queue of each sink was filled from the log, and its counters.
//!
//! The changes up to a sink's position are in its queue, were acknowledged, or were not asked for.

use rusqlite::{Connection, named_params};
use serde::Deserialize;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::log;
use crate::store::open::write_tx;
use crate::store::operator::Operator;
use crate::store::outbox::rows::{Acknowledged, Feed, Settlement};
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
    /// What the receiver said with it: not our words.
    pub last_error_quotation: Option<String>,
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
                tx.run(ACTIVATE, named_params! {":sink": name, ":type": type_name})?;
            } else {
                let position = begin.position(&tx)?;
                let values = named_params! {
                    ":sink": name,
                    ":type": type_name,
                    ":position": position,
                    ":at": at,
                    ":released_to": log::last_seq(&tx)?,
                };
                tx.run(INSERT, values)?;
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
                writer
                    .connection
                    .run(RETIRE, named_params! {":sink": row.name})?;
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
            writer.connection.run(HOLD, named_params! {":sink": sink})?;
            Ok(find(&writer.connection, &sink)?)
        })
        .await
    }
}

/// Every sink.
const LIST: &str = "
    SELECT *
    FROM _sinks
    ORDER BY name
    LIMIT 10000
";

/// One sink.
pub(in crate::store) const FIND: &str = "
    SELECT *
    FROM _sinks
    WHERE name = :sink
";

/// A new sink. Counts as skipped every change before the position and every change pruned since.
const INSERT: &str = "
    INSERT INTO _sinks
        (name, type, state, position, given_after, skipped, created_at, released_to)
    VALUES (
        :sink,
        :type,
        'active',
        :position,
        :position,
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)
            - (SELECT count(*) FROM changes WHERE seq > :position),
        :at,
        :released_to
    )
";

/// The tables with what is stored for a sink, and the column that names it.
const OWNED: [(&str, &str); 5] = [
    ("_sinks", "name"),
    ("_queue", "sink"),
    ("_alerts", "sink"),
    ("_replays", "sink"),
    ("_made", "sink"),
];

/// Marks a sink active. While it was removed, the log may have lost changes that it did not get.
const ACTIVATE: &str = "
    UPDATE _sinks
    SET type = :type,
        state = 'active',
        skipped = skipped + iif(
            state = 'removed',
            max(
                0,
                (SELECT coalesce(max(seq), 0) FROM changes)
                    - position
                    - (SELECT count(*) FROM changes c WHERE c.seq > _sinks.position)
            ),
            0
        )
    WHERE name = :sink
";

/// Marks a sink removed.
const RETIRE: &str = "
    UPDATE _sinks
    SET state = 'removed'
    WHERE name = :sink
";

/// Holds a sink until an operator releases it.
pub(in crate::store) const HOLD: &str = "
    UPDATE _sinks
    SET gate = 'held'
    WHERE name = :sink
";

/// Lets the changes of a held sink go, and counts none of them up to a row of the log.
pub(in crate::store) const RELEASE: &str = "
    UPDATE _sinks
    SET gate = 'open', released_to = :upto
    WHERE name = :sink
        AND gate = 'held'
";

/// Moves a held sink on from one row of the log to another, and counts what it wanted as skipped.
pub(in crate::store) const SKIP: &str = "
    UPDATE _sinks
    SET gate = 'open',
        released_to = :upto,
        position = :upto,
        skipped = skipped + :wanted,
        filtered = filtered + :upto - :after - :wanted
    WHERE name = :sink
        AND gate = 'held'
        AND position = :after
";

/// Moves the position, unless it is elsewhere meanwhile.
pub(in crate::store) const ADVANCE: &str = "
    UPDATE _sinks
    SET position = :upto,
        filtered = filtered + :unwanted,
        skipped = skipped + :absent
    WHERE name = :sink
        AND position = :after
";

/// Counts what became of changes, and stores what the sink is to remember.
pub(in crate::store) const COUNT: &str = "
    UPDATE _sinks
    SET delivered = max(0, delivered + :delivered),
        skipped = skipped + :left_out,
        last_success_at = CASE WHEN :delivered > 0 THEN :at ELSE last_success_at END,
        last_error = coalesce(:last_error, last_error),
        last_error_quotation = CASE
            WHEN :last_error IS NULL THEN last_error_quotation
            ELSE :last_error_quotation
        END,
        state = CASE WHEN :disable THEN 'disabled' ELSE state END,
        mark = coalesce(:mark, mark)
    WHERE name = :sink
";

/// Stores what the destination of a sink has acknowledged.
const ACKNOWLEDGE: &str = "
    UPDATE _sinks
    SET given_after = :after, given_upto = :upto
    WHERE name = :sink
";

/// Whether a sink was removed from the configuration.
const IS_REMOVED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _sinks
        WHERE name = :sink
            AND state = 'removed'
    )
";

/// Whether a sink has received something or is owed something.
const IS_USED: &str = "
    SELECT EXISTS (SELECT 1 FROM _sinks WHERE name = :sink AND delivered > 0)
        OR EXISTS (SELECT 1 FROM _queue WHERE sink = :sink)
";

/// What is told about a sink follows its name.
const RENAME_ALERTS: &str = "
    UPDATE OR REPLACE _alerts
    SET about = 'sink/' || :new
    WHERE about = 'sink/' || :sink
";

pub(in crate::store) fn find(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<SinkRow>> {
    connection.row(FIND, named_params! {":sink": name})
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
    let values = named_params! {
        ":sink": sink,
        ":after": acknowledged.after,
        ":upto": acknowledged.upto,
    };
    connection.run(ACKNOWLEDGE, values)?;
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
    let values = named_params! {
        ":sink": name,
        ":after": feed.after,
        ":upto": feed.upto,
        ":unwanted": feed.unwanted,
        ":absent": absent,
    };
    Ok(tx.run(ADVANCE, values)? > 0)
}

/// Counts what became of changes: those that were delivered, and those that were no longer in the
/// log.
pub(in crate::store) fn count(
    tx: &Connection,
    name: &str,
    (delivered, left_out): (i64, i64),
    settlement: &Settlement,
    at: &str,
) -> rusqlite::Result<()> {
    let Settlement {
        last_error,
        last_error_quotation,
        disable,
        mark,
        ..
    } = settlement;
    let values = named_params! {
        ":sink": name,
        ":delivered": delivered,
        ":left_out": left_out,
        ":at": at,
        ":last_error": last_error,
        ":last_error_quotation": last_error_quotation,
        ":disable": disable,
        ":mark": mark,
    };
    tx.run(COUNT, values)?;
    Ok(())
}

impl Operator {
    /// Lets the changes of a held sink go, all that the log has now; false if it is not held.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn release_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        let tx = self.write_tx()?;
        let values = named_params! {":sink": sink, ":upto": log::last_seq(&tx)?};
        let released = tx.run(RELEASE, values)?;
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
        let values = named_params! {
            ":sink": sink,
            ":after": from,
            ":upto": to,
            ":wanted": wanted,
        };
        Ok(self.run(SKIP, values)? > 0)
    }

    /// Forgets a sink that is no longer configured, with its position, its queue and its
    /// dead letters; false if it is in use.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn forget_sink(&mut self, sink: &str) -> Result<bool, StoreError> {
        let tx = self.write_tx()?;
        let is_removed = tx.value(IS_REMOVED, named_params! {":sink": sink})?;
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
        let tx = self.write_tx()?;
        if tx.value(IS_USED, named_params! {":sink": new})? {
            return Ok(false);
        }
        for (table, column) in OWNED {
            tx.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [new])?;
            let moved = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
            tx.execute(&moved, [sink, new])?;
        }
        tx.run(RENAME_ALERTS, named_params! {":sink": sink, ":new": new})?;
        tx.commit()?;
        Ok(true)
    }
}
