//! Looks at the status every few seconds and tells the sinks of `[alerts]` what is wrong.
//!
//! A status that cannot be read says nothing; a store that cannot be written is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::status::WorkspaceStatus;
use crate::status::alerts::{AlertWatch, Origin, symptoms};
use crate::store::StoreError;

/// The time between two looks, and before the first one: what was paused before a restart is then
/// paused again.
const EVERY: Duration = Duration::from_secs(10);

/// Tells the sinks until stopped.
pub(super) async fn run(
    sinks: Vec<String>,
    watch: Watch,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut watches: BTreeMap<String, AlertWatch> = sinks
        .iter()
        .map(|sink| (sink.clone(), AlertWatch::default()))
        .collect();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
        if watches.is_empty() {
            continue;
        }
        let Some(Some(status)) = stop.run_until_cancelled(watch.snapshot()).await else {
            continue;
        };
        match look(&mut watches, &watch, &status).await {
            // The next look is soon.
            Err(error) if error.is_transient() => {}
            looked => looked.context("storing alerts")?,
        }
    }
}

async fn look(
    watches: &mut BTreeMap<String, AlertWatch>,
    daemon: &Watch,
    status: &WorkspaceStatus,
) -> Result<(), StoreError> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let origin = Origin {
        workspace: status.workspace.clone(),
        host,
    };
    for (sink, watch) in watches {
        let name = sink.clone();
        let known = daemon
            .store
            .read(move |reader| reader.alerts(&name))
            .await?;
        let found = symptoms(status, sink);
        let steps = watch.judge(&known, &found, &origin, daemon.clock.now());
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
