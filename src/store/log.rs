//! The append-only log `changes`, and the event ids in it.

use std::fmt;
use std::ops::ControlFlow;

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use sha2::{Digest, Sha256};
use shopmirror_core::record::{Change, Kind, Route};

use super::error::StoreError;
use super::reader::Reader;
use super::sql::{self, Sql};
use crate::text::hex;

/// A row about to be added.
pub(super) struct NewChange<'a> {
    pub(super) route: Route,
    /// '' for a gap.
    pub(super) record_id: &'a str,
    pub(super) kind: Kind,
    pub(super) version: i64,
    pub(super) observed_at: &'a str,
    pub(super) business: Option<&'a str>,
    pub(super) body: &'a str,
}

/// The event id: the same for the same version of the same record of the same store, always. The
/// text is part of it, since a restored backup counts on from an older version.
pub(super) fn event_id(
    identity: &str,
    route: &str,
    record_id: &str,
    version: i64,
    body: &str,
) -> String {
    let mut hash = Sha256::new();
    for part in [identity, route, record_id] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(version.to_be_bytes());
    hash.update(body.as_bytes());
    format!("evt_{}", hex(&hash.finalize()[..16]))
}

/// Appends a row and returns its number.
pub(super) fn append(
    connection: &Connection,
    identity: &str,
    change: &NewChange<'_>,
) -> rusqlite::Result<i64> {
    let route = change.route.as_str();
    let event_id = event_id(
        identity,
        route,
        change.record_id,
        change.version,
        change.body,
    );
    connection.prepare_cached(APPEND)?.insert(named_params! {
        ":event_id": event_id,
        ":route": route,
        ":record_id": change.record_id,
        ":kind": change.kind.as_str(),
        ":version": change.version,
        ":observed_at": change.observed_at,
        ":business": change.business,
        ":body": change.body,
    })
}

/// Adds a row behind the last one.
const APPEND: &str = "
    INSERT INTO changes (
        event_id, route, record_id, kind, version, observed_at, business, body
    ) VALUES (
        :event_id, :route, :record_id, :kind, :version, :observed_at, :business, :body
    )";

/// A row joined with the version before it.
pub(super) const SELECT: &str = "
    SELECT c.seq, c.event_id, c.route, nullif(c.record_id, '') AS record_id, c.kind, c.version,
        c.observed_at, c.business, c.body, p.body AS before
    FROM changes c
    LEFT JOIN changes p
        ON c.kind = 'updated'
        AND p.route = c.route
        AND p.record_id = c.record_id
        AND p.version = c.version - 1";

/// The number of the last row, 0 for none.
pub(super) const LAST_SEQ: &str = "SELECT coalesce(max(seq), 0) FROM changes";

/// The rows after a position, in order.
pub(super) fn after_sql() -> String {
    format!("{SELECT} WHERE c.seq > :position ORDER BY c.seq LIMIT :limit")
}

/// One row.
pub(super) fn by_seq_sql() -> String {
    format!("{SELECT} WHERE c.seq = :seq")
}

/// The versions of a record among the rows after one number up to another one, the newest first.
pub(super) fn of_record_sql() -> String {
    format!(
        "{SELECT}
        WHERE c.route = :route AND c.record_id = :id AND c.seq > :after AND c.seq <= :upto
        ORDER BY c.version DESC"
    )
}

/// The latest version of a record; `None` if it was never stored.
pub(super) fn latest_version(
    connection: &Connection,
    route: Route,
    id: &str,
) -> rusqlite::Result<Option<Change>> {
    let sql = format!("{} LIMIT 1", of_record_sql());
    connection.row(&sql, (route.as_str(), id, 0, i64::MAX))
}

impl Reader {
    /// When the oldest row of the log was written.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn begun_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT observed_at FROM changes ORDER BY seq LIMIT 1";
        let oldest: Vec<String> = self.connection.values(sql, [])?;
        Ok(oldest.first().and_then(|at| at.parse().ok()))
    }

    /// Up to `limit` rows of the log after `position`, in order.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn changes_after(&self, position: i64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self.connection.rows(&after_sql(), (position, most))?)
    }

    /// Calls `each` with up to `limit` rows of the log after `position` in order, until it breaks;
    /// returns how many rows it got.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn scan_after(
        &self,
        position: i64,
        limit: usize,
        mut each: impl FnMut(Change) -> ControlFlow<()>,
    ) -> Result<usize, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(&after_sql())?;
        let mut rows = statement.query((position, most))?;
        let mut shown = 0;
        while let Some(row) = rows.next()? {
            shown += 1;
            if each(sql::read(row)?).is_break() {
                break;
            }
        }
        Ok(shown)
    }

    /// The rows of the log with these numbers, in this order; pruned rows are left out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn changes(&self, seqs: &[i64]) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::with_capacity(seqs.len());
        for seq in seqs {
            changes.extend(self.connection.row::<Change>(&by_seq_sql(), [seq])?);
        }
        Ok(changes)
    }

    /// Gives `each` the versions of one record among the rows of the log after the first number up
    /// to the second one, the newest first, until it breaks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn each_version(
        &self,
        (route, id): (Route, &str),
        (after, upto): (i64, i64),
        mut each: impl FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(&of_record_sql())?;
        let mut rows = statement.query((route.as_str(), id, after, upto))?;
        while let Some(row) = rows.next()?
            && each(sql::read(row)?).is_continue()
        {}
        Ok(())
    }

    /// Whether a row of the log is a version of a record that was forgotten, so that only its id is
    /// left.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_erased(&self, seq: i64) -> Result<bool, StoreError> {
        Ok(self.connection.value(IS_ERASED, [seq])?)
    }

    /// The number of the last row of the log, 0 for none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn last_seq(&self) -> Result<i64, StoreError> {
        Ok(last_seq(&self.connection)?)
    }

    /// How many rows of the log after `after`, up to and including `upto`, have these routes and
    /// kinds.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn count_changes(
        &self,
        after: i64,
        upto: i64,
        routes: &[Route],
        kinds: &[Kind],
        businesses: &[String],
    ) -> Result<i64, StoreError> {
        if after >= upto {
            return Ok(0);
        }
        let values = named_params! {
            ":after": after,
            ":upto": upto,
            ":routes": between_spaces(routes),
            ":kinds": between_spaces(kinds),
            ":businesses": between_spaces(businesses),
        };
        Ok(self.connection.value(COUNT, values)?)
    }
}

