//! The delivery tasks: one per sink, kept through a reload unless its configuration changed.
//!
//! A task that is replaced or removed finishes the changes in flight, for a while; its successor
//! starts after it. Polling waits for none of this. A task that ends on its own ends the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::build;
use super::shared::{DaemonHandle, SinkHandle, result_of};
use crate::config;
use crate::deliver::{self, Deliverer, Positions, Room, SinkActivity, SinkView};
use crate::store::Store;

/// How long the changes in flight may take before they are cut short; they are then delivered again
/// under the same event ids.
const DELIVERY_GRACE: Duration = Duration::from_secs(6);
/// How long a task that was cut short may take to end before it is abandoned.
const CUT_GRACE: Duration = Duration::from_secs(2);

/// How long a stop takes at most: polling and deliveries end at the same time.
#[cfg(test)]
pub(crate) fn stop_at_most() -> Duration {
    super::running::TASK_GRACE.max(DELIVERY_GRACE + CUT_GRACE)
}

/// One sink's task.
struct RunningSink {
    settings: config::SinkSettings,
    /// Lets the task end after the changes in flight.
    finish: CancellationToken,
    /// Cancelled when the task has ended.
    ended: CancellationToken,
    handle: SinkHandle,
}

/// The delivery tasks of all sinks.
pub(super) struct Deliveries {
    daemon: DaemonHandle,
    /// What the sinks share.
    room: Room,
    positions: Positions,
    tasks: JoinSet<anyhow::Result<()>>,
    running: BTreeMap<String, RunningSink>,
    /// Cuts short the changes in flight of all tasks.
    cut: CancellationToken,
}

impl Deliveries {
    pub(super) fn new(daemon: DaemonHandle, cut: CancellationToken) -> Self {
        Self {
            daemon,
            room: Room::default(),
            positions: Positions::default(),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            cut,
        }
    }

    /// Starts, replaces and removes tasks so that they are those of `sinks`; an unchanged task goes
    /// on. From here on a new sink misses nothing.
    ///
    /// # Errors
    /// If a sink cannot be built or its row cannot be stored; then no task was touched.
    pub(super) async fn configure(
        &mut self,
        sinks: &BTreeMap<String, config::SinkSettings>,
    ) -> anyhow::Result<()> {
        let DaemonHandle { store, clock, .. } = &self.daemon;
        let shared = (&self.room, &self.positions);
        let mut started = Vec::new();
        for (name, settings) in sinks {
            if !self.is_running_with(name, settings) {
                started.push(build::deliverer(name, settings, clock, store, shared)?);
            }
        }
        for (deliverer, _) in &started {
            deliverer.open().await?;
        }
        deliver::retire(store, sinks.keys().cloned().collect()).await?;
        let replaced: BTreeSet<&String> = started.iter().map(|(new, _)| &new.name).collect();
        for name in sinks.keys().filter(|name| !replaced.contains(name)) {
            revive(store, name).await?;
        }
        for (name, running) in &self.running {
            if sinks.contains_key(name) && !replaced.contains(name) {
                // A reload also means: try again now.
                running.handle.wake();
            } else {
                running.finish.cancel();
            }
        }
        for (deliverer, wake) in started {
            self.start(deliverer, wake);
        }
        // A removed sink may come back before its task has ended.
        self.running
            .retain(|name, old| sinks.contains_key(name) || !old.ended.is_cancelled());
        let active = self
            .running
            .iter()
            .filter(|(_, running)| !running.finish.is_cancelled());
        let handle =
            |(name, running): (&String, &RunningSink)| (name.clone(), running.handle.clone());
        let handles = active.map(handle).collect();
        self.daemon.state.send_modify(|state| state.sinks = handles);
        Ok(())
    }

    /// Whether the sink's task runs with these settings. A disabled sink starts again.
    fn is_running_with(&self, name: &str, settings: &config::SinkSettings) -> bool {
        let Some(running) = self.running.get(name) else {
            return false;
        };
        running.settings == *settings
            && !running.finish.is_cancelled()
            && running.handle.view.activity() != Some(SinkActivity::Disabled)
    }

    fn start(&mut self, deliverer: Deliverer, wake: watch::Sender<()>) {
        let finish = CancellationToken::new();
        let ended = CancellationToken::new();
        let running = RunningSink {
            settings: deliverer.settings.clone(),
            finish: finish.clone(),
            ended: ended.clone(),
            handle: SinkHandle {
                view: SinkView::new(&deliverer),
                waker: wake,
            },
        };
        let before = self.running.insert(deliverer.name.clone(), running);
        let cut = self.cut.child_token();
        let store = self.daemon.store.clone();
        self.tasks.spawn(async move {
            let _ended = ended.drop_guard();
            if let Some(before) = before {
                before.ended.cancelled().await;
            }
            // Not before: the task that was replaced may have one refused until it ends.
            revive(&store, &deliverer.name).await?;
            deliver(deliverer, finish, cut).await
        });
    }

    /// Waits for a task to end that was not asked to, and returns why.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        loop {
            match self.tasks.join_next().await {
                None => std::future::pending().await,
                Some(ended) => {
                    if let Err(error) = result_of(ended) {
                        return error;
                    }
                }
            }
        }
    }

    /// Lets all tasks end after the changes in flight.
    pub(super) fn finish(&self) {
        for running in self.running.values() {
            running.finish.cancel();
        }
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// The first failure of a task.
    pub(super) async fn ended(mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            outcome = outcome.and(result_of(ended));
        }
        outcome
    }
}

/// Has the alerts and reports sent again that the sink refused for good.
async fn revive(store: &Store, sink: &str) -> anyhow::Result<()> {
    match store.revive_notices(sink.to_owned()).await {
        // The next reload does it. That the store cannot be written is said where polling waits.
        Err(error) if error.is_transient() => {
            tracing::info!(%error, sink, "alerts and reports that the sink refused are not sent again yet: reload later");
            Ok(())
        }
        revived => Ok(revived?),
    }
}

/// Runs one task until `finish`, and after that no longer than the graces allow.
async fn deliver(
    deliverer: Deliverer,
    finish: CancellationToken,
    cut: CancellationToken,
) -> anyhow::Result<()> {
    let name = deliverer.name.clone();
    if finish.is_cancelled() {
        return Ok(());
    }
    let limit = async {
        finish.cancelled().await;
        tokio::select! {
            () = cut.cancelled() => {}
            () = tokio::time::sleep(DELIVERY_GRACE) => {
                tracing::warn!(sink = %name, "a delivery takes too long: it is cut short, and repeated under the same event id");
                cut.cancel();
            }
        }
        tokio::time::sleep(CUT_GRACE).await;
    };
    tokio::select! {
        // A delivery that has ended is not abandoned because the thread was busy until now.
        biased;
        ended = deliverer.run(finish.clone(), cut.clone()) => {
            ended.with_context(|| format!("sink {name}"))?;
        }
        () = limit => {
            tracing::error!(sink = %name, "the delivery does not end: it is abandoned");
        }
    }
    if finish.is_cancelled() {
        Ok(())
    } else {
        Err(anyhow!("the task of sink {name} ended by itself"))
    }
}
