//! Keeping the index usable: what the daemon calls when it was found damaged.

use rusqlite::TransactionBehavior;

use super::{SearchIndex, set_aside, step};
use crate::store::Store;
use crate::store::error::StoreError;
use crate::store::operate::Operator;
use crate::store::writer::Writer;

/// Rows of the log that one step looks at: some milliseconds of work.
const SPAN: i64 = 500;

impl Store {
    /// Leaves the index of all words alone from now on, because a read has found it damaged; the next
    /// steps make it again.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn set_search_aside(&self) -> Result<(), StoreError> {
        self.write(|writer| {
            let tx = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let index = set_aside(&tx)?;
            tx.commit()?;
            writer.index_seen = index;
            Ok(())
        })
        .await
    }

    /// One bounded step of making the index of all words again; returns what it then holds.
    ///
    /// # Errors
    /// [`StoreError::SearchDamaged`] if it cannot even be emptied: it stays unused.
    pub async fn renew_search_index(&self) -> Result<SearchIndex, StoreError> {
        self.write(renew).await
    }
}

fn renew(writer: &mut Writer) -> Result<SearchIndex, StoreError> {
    writer.refuse_long_wal()?;
    match step(&mut writer.connection, SPAN) {
        Ok(index) => {
            writer.index_seen = index;
            Ok(index)
        }
        // Found damaged again while it is filled: begun anew by the next step.
        Err(StoreError::SearchDamaged) if writer.index_seen.is_used() => {
            writer.index_seen = set_aside(&writer.connection)?;
            Ok(writer.index_seen)
        }
        Err(error) => Err(error),
    }
}

impl Operator {
    /// Leaves the index of all words alone until the daemon or a rebuild makes it again.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn set_search_aside(&mut self) -> Result<(), StoreError> {
        set_aside(&self.connection)?;
        Ok(())
    }
}
