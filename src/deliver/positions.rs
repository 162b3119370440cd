//! Positions that only pass changes which their sinks do not want: those of all sinks are saved
//! together a little later, so that fifty such sinks cost one write a page. After a crash the same
//! rows of the log are read again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::store::{Feed, Store, StoreError};

/// The positions of all sinks of a daemon that are not saved.
#[derive(Debug, Clone, Default)]
pub struct Positions {
    unsaved: Arc<Mutex<BTreeMap<String, Feed>>>,
}

impl Positions {
    /// Notes where a sink's position moves.
    pub(super) async fn note(&self, sink: &str, feed: Feed) {
        self.unsaved.lock().await.insert(sink.to_owned(), feed);
    }

    /// Takes back what was noted for a sink; false if it was saved meanwhile.
    pub(super) async fn withdraw(&self, sink: &str) -> bool {
        self.unsaved.lock().await.remove(sink).is_some()
    }

    /// Saves all of them in one transaction.
    ///
    /// # Errors
    /// None is saved.
    pub(super) async fn save(&self, store: &Store) -> Result<(), StoreError> {
        // Locked until they are saved, so that none is taken back in between.
        let mut unsaved = self.unsaved.lock().await;
        if unsaved.is_empty() {
            return Ok(());
        }
        let moves: Vec<(String, Feed)> = unsaved.clone().into_iter().collect();
        store.advance_sinks(moves).await?;
        unsaved.clear();
        Ok(())
    }
}
