//! Sends the heartbeat of `[alerts]` while the program works.
//!
//! It ends with the process, the machine or the line, and while health is failing, so that a service
//! elsewhere notices each of them.

use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::config::HeartbeatSettings;
use crate::sink::Heartbeat;
use crate::status::Health;

/// Sends a heartbeat each time that its interval has passed, until stopped. The first one comes
/// after an interval, so that a program that ends soon after each start sends none.
pub(super) async fn run(
    settings: HeartbeatSettings,
    daemon: DaemonHandle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let heartbeat = match Heartbeat::new(&settings) {
        Ok(heartbeat) => heartbeat,
        Err(error) => {
            // Polling and delivery do not need it.
            tracing::error!(%error, "no heartbeat is sent until this is fixed and reloaded");
            stop.cancelled().await;
            return Ok(());
        }
    };
    let mut was_refused = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(settings.every) => {}
        }
        let Some(sent) = stop.run_until_cancelled(beat(&heartbeat, &daemon)).await else {
            return Ok(());
        };
        match sent {
            Ok(true) if was_refused => {
                was_refused = false;
                tracing::warn!("the heartbeat is sent again");
            }
            Ok(_) => {}
            Err(error) if !was_refused => {
                was_refused = true;
                tracing::warn!(error, "the heartbeat was not sent and is tried again");
            }
            Err(_) => {}
        }
    }
}

/// One heartbeat; false if there was no address to request. Tasks that do not answer are a failure.
async fn beat(heartbeat: &Heartbeat, daemon: &DaemonHandle) -> Result<bool, String> {
    let works = match daemon.snapshot().await {
        Some(status) => status.health != Health::Failing,
        None => false,
    };
    heartbeat.send(works).await
}
