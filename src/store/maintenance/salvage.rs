//! Copies what only the store knows into a new file, as far as it can be read.
//!
//! Only tables of this program are read, each by its key, so that no damaged index matters. Behind
//! a page that cannot be read it goes on with the next row that can.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, ToSql, named_params};
use serde::Deserialize;
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::quoted;
use crate::store::open;
use crate::store::sql::Sql;

/// What is made from the rest.
const DERIVED: [&str; 3] = ["_job_states", "_types", "_rereads"];
/// The highest number that a row of the log ever had, as far as the new file says.
const LAST_NUMBER: &str = "
    SELECT coalesce(max(seq), 0)
    FROM sqlite_sequence
    WHERE name = 'changes'";
/// The highest number of the log that another table names.
const LAST_KNOWN: &str = "
    SELECT max(
        (SELECT coalesce(max(position), 0) FROM _sinks),
        (SELECT coalesce(max(seq), 0) FROM _queue WHERE lane > 0),
        (SELECT coalesce(max(head_seq), 0) FROM _pollers)
    )";
/// Rows between two reports of progress.
const PROGRESS_EVERY: u64 = 256;
/// How many numbers are tried behind the last row that could be read, if nothing says where the
/// table ends.
const MAX_TRIED: i64 = 100_000;

/// A column of a table.
#[derive(Debug, Deserialize)]
struct Column {
    name: String,
    is_required: bool,
    /// Its place in the key, from 1 on; 0 outside.
    key: i64,
    is_integer: bool,
}

/// A copy that is being made.
pub(super) struct Salvage<'a> {
    old: &'a Connection,
    new: &'a Connection,
    /// What could not be read, each in words.
    pub(super) lost: Vec<String>,
    /// Copied so far.
    rows: u64,
    /// Rows of the table that is copied which contradict others in the new file.
    refused: u64,
    total: u64,
}

impl<'a> Salvage<'a> {
    pub(super) fn new(old: &'a Connection, new: &'a Connection) -> Self {
        Self {
            old,
            new,
            lost: Vec::new(),
            rows: 0,
            refused: 0,
            total: 0,
        }
    }

    /// Copies every table that does not follow from others.
    pub(super) fn copy_all(
        &mut self,
        store: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        // They keep counts that are copied as well.
        let triggers: Vec<(String, String)> = self
            .new
            .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?
            .query_map([], |row| row.try_into())?
            .collect::<rusqlite::Result<_>>()?;
        for (name, _) in &triggers {
            self.new.execute_batch(&format!("DROP TRIGGER {name}"))?;
        }
        self.total = u64::try_from(self.last_number("changes", "seq")).unwrap_or_default();
        // The new file has an identity of its own, which would count if the store lost its own.
        self.new
            .run("DELETE FROM _meta WHERE name = 'identity'", [])?;
        for table in tables(self.new)? {
            self.copy(&table, progress)?;
        }
        self.go_on_behind_known()?;
        keep_identity(self.new, store)?;
        if !self.lost.is_empty() {
            balance(self.new)?;
        }
        for (_, sql) in &triggers {
            self.new.execute_batch(sql)?;
        }
        Ok(())
    }

    fn copy(&mut self, table: &str, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        let Some(columns) = self.columns(table)? else {
            if table == "changes" {
                return Err(StoreError::Corrupt(
                    "the table changes is gone or was altered".to_owned(),
                ));
            }
            self.lost
                .push(format!("the table {table}, which is gone or was altered"));
            return Ok(());
        };
        self.new.execute_batch(&format!("DELETE FROM {table}"))?;
        let mut key: Vec<&Column> = columns.iter().filter(|column| column.key > 0).collect();
        key.sort_by_key(|column| column.key);
        let mut names = Vec::new();
        for column in &columns {
            names.push(quoted(&column.name));
        }
        let rows = TableRows {
            table,
            names: names.join(", "),
            insert: insert_sql(table, &names),
        };
        match key[..] {
            [number] if number.is_integer => self.copy_numbered(&rows, &number.name, progress),
            _ => {
                let names: Vec<String> = key.iter().map(|column| quoted(&column.name)).collect();
                self.copy_by_key(&rows, &names)
            }
        }
    }

