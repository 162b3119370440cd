//! Enums that a table holds as the words that they have in JSON.

use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};

/// Reads a column that holds the word of an enum.
pub(super) fn read<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let word = row.get_ref(column)?.as_str()?;
    T::deserialize(StrDeserializer::<Error>::new(word)).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}
