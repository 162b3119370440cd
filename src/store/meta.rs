//! Single values under a name, in the table `_meta`: the identity of the store, and what other
//! modules have to find again after a restart.

use rusqlite::{Connection, OptionalExtension, named_params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::handle::Store;
use super::operator::Operator;
use super::reader::Reader;
use super::sql::Sql;

/// The name of the business that answers where none is asked for, as in `X-Business`.
pub(super) const DEFAULT_BUSINESS: &str = "default_business";

/// The name of a value of another module, which is stored as JSON.
#[derive(Debug, Clone, Copy)]
pub struct MetaKey(pub(super) &'static str);

impl MetaKey {
    /// What a later process must know of this one's requests.
    pub const SPENDING: Self = Self("spending");
    /// The part of the configuration that readers of the database need.
    pub const SHARED_CONFIG: Self = Self("shared_config");
    /// The last run of each scheduled report, so that a restart neither repeats nor forgets one.
    pub const REPORT_RUNS: Self = Self("scheduled_reports");
    /// The workspace that fills the store.
    pub const WORKSPACE: Self = Self("workspace");
    /// Another workspace that answered instead.
    pub const OTHER_WORKSPACE: Self = Self("workspace_other");
    /// Of which lists an operator has imported every record since a day.
    pub const COMPLETE_IMPORTS: Self = Self("complete_imports");
    /// The newest backup that is off-site.
    pub const OFFSITE: Self = Self("offsite_backup");
    /// When the custom fields of every form were last read.
    pub const FORMS_READ: Self = Self("custom_fields_read");
}

impl Store {
    /// Stores a value in place of the one before. The same one costs no write.
    pub async fn set_value(&self, key: MetaKey, value: &impl Serialize) -> Result<(), StoreError> {
        let text = text_of(value);
        self.write(move |writer| Ok(set_changed(&writer.connection, key, &text)?))
            .await
    }
}

/// Writes a value unless it is stored already.
pub(super) fn set_changed(
    connection: &Connection,
    key: MetaKey,
    text: &str,
) -> rusqlite::Result<()> {
    if value(connection, key.0)?.as_deref() != Some(text) {
        set(connection, key.0, text)?;
    }
    Ok(())
}

impl Reader {
    /// The value, if one is stored.
    pub fn value<T: DeserializeOwned>(&self, key: MetaKey) -> Result<Option<T>, StoreError> {
        Ok(read(&self.connection, key.0)?)
    }
}

impl Operator {
    /// Changes a value beside the daemon, or without one.
    pub fn update_value<T: DeserializeOwned + Serialize>(
        &mut self,
        key: MetaKey,
        change: impl FnOnce(Option<T>) -> T,
    ) -> Result<(), StoreError> {
        let tx = self.write_tx()?;
        let changed = change(read(&tx, key.0)?);
        write(&tx, key.0, &changed)?;
        Ok(tx.commit()?)
    }
}

/// A value as JSON.
pub(super) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a stored value can always be written as JSON")
}

/// The value that [`write`] stored under a name. A text that does not parse, because another
/// version of the program wrote it, counts as absent.
pub(super) fn read<T: DeserializeOwned>(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<T>> {
    match value(connection, name)? {
        Some(text) => Ok(serde_json::from_str(&text).ok()),
        None => Ok(None),
    }
}

/// Stores a value under a name as JSON.
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
        .value("SELECT value FROM _meta WHERE name = ?", [name])
        .optional()
}

/// Stores a text under a name, in place of the one before.
pub(super) fn set(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "
        INSERT OR REPLACE INTO _meta (name, value)
        VALUES (:name, :value)";
    connection.run(sql, named_params! { ":name": name, ":value": value })?;
    Ok(())
}