    /// The columns that the table has in both files; `None` if it cannot be copied.
    fn columns(&self, table: &str) -> Result<Option<Vec<Column>>, StoreError> {
        let sql = "
            SELECT
                name,
                \"notnull\" AND dflt_value IS NULL AS is_required,
                pk AS key,
                type = 'INTEGER' AS is_integer
            FROM pragma_table_info(:table)
            ORDER BY cid";
        let values = named_params! { ":table": table };
        let mut columns: Vec<Column> = self.new.rows(sql, values)?;
        let old: Vec<Column> = self.old.rows(sql, values)?;
        for column in &columns {
            if (column.is_required || column.key > 0) && !has_column(&old, &column.name) {
                return Ok(None);
            }
        }
        columns.retain(|column| has_column(&old, &column.name));
        Ok(Some(columns))
    }

    /// Copies a table whose rows have numbers.
    fn copy_numbered(
        &mut self,
        rows: &TableRows<'_>,
        key: &str,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        let TableRows { table, names, .. } = rows;
        let following =
            format!("SELECT {key}, {names} FROM {table} WHERE {key} > :number ORDER BY {key}");
        let one = format!("SELECT {key}, {names} FROM {table} WHERE {key} = :number");
        let last = self.last_number(table, key);
        let mut unread = 0_i64;
        let mut number = i64::MIN;
        loop {
            let is_whole = self.copy_rows(rows, &following, &mut number, progress)?;
            if is_whole {
                break;
            }
            // Each row of a page that cannot be read is tried alone: the next page may be whole.
            number = number.max(0);
            let end = if last > 0 { last } else { number + MAX_TRIED };
            loop {
                number += 1;
                let mut found = number;
                if number > end || self.copy_rows(rows, &one, &mut found, progress)? {
                    break;
                }
                unread += 1;
            }
            if number > end {
                break;
            }
        }
        if unread > 0 {
            self.lost.push(format!("up to {unread} rows of {table}"));
        }
        self.note_refused(table);
        let sql = "
            UPDATE sqlite_sequence
            SET seq = max(seq, :last)
            WHERE name = :table";
        let values = named_params! { ":table": table, ":last": last };
        if self.new.run(sql, values)? == 0 && last > 0 {
            let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :last)";
            self.new.run(sql, values)?;
        }
        Ok(())
    }

    /// Copies a table whose rows have names: from both ends up to what cannot be read.
    fn copy_by_key(&mut self, rows: &TableRows<'_>, key: &[String]) -> Result<(), StoreError> {
        let TableRows { table, names, .. } = rows;
        for direction in ["ASC", "DESC"] {
            let order = key.join(&format!(" {direction}, "));
            let sql = format!("SELECT NULL, {names} FROM {table} ORDER BY {order} {direction}");
            if self.copy_rows(rows, &sql, &mut 0, &mut |_, _| ())? {
                self.note_refused(table);
                return Ok(());
            }
        }
        // Those that were read from both ends among them.
        self.refused = 0;
        self.lost.push(format!("a part of the table {table}"));
        Ok(())
    }

    /// Copies the rows of a query, whose first column is their number; returns whether all could be
    /// read.
    fn copy_rows(
        &mut self,
        rows: &TableRows<'_>,
        sql: &str,
        number: &mut i64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<bool, StoreError> {
        let mut statement = self.old.prepare_cached(sql)?;
        let width = statement.column_count();
        if statement.parameter_count() > 0 {
            statement.raw_bind_parameter(1, *number)?;
        }
        let mut insert = self.new.prepare_cached(&rows.insert)?;
        let mut found = statement.raw_query();
        loop {
            let row = match found.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(true),
                Err(error) if is_damage(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            if let ValueRef::Integer(at) = row.get_ref(0)? {
                *number = at;
            }
            let mut cells = Vec::with_capacity(width);
            for place in 1..width {
                cells.push(Cell(row.get_ref(place)?));
            }
            if insert.execute(rusqlite::params_from_iter(cells))? == 0 {
                self.refused += 1;
            }
            self.rows += 1;
            if self.rows.is_multiple_of(PROGRESS_EVERY) {
                progress(self.rows.min(self.total), self.total);
            }
        }
    }

    /// Says how many rows of the table that was copied were left out, and begins to count anew.
    fn note_refused(&mut self, table: &str) {
        let refused = std::mem::take(&mut self.refused);
        if refused > 0 {
            self.lost.push(format!(
                "{refused} rows of {table}, which contradict others"
            ));
        }
    }

    /// If the end of the log was lost, gives none of its numbers to another change: sinks and lists
    /// have noted how far they got in it.
    fn go_on_behind_known(&mut self) -> rusqlite::Result<()> {
        let last: i64 = self.new.value(LAST_NUMBER, [])?;
        let known: i64 = self.new.value(LAST_KNOWN, [])?;
        if known <= last {
            return Ok(());
        }
        let lost = known - last;
        self.lost.push(format!("the last {lost} rows of changes"));
        self.new
            .run("DELETE FROM sqlite_sequence WHERE name = 'changes'", [])?;
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', :known)";
        self.new.run(sql, named_params! { ":known": known })?;
        Ok(())
    }

    /// The highest number that a row of this table ever had, as far as that can be read; else 0.
    fn last_number(&self, table: &str, key: &str) -> i64 {
        let counted: rusqlite::Result<Option<i64>> = self
            .old
            .value("SELECT seq FROM sqlite_sequence WHERE name = ?", [table])
            .optional();
        let highest: rusqlite::Result<Option<i64>> = self
            .old
            .value(&format!("SELECT max({key}) FROM {table}"), []);
        let counted = counted.ok().flatten().unwrap_or_default();
        let highest = highest.ok().flatten().unwrap_or_default();
        counted.max(highest)
    }
}

/// How the rows of a table are read and written.
struct TableRows<'a> {
    table: &'a str,
    names: String,
    insert: String,
}

