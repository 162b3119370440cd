//! Reads the status every few seconds and notifies the sinks of `[alerts]` of what is wrong.
//!
//! A status that cannot be read proves nothing; a store that cannot be written is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::status::WorkspaceStatus;
use crate::status::alerts::{AlertWatch, Origin, symptoms};
use crate::store::StoreError;

/// The time between two checks, and before the first one: what was paused before a restart is then
/// paused again.
const EVERY: Duration = Duration::from_secs(10);

/// Notifies the sinks until stopped.
pub(super) async fn run(
    sinks: Vec<String>,
    daemon: DaemonHandle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut watches: BTreeMap<String, AlertWatch> = BTreeMap::new();
    for sink in sinks {
        watches.insert(sink, AlertWatch::default());
    }
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
        if watches.is_empty() {
            continue;
        }
        let Some(Some(status)) = stop.run_until_cancelled(daemon.snapshot()).await else {
            continue;
        };
        match check(&mut watches, &daemon, &status).await {
            // The next check is soon.
            Err(error) if error.is_transient() => {}
            checked => checked.context("storing alerts")?,
        }
    }
}

/// Compares the status with the alerts that each sink has, and stores the notices that follow.
async fn check(
    watches: &mut BTreeMap<String, AlertWatch>,
    daemon: &DaemonHandle,
    status: &WorkspaceStatus,
) -> Result<(), StoreError> {
    let system = rustix::system::uname();
    let origin = Origin {
        workspace: status.workspace.clone(),
        host: system.nodename().to_string_lossy().into_owned(),
    };
    for (sink, watch) in watches {
        let name = sink.clone();
        let read = daemon.store.read(move |reader| reader.alerts(&name));
        let stored = read.await?;
        let found = symptoms(status, sink);
        let steps = watch.judge(&stored, &found, &origin, daemon.clock.now());
        if steps.is_empty() {
            continue;
        }
        daemon.store.save_alerts(sink.clone(), steps).await?;
        if let Some(handle) = daemon.state.borrow().sinks.get(sink) {
            handle.wake();
        }
    }
    Ok(())
}
