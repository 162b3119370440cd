//! The mirror: one table per route, for people with `sqlite3` and for report tools.
//!
//! `id` is the first column, as text, so that it joins with integers and with strings. Then comes
//! one untyped column per top-level field, in the order of first appearance, then our own columns.
//! A column is added when its field first appears and is never dropped or retyped.

pub(super) mod browse;
pub(super) mod history;
pub(super) mod job_links;
pub(super) mod job_states;
pub(super) mod related;
pub(super) mod views;

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, Row};
use serde::Deserialize;
use shopmirror_core::record::{Fields, Route};

use crate::store::sql::Sql;

/// Our own columns in every mirror table, after the fields.
const OWN: [&str; 6] = [
    "_business",
    "_first_seen_at",
    "_changed_at",
    "_last_seen_at",
    "_seq",
    "_via",
];
const OWN_DEFINITIONS: &str = "_business, _first_seen_at TEXT NOT NULL, \
     _changed_at TEXT NOT NULL, _last_seen_at TEXT, _seq INTEGER NOT NULL, _via";
/// SQLite's names for the row number, unless a column has that name.
const ROW_NUMBER: [&str; 3] = ["rowid", "oid", "_rowid_"];
/// A field past this many columns is kept in the log's body only.
const MAX_COLUMNS: usize = 256;
/// A column's name is cut to this many bytes.
const MAX_NAME: usize = 200;

/// Creates the tables that are not there: all six in a new store.
pub(super) fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    Route::ALL
        .iter()
        .try_for_each(|route| Mirror::load(connection, *route)?.create(connection))
}

/// The columns of the fields of a route, in the order of first appearance.
pub(super) fn field_columns(
    connection: &Connection,
    route: Route,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT \"column\" FROM _columns WHERE route = ?1 ORDER BY position";
    connection.values(sql, [route.as_str()])
}

/// What a mirror row holds besides the record's own fields.
#[derive(Debug, Deserialize)]
pub(super) struct RowFacts {
    pub(super) id: String,
    pub(super) business: Option<String>,
    /// Only used for a new row.
    pub(super) first_seen_at: String,
    pub(super) changed_at: String,
    /// `None` while the record is on the newest page of its poller.
    pub(super) last_seen_at: Option<String>,
    pub(super) seq: i64,
    pub(super) via: Option<String>,
}

/// The fields of a route, each with its column, in the order of first appearance.
#[derive(Debug)]
pub(super) struct Mirror {
    route: Route,
    columns: Vec<(String, String)>,
}

