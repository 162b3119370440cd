//! The mirror: one table per route, for people with `sqlite3` and for report tools.
//!
//! `id` is the first column, as text, so that it joins with integers and with strings. Then comes
//! one untyped column per top-level field, in the order of first appearance, then our own columns
//! and those that reports calculate with.
//! A column is added when its field first appears and is never dropped or retyped.

pub(super) mod browse;
pub(super) mod derived;
pub(super) mod field_rules;
pub(super) mod history;
pub(super) mod job_links;
pub(super) mod job_states;
pub(super) mod job_words;
pub(super) mod related;
pub(super) mod reread;
pub(super) mod unheard;
pub(super) mod views;
pub(super) mod word_fields;

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, named_params};
use serde::Deserialize;
use shopmirror_core::record::{Fields, Route};

use crate::store::sightings;
use crate::store::sql::Sql;
use field_rules::FieldRules;
use job_links::JobLink;

/// Our own columns in every mirror table, after the fields.
const OWN: [&str; 7] = [
    "_business",
    "_first_seen_at",
    "_changed_at",
    "_last_seen_at",
    "_vanished_at",
    "_seq",
    "_via",
];
const OWN_DEFINITIONS: &str = "_business, _first_seen_at TEXT NOT NULL, \
     _changed_at TEXT NOT NULL, _last_seen_at TEXT, _vanished_at TEXT, _seq INTEGER NOT NULL, _via";
/// SQLite's names for the row number, unless a column has that name.
const ROW_NUMBER: [&str; 3] = ["rowid", "oid", "_rowid_"];
/// A field past this many columns is only in the body of the log.
const MAX_COLUMNS: usize = 256;
/// A column's name is cut to this many bytes.
const MAX_NAME: usize = 200;

/// Creates the tables that are not there: all six in a new store.
pub(super) fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    for route in Route::ALL {
        Mirror::load(connection, route)?.create(connection)?;
    }
    Ok(())
}

/// A table that is not there although the log has records of its route. An empty one in its place
/// would show none of them.
pub(super) fn missing_table(connection: &Connection) -> rusqlite::Result<Option<Route>> {
    for route in Route::ALL {
        let is_missing: bool = connection.value(
            "SELECT
                NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = :route)
                AND EXISTS (SELECT 1 FROM changes WHERE route = :route AND record_id <> '')",
            named_params! { ":route": route.as_str() },
        )?;
        if is_missing {
            return Ok(Some(route));
        }
    }
    Ok(None)
}

/// The columns of the fields of a route, in the order of first appearance.
pub(super) fn field_columns(
    connection: &Connection,
    route: Route,
) -> rusqlite::Result<Vec<String>> {
    let sql = r#"
        SELECT "column"
        FROM _columns
        WHERE route = :route
        ORDER BY position"#;
    connection.values(sql, named_params! { ":route": route.as_str() })
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
    /// When it was found that the record is gone from its list.
    pub(super) vanished_at: Option<String>,
    pub(super) seq: i64,
    pub(super) via: Option<String>,
}

/// The table of a route: which column holds which field, in the order of first appearance, and the
/// statements that follow from it, so that none is written again for each record.
#[derive(Debug)]
pub(super) struct Mirror {
    route: Route,
    columns: Vec<(String, String)>,
    upsert: String,
    /// `None` if the records of the route do not name their job.
    link: Option<JobLink>,
    /// Finds the jobs of a record by the link.
    find_jobs: Option<String>,
}

impl Mirror {
    /// Reads which column holds which field.
    pub(super) fn load(connection: &Connection, route: Route) -> rusqlite::Result<Self> {
        let sql = r#"
            SELECT field, "column"
            FROM _columns
            WHERE route = :route
            ORDER BY position"#;
        let columns: Vec<(String, String)> = connection
            .prepare_cached(sql)?
            .query_map(named_params! { ":route": route.as_str() }, |row| {
                row.try_into()
            })?
            .collect::<rusqlite::Result<_>>()?;
        let link = job_links::of_route(connection, route)?;
        Ok(Self {
            route,
            upsert: upsert_sql(route, &columns),
            columns,
            find_jobs: link.as_ref().map(job_links::find_jobs_sql),
            link,
        })
    }

    /// The jobs whose states a record of this table is a source of, by their ids.
    pub(super) fn jobs_of(
        &self,
        connection: &Connection,
        id: &str,
    ) -> rusqlite::Result<Vec<String>> {
        if self.route == Route::Jobs {
            return Ok(vec![id.to_owned()]);
        }
        match &self.find_jobs {
            Some(sql) => connection.values(sql, named_params! { ":id": id }),
            None => Ok(Vec::new()),
        }
    }

    /// The place of the column that holds a field.
    fn place(&self, field: &str) -> Option<usize> {
        self.columns.iter().position(|(stored, _)| stored == field)
    }

