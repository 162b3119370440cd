//! Keeps the search index up to date, in small steps beside polling.
//!
//! Nothing here ends the daemon: without the index, everything but searches goes on.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// The pause between two steps, which leaves the processor to the polls.
const PAUSE: Duration = Duration::from_millis(20);
/// How often to look whether the file was deleted, or whether a command has written; also the wait
/// after a step that failed.
const LOOK: Duration = Duration::from_secs(5);

/// Follows the log until stopped.
pub(super) async fn run(store: Store, stop: CancellationToken) -> anyhow::Result<()> {
    let mut log = store.last_seq();
    let mut was_failing = false;
    loop {
        log.mark_unchanged();
        let stepped = store.index_more().await;
        let is_whole = stepped.as_ref().is_ok_and(|progress| progress.is_whole());
        let pause = match &stepped {
            Ok(_) if !is_whole => PAUSE,
            _ => LOOK,
        };
        let is_failing = stepped.is_err();
        if let Err(error) = stepped
            && !was_failing
        {
            tracing::error!(
                error = format!("{:#}", anyhow::Error::from(error)),
                "the search index cannot be brought up to date: searches miss the newest records until the cause is fixed; everything else goes on"
            );
        }
        was_failing = is_failing;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = log.changed(), if is_whole => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
