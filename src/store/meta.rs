//! Single values under a name, in the table `_meta`.

use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::handle::Store;
use super::open::write_tx;
use super::operate::Operator;
use super::reader::Reader;
use super::sql::Sql;

/// The name of the business that answers where none is asked for, as `X-Business` says it.
pub(super) const DEFAULT_BUSINESS: &str = "default_business";

/// A value of another module that the store keeps as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Kept(&'static str);

impl Kept {
    /// What a later process must know of this one's requests.
    pub const SPENDING: Self = Self("spending");
    /// The part of the configuration that readers of the database need.
    pub const SHARED_CONFIG: Self = Self("shared_config");
    /// What became of each scheduled report, so that a restart neither repeats nor forgets one.
    pub const REPORT_RUNS: Self = Self("scheduled_reports");
}

impl Store {
    /// Keeps a value in place of the one before. The same one costs no write.
    ///
    /// # Errors
    /// What was kept before stays.
    pub async fn keep(&self, what: Kept, value: &impl Serialize) -> Result<(), StoreError> {
        let text = text_of(value);
        self.write(move |writer| {
            if self::value(&writer.connection, what.0)?.as_deref() != Some(&text) {
                set(&writer.connection, what.0, &text)?;
            }
            Ok(())
        })
        .await
    }
}

impl Reader {
    /// The value that is kept, if there is one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn kept<T: DeserializeOwned>(&self, what: Kept) -> Result<Option<T>, StoreError> {
        Ok(read(&self.connection, what.0)?)
    }
}

impl Operator {
    /// Changes a value beside the daemon, or without one.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn change_kept<T: DeserializeOwned + Serialize>(
        &mut self,
        what: Kept,
        change: impl FnOnce(Option<T>) -> T,
    ) -> Result<(), StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let changed = change(read(&tx, what.0)?);
        write(&tx, what.0, &changed)?;
        Ok(tx.commit()?)
    }
}

fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is kept can always be written as JSON")
}

/// The value under a name as it was written by [`write`]. One that another version wrote in a form of its own counts
/// as none.
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
    connection.value("SELECT value FROM _meta WHERE name = ?1", [name]).optional()
}

/// Puts a text under a name, in place of the one before.
pub(super) fn set(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO _meta (name, value) VALUES (?1, ?2)";
    connection.run(sql, (name, value))?;
    Ok(())
}

/// Removes the value under a name, if there is one.
pub(super) fn remove(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.run("DELETE FROM _meta WHERE name = ?1", [name])?;
    Ok(())
}
