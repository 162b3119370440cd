//! Values of other modules that the store keeps for them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::handle::Store;
use super::meta;
use super::open::write_tx;
use super::operate::Operator;
use super::reader::Reader;

/// A value of another module that the store keeps as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Kept(pub(super) &'static str);

impl Kept {
    /// What a later process must know of this one's requests.
    pub const SPENDING: Self = Self("spending");
    /// The part of the configuration that readers of the database need.
    pub const SHARED_CONFIG: Self = Self("shared_config");
    /// What became of each scheduled report, so that a restart neither repeats nor forgets one.
    pub const REPORT_RUNS: Self = Self("scheduled_reports");
    /// The workspace that fills the store.
    pub const WORKSPACE: Self = Self("workspace");
    /// Another workspace that was met instead.
    pub const OTHER_WORKSPACE: Self = Self("workspace_other");
    /// When the custom fields of every form were last read.
    pub const FORMS_READ: Self = Self("custom_fields_read");
}

impl Store {
    /// Keeps a value in place of the one before. The same one costs no write.
    ///
    /// # Errors
    /// What was kept before stays.
    pub async fn keep(&self, what: Kept, value: &impl Serialize) -> Result<(), StoreError> {
        let text = meta::text_of(value);
        self.write(move |writer| {
            if meta::value(&writer.connection, what.0)?.as_deref() != Some(&text) {
                meta::set(&writer.connection, what.0, &text)?;
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
        Ok(meta::read(&self.connection, what.0)?)
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
        let changed = change(meta::read(&tx, what.0)?);
        meta::write(&tx, what.0, &changed)?;
        Ok(tx.commit()?)
    }
}