impl Mirror {
    /// Reads which column holds which field.
    pub(super) fn load(connection: &Connection, route: Route) -> rusqlite::Result<Self> {
        let columns = connection
            .prepare_cached(
                "SELECT field, \"column\" FROM _columns WHERE route = ?1 ORDER BY position",
            )?
            .query_map([route.as_str()], |row| row.try_into())?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self { route, columns })
    }

    /// The place of the column that holds a field.
    fn place(&self, field: &str) -> Option<usize> {
        self.columns.iter().position(|(known, _)| known == field)
    }

    /// Adds a column for each new field and says whether there was one; a table without rows is
    /// created again, so that our own columns stay last.
    pub(super) fn grow<'f>(
        &mut self,
        connection: &Connection,
        records: impl Iterator<Item = &'f Fields<'f>>,
    ) -> rusqlite::Result<bool> {
        let known = self.columns.len();
        for (name, _) in records.flat_map(Fields::iter) {
            if name != "id" && self.place(name).is_none() {
                self.name_column(name);
            }
        }
        if self.columns.len() == known {
            return Ok(false);
        }
        let table = self.route.as_str();
        let is_empty = format!("SELECT NOT EXISTS (SELECT 1 FROM \"{table}\")");
        if connection.value(&is_empty, [])? {
            connection.execute_batch(&format!("DROP TABLE \"{table}\""))?;
            self.create(connection)?;
        } else {
            for (_, column) in &self.columns[known..] {
                connection.execute_batch(&format!(
                    "ALTER TABLE \"{table}\" ADD COLUMN {}",
                    quoted(column)
                ))?;
            }
        }
        self.save_columns(connection, known)?;
        Ok(true)
    }

    /// Writes a record's row, new or changed.
    pub(super) fn put(
        &self,
        connection: &Connection,
        facts: &RowFacts,
        fields: &Fields<'_>,
    ) -> rusqlite::Result<()> {
        let mut cells = vec![facts.id.clone().into()];
        cells.extend(self.cells(fields));
        cells.extend([
            facts.business.clone().into(),
            facts.first_seen_at.clone().into(),
            facts.changed_at.clone().into(),
            facts.last_seen_at.clone().into(),
            facts.seq.into(),
            facts.via.clone().into(),
        ]);
        connection.run(&self.upsert_sql(), rusqlite::params_from_iter(cells))?;
        Ok(())
    }

    /// Notes that a poll has seen a record that a search had found.
    pub(super) fn seen_by_poll(
        &self,
        connection: &Connection,
        id: &str,
        business: Option<&str>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE \"{}\" SET _via = NULL, _business = ?2 WHERE id = ?1",
            self.route
        );
        connection.run(&sql, (id, business))?;
        Ok(())
    }

    /// The columns of the records' fields for a `SELECT` from `table`, `id` first.
    pub(super) fn column_list(&self, table: &str) -> String {
        let fields = self
            .columns
            .iter()
            .map(|(_, column)| format!(", {table}.{}", quoted(column)));
        format!("{table}.id{}", fields.collect::<String>())
    }

    /// True if a row holds these fields; the columns of [`Self::column_list`] begin at `first`.
    pub(super) fn holds(
        &self,
        row: &Row<'_>,
        first: usize,
        fields: &Fields<'_>,
    ) -> rusqlite::Result<bool> {
        for (place, cell) in self.cells(fields).into_iter().enumerate() {
            if row.get::<_, Value>(first + 1 + place)? != cell {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of each column for these fields.
    fn cells(&self, fields: &Fields<'_>) -> Vec<Value> {
        let mut cells = vec![Value::Null; self.columns.len()];
        for (name, value) in fields.iter() {
            if let Some(place) = self.place(name) {
                cells[place] = cell(value);
            }
        }
        cells
    }

    /// Gives a field a column, unless the table has [`MAX_COLUMNS`].
    fn name_column(&mut self, field: &str) {
        if self.columns.len() >= MAX_COLUMNS {
            return;
        }
        let taken: HashSet<String> = self
            .columns
            .iter()
            .map(|(_, column)| column.to_ascii_lowercase())
            .chain(
                OWN.into_iter()
                    .chain(ROW_NUMBER)
                    .chain(["id"])
                    .map(str::to_owned),
            )
            .collect();
        let mut base: String = field
            .chars()
            .map(|c| if c.is_control() { '_' } else { c })
            .collect();
        base.truncate(base.floor_char_boundary(MAX_NAME));
        if base.is_empty() {
            base.push_str("field");
        }
        let column = free_name(&base, |name| taken.contains(&name.to_ascii_lowercase()));
        self.columns.push((field.to_owned(), column));
    }

    pub(super) fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        let fields: String = self
            .columns
            .iter()
            .map(|(_, column)| format!("{}, ", quoted(column)))
            .collect();
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS \"{}\" (id TEXT PRIMARY KEY NOT NULL, {fields}{OWN_DEFINITIONS})",
            self.route
        ))
    }

    fn save_columns(&self, connection: &Connection, from: usize) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO _columns (route, field, \"column\", position) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for (position, (field, column)) in self.columns.iter().enumerate().skip(from) {
            let position = i64::try_from(position).expect("capped");
            statement.execute((self.route.as_str(), field, column, position))?;
        }
        Ok(())
    }

    fn upsert_sql(&self) -> String {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|(_, column)| quoted(column))
            .collect();
        let list: String = names.iter().map(|name| format!("{name}, ")).collect();
        let sets: String = names
            .iter()
            .map(|name| format!("{name} = excluded.{name}, "))
            .collect();
        let marks = vec!["?"; names.len() + 1 + OWN.len()].join(", ");
        format!(
            "INSERT INTO \"{}\" (id, {list}{}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET \
             {sets}_business = excluded._business, _changed_at = excluded._changed_at, \
             _last_seen_at = iif(_last_seen_at IS NULL, NULL, excluded._last_seen_at), _seq = excluded._seq, _via = excluded._via",
            self.route,
            OWN.join(", "),
        )
    }
}

/// A name, or the name with the first number behind it that is not taken.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    std::iter::once(name.to_owned())
        .chain((2..).map(|number| format!("{name}_{number}")))
        .find(|name| !is_taken(name))
        .expect("the numbers do not end")
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A JSON value as a SQLite value: text as text, numbers as received, booleans as 0 and 1, objects
/// and arrays as JSON text. An integer that needs more than 64 bits is kept as text with all
/// digits.
fn cell(json: &str) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    match json.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => true.into(),
        Some(b'f') => false.into(),
        // A lone surrogate is valid JSON but not text: its escape is kept as received.
        Some(b'"') => serde_json::from_str::<String>(json)
            .map_or_else(|_| text(&json[1..json.len() - 1]), Value::Text),
        Some(b'-' | b'0'..=b'9') => {
            if let Ok(integer) = json.parse::<i64>() {
                return integer.into();
            }
            let real = json.parse::<f64>().ok().filter(|real| real.is_finite());
            match real.filter(|_| json.contains(['.', 'e', 'E'])) {
                Some(real) => real.into(),
                None => text(json),
            }
        }
        _ => text(json),
    }
}
