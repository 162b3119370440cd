//! Keeps the search index up to date, in small steps beside polling.
//!
//! Nothing here ends the daemon: without the index, everything but searches continues.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::store::{IndexProgress, Store};

/// The pause between two steps of a long way, which leaves the processor to the polls.
const BETWEEN_STEPS: Duration = Duration::from_millis(20);
/// An index that has the whole log is brought up to date at most once in this time, so that polls in
/// quick succession cost one step.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// How often to check whether the file was deleted, or whether a command has written; also the wait
/// after a step that failed.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Follows the log until stopped.
pub(super) async fn run(store: Store, stop: CancellationToken) -> anyhow::Result<()> {
    let mut log = store.last_seq();
    let mut index = store.search_index();
    let mut was_failing = false;
    loop {
        log.mark_unchanged();
        let progress = match index.follow().await {
            Ok(progress) => {
                if was_failing {
                    // At the priority of the failure, so that who reads only errors sees its end.
                    tracing::error!("the search index can be brought up to date again");
                }
                Some(progress)
            }
            Err(error) => {
                if !was_failing {
                    tracing::error!(
                        error = format!("{:#}", anyhow::Error::from(error)),
                        "the search index cannot be brought up to date: searches miss the newest \
                         records until the cause is fixed; everything else goes on"
                    );
                }
                None
            }
        };
        was_failing = progress.is_none();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = wait_for_work(progress, &mut log) => {}
        }
    }
}

/// Waits until the next step is due; `progress` is that of the last step, `None` if it failed.
async fn wait_for_work(progress: Option<IndexProgress>, log: &mut watch::Receiver<i64>) {
    match progress {
        None => sleep(CHECK_EVERY).await,
        Some(progress) if !progress.is_whole() => sleep(BETWEEN_STEPS).await,
        Some(_) => {
            sleep(BETWEEN_ROUNDS).await;
            // Whether something was stored or the time has passed: the next step finds out.
            let _ = timeout(CHECK_EVERY, log.changed()).await;
        }
    }
}
