//! Single values under a name, in the table `meta`.

use rusqlite::{Connection, OptionalExtension};

/// The name of the business that answers where none is asked for, as `X-Business` says it.
pub(super) const DEFAULT_BUSINESS: &str = "default_business";

/// The value under a name; `None` if there is no such row.
pub(super) fn value(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM _meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

/// Puts a value under a name, in place of the one before.
pub(super) fn set(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO _meta (name, value) VALUES (?1, ?2)")?
        .execute((name, value))?;
    Ok(())
}

/// Removes the value under a name, if there is one.
pub(super) fn remove(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM _meta WHERE name = ?1")?.execute([name])?;
    Ok(())
}
