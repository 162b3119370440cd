//! The tasks of one configuration, without the deliveries: how they start, what ends them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "s3")]
use super::offsite::Offsite;
use super::scheduled::Scheduled;
use super::shared::{DaemonHandle, result_of};
use super::{alerts, dispatcher, heartbeat, notify, search_index, upkeep};
use crate::api::Client;
use crate::config::Config;
use crate::poll::{Dispatcher, DispatcherRequest};
use crate::recover::{CustomFields, MissedCustomers};

/// How long a task other than a delivery may take to end before it is cancelled.
pub(super) const TASK_GRACE: Duration = Duration::from_secs(6);

/// The tasks of one configuration, without the deliveries.
pub(super) struct RunningTasks {
    tasks: JoinSet<anyhow::Result<()>>,
    /// The dispatcher, once it has ended.
    polled: oneshot::Receiver<Dispatcher>,
    /// Makes the tasks end after their current work.
    finish: CancellationToken,
}

/// The requests that the dispatchers of all configurations take, one dispatcher after the other.
pub(super) type Inbox = Arc<Mutex<mpsc::Receiver<DispatcherRequest>>>;

impl RunningTasks {
    pub(super) async fn start(
        config: &Config,
        client: Client,
        daemon: &DaemonHandle,
        inbox: Inbox,
        before: Option<Dispatcher>,
    ) -> anyhow::Result<Self> {
        let finish = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let DaemonHandle {
            store,
            clock,
            background,
            state,
            ..
        } = daemon.clone();

        let missed = MissedCustomers {
            store: store.clone(),
            background: background.clone(),
            clock: clock.clone(),
        };
        let stop = finish.clone();
        tasks.spawn(async move {
            missed
                .run(stop)
                .await
                .context("searching for missed customers")
        });
        let fields = CustomFields {
            background,
            store: store.clone(),
            clock: clock.clone(),
            businesses: config.workspace.polled_businesses(),
        };
        let stop = finish.clone();
        tasks.spawn(async move {
            fields
                .run(stop)
                .await
                .context("keeping the custom fields fresh")
        });

        let dispatcher = dispatcher(config, client, clock.clone(), &store, before).await?;
        let clocks = dispatcher.clocks();
        let stop = finish.clone();
        let (leave, polled) = oneshot::channel();
        tasks.spawn(async move {
            let mut inbox = inbox.lock().await;
            let dispatcher = dispatcher.run(&mut inbox, stop).await.context("polling")?;
            // The receiver may be gone at a stop.
            let _ = leave.send(dispatcher);
            Ok(())
        });

        state.send_modify(|state| {
            state.backup = None;
            state.offsite = None;
        });
        #[cfg(feature = "s3")]
        if let Some(offsite) = config.backup.offsite.clone() {
            let offsite = Offsite {
                backup: config.backup.clone(),
                offsite,
                reports: config.reports.folder.clone(),
                daemon: daemon.clone(),
                clocks: clocks.clone(),
            };
            tasks.spawn(offsite.run(finish.clone()));
        }
        let scheduled = Scheduled {
            backup: config.backup.clone(),
            reports: config.reports.clone(),
            zone: config.workspace.time_zone.clone(),
            locale: config.workspace.own_locale(),
            clocks: clocks.clone(),
            daemon: daemon.clone(),
        };
        tasks.spawn(scheduled.run(finish.clone()));
        tasks.spawn(alerts::run(
            config.alerts.sinks.clone(),
            daemon.clone(),
            finish.clone(),
        ));
        if let Some(settings) = config.alerts.heartbeat.clone() {
            tasks.spawn(heartbeat::run(settings, daemon.clone(), finish.clone()));
        }
        if notify::is_wanted() {
            tasks.spawn(notify::run(daemon.clone(), finish.clone()));
        }
        tasks.spawn(search_index::run(store.clone(), finish.clone()));
        let retention = config.store.log_retention;
        tasks.spawn(upkeep::run(retention, clock, clocks, store, finish.clone()));
        Ok(Self {
            tasks,
            polled,
            finish,
        })
    }

    /// Waits for a task that ends without a request, which is a fault.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        ended_early(self.tasks.join_next().await)
    }

    /// Waits up to [`TASK_GRACE`] for every task to finish its current work; `abort` ends them at once.
    /// Returns the dispatcher, for the next configuration.
    pub(super) async fn finish(
        mut self,
        abort: &CancellationToken,
    ) -> anyhow::Result<Option<Dispatcher>> {
        self.finish.cancel();
        let mut failure = None;
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Err(error) = result_of(ended) {
                    failure = Some(error);
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = abort.cancelled() => {}
            () = tokio::time::sleep(TASK_GRACE) => {
                tracing::error!("a task did not end in time and was cancelled");
            }
        }
        self.tasks.shutdown().await;
        match failure {
            Some(error) => Err(error),
            None => Ok(self.polled.try_recv().ok()),
        }
    }
}

/// Why a task has ended that was not to end.
fn ended_early(ended: Option<Result<anyhow::Result<()>, JoinError>>) -> anyhow::Error {
    if let Some(ended) = ended
        && let Err(error) = result_of(ended)
    {
        return error;
    }
    anyhow!("a task ended without a stop request; report this as a bug")
}
