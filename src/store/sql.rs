//! How statements are run: each is prepared once a connection, and a row is read column by column
//! as the struct whose fields have the names of its columns. Enums are the words that they have in
//! JSON.

use rusqlite::types::{FromSql, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use serde::de::value::{Error as ReadError, MapDeserializer};
use serde::de::{DeserializeOwned, Error, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
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

/// Reads a row as a struct. Of two columns of one name, the last one counts.
pub(super) fn read<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    let statement = row.as_ref();
    let mut columns: Vec<(&str, Column<'_>)> = Vec::with_capacity(statement.column_count());
    for place in 0..statement.column_count() {
        let name = statement.column_name(place)?;
        let column = Column(row.get_ref(place)?);
        match columns.iter_mut().find(|(earlier, _)| *earlier == name) {
            Some((_, earlier)) => *earlier = column,
            None => columns.push((name, column)),
        }
    }
    T::deserialize(MapDeserializer::new(columns.into_iter())).map_err(unreadable)
}

fn unreadable(error: ReadError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

/// One value of a row, for serde.
struct Column<'r>(ValueRef<'r>);

impl<'de> IntoDeserializer<'de, ReadError> for Column<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Column<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            ValueRef::Null => visitor.visit_unit(),
            ValueRef::Integer(integer) => visitor.visit_i64(integer),
            ValueRef::Real(real) => visitor.visit_f64(real),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                visitor.visit_str(&String::from_utf8_lossy(bytes))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.0 == ValueRef::Null {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    /// SQLite has no booleans: 0 is false.
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            ValueRef::Integer(integer) => visitor.visit_bool(integer != 0),
            _ => self.deserialize_any(visitor),
        }
    }

    /// An enum without content is stored as its word.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            ValueRef::Text(bytes) => {
                let word = String::from_utf8_lossy(bytes);
                visitor.visit_enum(word.as_ref().into_deserializer())
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum State {
        Open,
        PartlyRepaired,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        after: i64,
        upto: Option<i64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wide {
        id: String,
        state: State,
        other: Option<State>,
        is_new: bool,
        is_old: bool,
        amount: f64,
        whole: f64,
        note: Option<String>,
        absent: Option<String>,
        #[serde(deserialize_with = "json")]
        names: Vec<String>,
        #[serde(flatten)]
        inner: Inner,
    }

    const ROW: &str = "SELECT 'first' AS id, 'open' AS state, 'partly_repaired' AS other, \
         2 AS is_new, \
         0 AS is_old, 1.5 AS amount, 3 AS whole, NULL AS note, '[\"a\"]' AS names, 7 AS after, \
         NULL AS upto, x'00' AS unused, CAST(x'4EFF' AS TEXT) AS id";

    #[test]
    fn a_row_is_read_as_the_struct_whose_fields_its_columns_name() {
        let connection = Connection::open_in_memory().unwrap();
        let wide: Wide = connection.row(ROW, []).unwrap().unwrap();
        let expected = Wide {
            id: "N\u{fffd}".to_owned(),
            state: State::Open,
            other: Some(State::PartlyRepaired),
            is_new: true,
            is_old: false,
            amount: 1.5,
            whole: 3.0,
            note: None,
            absent: None,
            names: vec!["a".to_owned()],
            inner: Inner {
                after: 7,
                upto: None,
            },
        };
        assert_eq!(wide, expected);

        for unreadable in [
            ROW.replace("'open'", "'shut'"),
            ROW.replace("'open'", "1"),
            ROW.replace("7 AS after", "'x' AS after"),
            ROW.replace("1.5 AS amount", "NULL AS amount"),
        ] {
            let read = connection.row::<Wide>(&unreadable, []);
            assert!(
                matches!(read, Err(rusqlite::Error::FromSqlConversionFailure(..))),
                "{unreadable}"
            );
        }
    }
}
