//! A connection that only reads the store, for the daemon's deliveries and for the commands; and
//! the rows of the mirror. What else is read of the store stands beside the tables that it is read
//! from.
//!
//! The connection is read-only; a command opens its own beside a running daemon.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, named_params};
use serde_json::{Map, Value};
use shopmirror_core::record::Route;

use super::error::StoreError;
use super::sql::{self, Sql};
use super::{mirror, open};

/// Steps of SQLite, some milliseconds at most, after which a read checks the time.
pub(super) const STEPS: i32 = 10_000;

/// A read-only connection to the store. What it returns was committed before it was asked for.
///
/// # Errors
/// Unless a method says more: the file cannot be read, or the time limit of the connection has
/// passed.
#[derive(Debug)]
pub struct Reader {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    /// When every read is stopped.
    pub(super) deadline: Option<Instant>,
}

impl Reader {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the store at `path` for reading. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the file is absent or is not a store of this program.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            connection: open::open_reader(path)?,
            path: path.to_owned(),
            deadline: None,
        })
    }

    /// Closes the connection; it can read nothing more.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        self.connection = Connection::open_in_memory()?;
        Ok(())
    }

    /// Stops every read of this connection once `time` has passed, with
    /// [`StoreError::TooLong`]. A read that never ends would keep the write-ahead log from being
    /// emptied.
    ///
    /// # Errors
    /// If SQLite does not take the limit.
    pub fn limit_time(&mut self, time: Duration) -> Result<(), StoreError> {
        self.deadline = Some(Instant::now() + time);
        Ok(stop_at(&mut self.connection, self.deadline)?)
    }

    /// How many records each route has.
    pub fn counts(&self) -> Result<Vec<(Route, i64)>, StoreError> {
        let mut counts = Vec::with_capacity(Route::ALL.len());
        for route in Route::ALL {
            let sql = format!("SELECT count(*) FROM \"{route}\"");
            counts.push((route, self.connection.value(&sql, [])?));
        }
        Ok(counts)
    }

    /// The columns of a route's mirror table, in order.
    pub fn columns(&self, route: Route) -> Result<Vec<String>, StoreError> {
        let sql = "
            SELECT name
            FROM pragma_table_info(:table)
            ORDER BY cid";
        let values = named_params! { ":table": route.as_str() };
        Ok(self.connection.values(sql, values)?)
    }

    /// Those columns of a route's mirror table that are fields of its records, in the order of
    /// first appearance.
    pub fn field_columns(&self, route: Route) -> Result<Vec<String>, StoreError> {
        Ok(mirror::field_columns(&self.connection, route)?)
    }

    /// The numbers of the newest versions of at most `most` records, the last changed first, whose
    /// columns have these texts; a number is compared as text.
    ///
    /// # Errors
    /// Also if a column does not exist.
    pub fn newest(
        &self,
        route: Route,
        equals: &[(String, String)],
        most: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let mut conditions = String::new();
        let mut values = Vec::with_capacity(equals.len());
        for (column, value) in equals {
            let column = mirror::quoted(column);
            conditions.push_str(&format!(" AND CAST({column} AS TEXT) = ?"));
            values.push(value);
        }
        let sql = format!(
            "SELECT _seq
            FROM \"{route}\"
            WHERE 1{conditions}
            ORDER BY _seq DESC
            LIMIT {most}"
        );
        let values = rusqlite::params_from_iter(values);
        Ok(self.connection.values(&sql, values)?)
    }

    /// The statements that make the tables, indexes and views of the store; no record.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn schema_text(&self) -> Result<String, StoreError> {
        let sql = "
            SELECT coalesce(group_concat(sql, ';' || char(10)), '')
            FROM (
                SELECT sql
                FROM sqlite_schema
                WHERE sql IS NOT NULL
                ORDER BY type, name
            )";
        let text: String = self.connection.value(sql, [])?;
        Ok(text + ";\n")
    }

    /// One mirror row as a JSON object.
    pub fn record(&self, route: Route, id: &str) -> Result<Option<Map<String, Value>>, StoreError> {
        let sql = format!("SELECT * FROM \"{route}\" WHERE id = ?");
        Ok(self
            .connection
            .query_row(&sql, [id], sql::object)
            .optional()?)
    }
}

/// Stops every read of a connection once a time has passed.
pub(super) fn stop_at(
    connection: &mut Connection,
    deadline: Option<Instant>,
) -> rusqlite::Result<()> {
    match deadline {
        Some(deadline) => {
            connection.progress_handler(STEPS, Some(move || Instant::now() > deadline))
        }
        None => connection.progress_handler(0, None::<fn() -> bool>),
    }
}
