//! Makes the index of all words again when it was found damaged, in small steps beside polling.
//!
//! Nothing here ends the daemon: without the index, everything but searches goes on.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::TaskEnd;
use crate::store::{SearchIndex, Store, StoreError};

/// The pause between two steps, which leaves the store to the polls.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait after a step that failed.
const RETRY: Duration = Duration::from_secs(60);

/// Waits for damage and repairs it until stopped.
pub(super) async fn run(store: Store, stop: CancellationToken) -> anyhow::Result<TaskEnd> {
    let mut seen = store.search_index();
    loop {
        let damaged = async {
            // The store lives as long as this task, so that waiting cannot fail.
            let _ = seen.wait_for(|index| *index != SearchIndex::Whole).await;
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(TaskEnd::Other),
            () = damaged => {}
        }
        tracing::warn!(
            "the search index is damaged and is made again; until then `shopmirror find` and the page's search miss records"
        );
        if stop.run_until_cancelled(renew(&store)).await.is_none() {
            return Ok(TaskEnd::Other);
        }
    }
}

async fn renew(store: &Store) {
    let mut is_logged = false;
    loop {
        let pause = match store.renew_search_index().await {
            Ok(SearchIndex::Whole) => {
                tracing::info!("the search index is whole again");
                return;
            }
            Ok(_) => PAUSE,
            Err(StoreError::Closing) => return,
            Err(error) => {
                if !is_logged && !error.passes() {
                    is_logged = true;
                    tracing::error!(
                        error = format!("{:#}", anyhow::Error::from(error)),
                        "the search index cannot be made again: polling and delivery go on without it; to search again, restore a backup"
                    );
                }
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}