/// A value as it is stored, also a text that is no UTF-8.
struct Cell<'a>(ValueRef<'a>);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

fn has_column(columns: &[Column], name: &str) -> bool {
    columns.iter().any(|column| column.name == name)
}

fn is_mirror(table: &str) -> bool {
    Route::ALL.iter().any(|route| route.as_str() == table)
}

/// The tables of this program that do not follow from others.
fn tables(new: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "
        SELECT name
        FROM sqlite_schema
        WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
        ORDER BY name = 'changes' DESC, name";
    let mut tables: Vec<String> = new.values(sql, [])?;
    tables.retain(|table| !is_mirror(table) && !DERIVED.contains(&table.as_str()));
    Ok(tables)
}

fn insert_sql(table: &str, names: &[String]) -> String {
    let marks = vec!["?"; names.len()].join(", ");
    format!(
        "INSERT OR IGNORE INTO {table} ({}) VALUES ({marks})",
        names.join(", ")
    )
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure)
    )
}

/// If the identity could not be read, that of the lock file counts.
fn keep_identity(new: &Connection, store: &Path) -> rusqlite::Result<()> {
    let noted = match open::noted_identity(store) {
        Some(identity) => Value::Text(identity),
        None => Value::Null,
    };
    let sql = "
        INSERT OR IGNORE INTO _meta (name, value)
        VALUES ('identity', coalesce(:noted, lower(hex(randomblob(16)))))";
    new.run(sql, named_params! { ":noted": noted })?;
    Ok(())
}

/// After rows were lost: what a sink is owed no more is counted as skipped.
fn balance(new: &Connection) -> rusqlite::Result<()> {
    new.execute_batch(
        "DELETE FROM _queue
        WHERE lane > 0 AND seq NOT IN (SELECT seq FROM changes);
        DELETE FROM _queue
        WHERE lane = 0 AND seq NOT IN (SELECT id FROM _notices);
        UPDATE _sinks
        SET retrying = (
                SELECT count(*)
                FROM _queue
                WHERE sink = name AND lane = 2 AND state IN ('retrying', 'waiting')
            ),
            dead = (
                SELECT count(*)
                FROM _queue
                WHERE sink = name AND lane = 2 AND state = 'dead'
            );
        UPDATE _sinks
        SET skipped = skipped + max(
            0,
            (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes')
                - delivered - retrying - dead - filtered - skipped
                - (
                    SELECT count(*)
                    FROM _queue
                    WHERE sink = _sinks.name AND lane = 2 AND state = 'ready'
                )
                - (
                    SELECT count(*)
                    FROM changes c
                    WHERE c.seq > position
                        AND c.seq NOT IN (
                            SELECT seq FROM _queue WHERE sink = _sinks.name AND lane = 2
                        )
                )
        )
        WHERE state <> 'removed'",
    )
}
