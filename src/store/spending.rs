//! What a later process must know of this one's requests, as text: one row of the table `_meta`.

use super::error::StoreError;
use super::handle::Store;
use super::meta;
use super::open::write_tx;
use super::operate::Operator;
use super::reader::Reader;

const NAME: &str = "spending";

impl Store {
    /// Keeps what a later process must know of this one's requests.
    ///
    /// # Errors
    /// What was kept before stays.
    pub async fn keep_spending(&self, text: String) -> Result<(), StoreError> {
        self.write(move |writer| Ok(meta::set(&writer.connection, NAME, &text)?)).await
    }
}

impl Reader {
    /// What an earlier process left to know of its requests, if there was one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn spending(&self) -> Result<Option<String>, StoreError> {
        Ok(meta::value(&self.connection, NAME)?)
    }
}

impl Operator {
    /// Changes what is known of the requests of earlier processes, or of the daemon that runs.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn update_spending(
        &mut self,
        change: impl FnOnce(Option<String>) -> String,
    ) -> Result<(), StoreError> {
        let tx = write_tx(&mut self.connection)?;
        let text = change(meta::value(&tx, NAME)?);
        meta::set(&tx, NAME, &text)?;
        Ok(tx.commit()?)
    }
}