    /// Adds a column for each new field; returns whether there was one. A table without rows is
    /// created again, so that our own columns stay last.
    pub(super) fn grow<'f>(
        &mut self,
        connection: &Connection,
        records: impl Iterator<Item = &'f Fields<'f>>,
    ) -> rusqlite::Result<bool> {
        let before = self.columns.len();
        for (name, _) in records.flat_map(Fields::iter) {
            if name != "id" && self.place(name).is_none() {
                self.name_column(name);
            }
        }
        if self.columns.len() == before {
            return Ok(false);
        }
        self.upsert = upsert_sql(self.route, &self.columns);
        let table = self.route.as_str();
        let is_empty = format!("SELECT NOT EXISTS (SELECT 1 FROM \"{table}\")");
        if connection.value(&is_empty, [])? {
            connection.execute_batch(&format!("DROP TABLE \"{table}\""))?;
            self.create(connection)?;
        } else {
            for (_, column) in &self.columns[before..] {
                let column = quoted(column);
                let add = format!("ALTER TABLE \"{table}\" ADD COLUMN {column}");
                connection.execute_batch(&add)?;
            }
        }
        self.save_columns(connection, before)?;
        Ok(true)
    }

    /// Writes a record's row, new or changed, and what was shown of it beside its text.
    pub(super) fn put(
        &self,
        connection: &Connection,
        facts: &RowFacts,
        fields: &Fields<'_>,
        rules: &FieldRules,
    ) -> rusqlite::Result<()> {
        self.note_move(connection, &facts.id, facts.business.as_deref())?;
        self.put_row(connection, facts, fields, rules)?;
        sightings::put(connection, self.route, facts)?;
        match &self.link {
            Some(link) => {
                job_links::move_job_to(connection, link, &facts.id, facts.business.as_deref())
            }
            None => Ok(()),
        }
    }

    /// Writes a record's row alone.
    pub(super) fn put_row(
        &self,
        connection: &Connection,
        facts: &RowFacts,
        fields: &Fields<'_>,
        rules: &FieldRules,
    ) -> rusqlite::Result<()> {
        let mut cells = vec![facts.id.clone().into()];
        cells.extend(self.cells(fields));
        cells.extend([
            facts.business.clone().into(),
            facts.first_seen_at.clone().into(),
            facts.changed_at.clone().into(),
            facts.last_seen_at.clone().into(),
            facts.vanished_at.clone().into(),
            facts.seq.into(),
            facts.via.clone().into(),
        ]);
        cells.extend(rules.cells(fields));
        connection.run(&self.upsert, rusqlite::params_from_iter(cells))?;
        Ok(())
    }

    /// Notes that a record is gone from its list, in a row of the log.
    pub(super) fn mark_vanished(
        &self,
        connection: &Connection,
        id: &str,
        at: &str,
        seq: i64,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE \"{}\"
            SET _vanished_at = :at, _changed_at = :at, _seq = :seq
            WHERE id = :id",
            self.route
        );
        let values = named_params! { ":id": id, ":at": at, ":seq": seq };
        connection.run(&sql, values)?;
        sightings::mark_vanished(connection, self.route, id, at)
    }

    /// Notes that a poll has seen a record that a search had found.
    pub(super) fn seen_by_poll(
        &self,
        connection: &Connection,
        id: &str,
        business: Option<&str>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE \"{}\"
            SET _via = NULL, _business = :business
            WHERE id = :id",
            self.route
        );
        self.note_move(connection, id, business)?;
        connection.run(&sql, named_params! { ":id": id, ":business": business })?;
        sightings::seen_by_poll(connection, self.route, id, business)
    }

    /// Before a record is written: notes that its job was in another business.
    fn note_move(
        &self,
        connection: &Connection,
        id: &str,
        business: Option<&str>,
    ) -> rusqlite::Result<()> {
        if self.route == Route::Jobs {
            return job_links::note_move(connection, id, business);
        }
        match &self.link {
            Some(link) => job_links::move_job_along(connection, link, id, business),
            None => Ok(()),
        }
    }

    /// Lets a record count as first seen at a time: its id belonged to another one before.
    pub(super) fn begin_again(
        &self,
        connection: &Connection,
        id: &str,
        at: &str,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE \"{}\"
            SET _first_seen_at = :at
            WHERE id = :id",
            self.route
        );
        connection.run(&sql, named_params! { ":id": id, ":at": at })?;
        sightings::begin_again(connection, self.route, id, at)
    }

    /// The columns of the records' fields for a `SELECT` from `table`, `id` first, then the derived
    /// ones.
    pub(super) fn column_list(&self, table: &str) -> String {
        let mut list = format!("{table}.id");
        for (_, column) in &self.columns {
            list.push_str(&format!(", {table}.{}", quoted(column)));
        }
        for name in derived::names(self.route) {
            list.push_str(&format!(", {table}.{name}"));
        }
        list
    }

    /// True if a row holds these fields, and by these rules their derived values; `None` while they
    /// are being read again. The columns of [`Self::column_list`] begin at `first`.
    pub(super) fn holds(
        &self,
        row: &Row<'_>,
        first: usize,
        fields: &Fields<'_>,
        rules: Option<&FieldRules>,
    ) -> rusqlite::Result<bool> {
        let mut cells = self.cells(fields);
        if let Some(rules) = rules {
            cells.extend(rules.cells(fields));
        }
        for (place, cell) in cells.into_iter().enumerate() {
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
        let mut taken: HashSet<String> = HashSet::from(["id".to_owned()]);
        taken.extend(OWN.map(str::to_owned));
        taken.extend(derived::names(self.route));
        taken.extend(ROW_NUMBER.map(str::to_owned));
        for (_, column) in &self.columns {
            taken.insert(column.to_ascii_lowercase());
        }
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

    /// Creates the table, unless it exists.
    pub(super) fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut fields = String::new();
        for (_, column) in &self.columns {
            fields.push_str(&format!("{}, ", quoted(column)));
        }
        let mut derived = String::new();
        for (name, declared) in derived::columns(self.route) {
            derived.push_str(&format!(", {name} {declared}"));
        }
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS \"{}\" \
             (id TEXT PRIMARY KEY NOT NULL, {fields}{OWN_DEFINITIONS}{derived})",
            self.route
        ))
    }

    fn save_columns(&self, connection: &Connection, from: usize) -> rusqlite::Result<()> {
        let sql = r#"
            INSERT INTO _columns (route, field, "column", position)
            VALUES (:route, :field, :column, :position)"#;
        for (position, (field, column)) in self.columns.iter().enumerate().skip(from) {
            let position = i64::try_from(position).expect("the number of columns is capped");
            connection.run(
                sql,
                named_params! {
                    ":route": self.route.as_str(),
                    ":field": field,
                    ":column": column,
                    ":position": position,
                },
            )?;
        }
        Ok(())
    }
}

