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
    let heartbeat = Heartbeat::new(&settings)?;
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(settings.every) => {}
        }
        let Some(sent) = stop.run_until_cancelled(beat(&heartbeat, &daemon)).await else {
            return Ok(());
        };
        match sent {
            Ok(()) if is_failing => {
                is_failing = false;
                tracing::warn!("the heartbeat is sent again");
            }
            Ok(()) => {}
            Err(error) if !is_failing => {
                is_failing = true;
                tracing::warn!(
                    error,
                    "the heartbeat was not sent and is tried again: check the addresses in the \
                     files that [alerts] names"
                );
            }
            Err(_) => {}
        }
    }
}

/// One heartbeat. Tasks that do not answer are a failure.
async fn beat(heartbeat: &Heartbeat, daemon: &DaemonHandle) -> Result<(), String> {
    let works = match daemon.snapshot().await {
        Some(status) => status.health != Health::Failing,
        None => false,
    };
    heartbeat.send(works).await
}
