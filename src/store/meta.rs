//! Single values under a name, in the table `_meta`.

use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sql::Sql;

/// The name of the business that answers where none is asked for, as `X-Business` says it.
pub(super) const DEFAULT_BUSINESS: &str = "default_business";

/// A value as JSON.
pub(super) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is kept can always be written as JSON")
}

/// The value under a name as it was written by [`write`]. One that another version wrote in a form
/// of its own counts as none.
pub(super) fn read<T: DeserializeOwned>(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<T>> {
    Ok(value(connection, name)?.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Puts a value under a name as JSON.
pub(super) fn write(
    connection: &Connection,
    name: &str,
    value: &impl Serialize,
) -> rusqlite::Result<()> {
    set(connection, name, &text_of(value))
}

/// The text under a name; `None` if there is no such row.
pub(super) fn value(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection
        .value("SELECT value FROM _meta WHERE name = ?1", [name])
        .optional()
}

/// Puts a text under a name, in place of the one before.
pub(super) fn set(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO _meta (name, value) VALUES (?1, ?2)";
    connection.run(sql, (name, value))?;
    Ok(())
}