/// Writes a record's row. The values are `id`, those of the columns, those of [`OWN`] and the derived
/// ones. A row that exists keeps its `_first_seen_at`, and the NULL of a record on the newest page.
fn upsert_sql(route: Route, columns: &[(String, String)]) -> String {
    let mut list = String::new();
    let mut sets = String::new();
    for (_, column) in columns {
        let name = quoted(column);
        list.push_str(&format!("{name}, "));
        sets.push_str(&format!("{name} = excluded.{name}, "));
    }
    let mut own = OWN.join(", ");
    let derived = derived::names(route);
    for name in &derived {
        own.push_str(&format!(", {name}"));
        sets.push_str(&format!("{name} = excluded.{name}, "));
    }
    let marks = vec!["?"; 1 + columns.len() + OWN.len() + derived.len()].join(", ");
    format!(
        "INSERT INTO \"{route}\" (id, {list}{own})
        VALUES ({marks})
        ON CONFLICT (id) DO UPDATE SET
            {sets}
            _business = excluded._business,
            _changed_at = excluded._changed_at,
            _last_seen_at = iif(_last_seen_at IS NULL, NULL, excluded._last_seen_at),
            _vanished_at = excluded._vanished_at,
            _seq = excluded._seq,
            _via = excluded._via"
    )
}

/// A name, or the name with the first number behind it that is not taken.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    let mut number = 2;
    while is_taken(&free) {
        free = format!("{name}_{number}");
        number += 1;
    }
    free
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A JSON value as a SQLite value: text as text, numbers as received, booleans as 0 and 1, objects
/// and arrays as JSON text.
fn cell(json: &str) -> Value {
    match json.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => true.into(),
        Some(b'f') => false.into(),
        Some(b'"') => match serde_json::from_str(json) {
            Ok(text) => Value::Text(text),
            // A lone surrogate is valid JSON but not text: its escape is stored as received.
            Err(_) => Value::Text(json[1..json.len() - 1].to_owned()),
        },
        Some(b'-' | b'0'..=b'9') => number(json),
        _ => Value::Text(json.to_owned()),
    }
}

/// A number as an integer or a real. An integer that needs more than 64 bits is stored as text with
/// all digits.
fn number(json: &str) -> Value {
    if let Ok(integer) = json.parse::<i64>() {
        return integer.into();
    }
    if json.contains(['.', 'e', 'E'])
        && let Ok(real) = json.parse::<f64>()
        && real.is_finite()
    {
        return real.into();
    }
    Value::Text(json.to_owned())
}