/// Each name with a space on both sides.
fn between_spaces<T: fmt::Display>(names: &[T]) -> String {
    names.iter().map(|name| format!(" {name} ")).collect()
}

/// Counts the rows of some routes, kinds and businesses, each a list of names between spaces. No
/// business means every one. The tombstone of a forgotten record belongs to every business.
pub(super) const COUNT: &str = "
    SELECT count(*)
    FROM changes
    WHERE seq > :after
        AND seq <= :upto
        AND instr(:routes, ' ' || route || ' ')
        AND instr(:kinds, ' ' || kind || ' ')
        AND (
            :businesses = ''
            OR kind = 'forgotten'
            OR instr(:businesses, ' ' || coalesce(business, '') || ' ')
        )";

/// The number of the last row, 0 for none.
pub(super) fn last_seq(connection: &Connection) -> rusqlite::Result<i64> {
    connection.value(LAST_SEQ, [])
}

/// Whether the log still has this row as it was: with this event id. The row 0 before the first one
/// is always there.
pub(super) const HAS_EVENT: &str = "
    SELECT :seq = 0 OR EXISTS (
        SELECT 1 FROM changes WHERE seq = :seq AND event_id = :event_id
    )";

/// Whether a row is a version of a record that was forgotten. The row that reports it is none.
pub(super) const IS_ERASED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM changes c
        JOIN changes f
            ON f.route = c.route
            AND f.record_id = c.record_id
            AND f.kind = 'forgotten'
        WHERE c.seq = :seq AND c.record_id <> '' AND c.kind <> 'forgotten'
    )";

/// The position just before the first row observed at or after `stamp`.
///
/// Looks at one row for each halving of the log. Where the clock was set back in between, the
/// result is one of the places at which rows before `stamp` meet later ones.
pub(super) fn position_at(connection: &Connection, stamp: &str) -> rusqlite::Result<i64> {
    let first: Option<i64> = connection.value("SELECT min(seq) FROM changes", [])?;
    let mut statement = connection.prepare_cached(NEXT_OBSERVED)?;
    let mut before = first.map_or(0, |first| first - 1);
    let mut after = last_seq(connection)?;
    while before < after {
        let middle = before + (after - before) / 2;
        let (seq, observed_at): (i64, String) =
            statement.query_row([middle], |row| row.try_into())?;
        if observed_at.as_str() >= stamp {
            after = middle;
        } else {
            before = seq;
        }
    }
    Ok(before)
}

/// Texts of records that may name a customer, between two numbers of the log. First pages show what
/// was there before; they say nothing of the time of a gap.
pub(super) const NAMING_RECORDS: &str = "
    SELECT body
    FROM changes
    WHERE seq > :after
        AND seq <= :upto
        AND route <> 'customers'
        AND kind IN ('created', 'updated')
        AND coalesce(business, (SELECT value FROM _meta WHERE name = 'default_business'), '')
            = coalesce(:business, (SELECT value FROM _meta WHERE name = 'default_business'), '')";

/// The first row after a position, and when it was observed.
pub(super) const NEXT_OBSERVED: &str = "
    SELECT seq, observed_at
    FROM changes
    WHERE seq > :position
    ORDER BY seq
    LIMIT 1";

/// Deletes what nothing needs any more among the rows after one number up to another one that are
/// older than `:before`. A version goes once a later one is old itself and every sink has passed it,
/// also one that is no longer configured and not forgotten, and every replay that is running: an
/// update that is still to be delivered is compared with the version before it.
pub(super) const PRUNE: &str = "
    WITH behind (seq) AS (
        SELECT coalesce(min(position), 9223372036854775807)
        FROM (
            SELECT position FROM _sinks
            UNION ALL
            SELECT position FROM _replays WHERE state = 'running'
        )
    )
    DELETE FROM changes
    WHERE seq > :after
        AND seq <= :upto
        AND observed_at < :before
        AND seq <= (SELECT seq FROM behind)
        AND NOT EXISTS (SELECT 1 FROM _queue q WHERE q.seq = changes.seq AND q.lane > 0)
        AND (
            kind = 'gap'
            OR EXISTS (
                SELECT 1
                FROM changes n
                WHERE n.route = changes.route
                    AND n.record_id = changes.record_id
                    AND n.version > changes.version
                    AND n.observed_at < :before
                    AND n.seq <= (SELECT seq FROM behind)
                    AND NOT EXISTS (SELECT 1 FROM _queue q WHERE q.seq = n.seq AND q.lane > 0)
            )
        )";
