//! How statements are run: each is prepared once a connection, and a row is read as the struct
//! whose fields have the names of its columns. Enums are the words that they have in JSON.

use rusqlite::types::{FromSql, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Runs statements on a connection.
pub(super) trait Sql {
    fn connection(&self) -> &Connection;

    /// Runs a statement that returns nothing; returns how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
        self.connection().prepare_cached(sql)?.execute(values)
    }

    /// The first column of the first row.
    fn value<T: FromSql>(&self, sql: &str, values: impl Params) -> rusqlite::Result<T> {
        self.connection()
            .prepare_cached(sql)?
            .query_row(values, |row| row.get(0))
    }

    /// The first column of each row.
    fn values<T: FromSql>(&self, sql: &str, values: impl Params) -> rusqlite::Result<Vec<T>> {
        self.connection()
            .prepare_cached(sql)?
            .query_map(values, |row| row.get(0))?
            .collect()
    }

    /// The first row, if there is one.
    fn row<T>(&self, sql: &str, values: impl Params) -> rusqlite::Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        self.connection()
            .prepare_cached(sql)?
            .query_row(values, read)
            .optional()
    }

    /// Every row.
    fn rows<T>(&self, sql: &str, values: impl Params) -> rusqlite::Result<Vec<T>>
    where
        T: DeserializeOwned,
    {
        self.connection()
            .prepare_cached(sql)?
            .query_map(values, read)?
            .collect()
    }
}

impl Sql for Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

/// The word that an enum has in JSON, in the tables and in listings.
#[must_use]
pub fn word(of: &impl Serialize) -> String {
    let word = serde_json::to_value(of).expect("an enum without content is a word");
    word.as_str().unwrap_or_default().to_owned()
}

/// Reads a row as a struct. Of two columns of one name, the last one counts.
pub(super) fn read<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    serde_json::from_value(Value::Object(object(row)?))
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

/// A row as a JSON object.
pub(super) fn object(row: &Row<'_>) -> rusqlite::Result<Map<String, Value>> {
    let names = row.as_ref().column_names().enumerate();
    names
        .map(|(place, name)| Ok((name.to_owned(), json_value(row.get_ref(place)?))))
        .collect()
}

fn json_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => real.into(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned().into()
        }
    }
}

/// Reads a column that holds JSON text; the same in JSON is taken as it is.
pub(super) fn json<'de, T, D>(column: D) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let read = match Value::deserialize(column)? {
        Value::String(text) => serde_json::from_str(&text),
        value => serde_json::from_value(value),
    };
    read.map_err(D::Error::custom)
}

/// Reads a column that holds 0 or 1.
pub(super) fn flag<'de, D: Deserializer<'de>>(column: D) -> Result<bool, D::Error> {
    Ok(i64::deserialize(column)? != 0)
}
