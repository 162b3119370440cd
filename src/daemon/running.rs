//! The tasks of one configuration, without the deliveries: how they start, what ends them.

use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::backup::DailyBackup;
use super::deliveries::Deliveries;
use super::health::{Outside, Watch};
use super::open_page::OpenPage;
use super::scheduled_reports::ScheduledReports;
use super::{Signals, alerts, dispatcher, notify, requests, search_index, upkeep};
use crate::api::Client;
use crate::clock::Clock;
use crate::config::Config;
use crate::poll::{BackgroundClient, DispatcherRequest, Handover};
use crate::recover::{CustomFields, MissedCustomers};
use crate::store::Store;

/// How long a task other than a delivery may take to end before it is cancelled.
pub(super) const GRACE: Duration = Duration::from_secs(6);

/// The tasks of one configuration, without the deliveries.
pub(super) struct RunningTasks {
    tasks: JoinSet<anyhow::Result<()>>,
    /// What the dispatcher leaves to the next one.
    handover: oneshot::Receiver<Handover>,
    /// Tells the tasks to end after their current work.
    finish: CancellationToken,
    requests: mpsc::Sender<DispatcherRequest>,
    /// Tells how the tasks are doing.
    pub(super) watch: Watch,
}

impl RunningTasks {
    pub(super) async fn start(
        config: &Config,
        client: Client,
        clock: Clock,
        store: &Store,
        handover: Option<Handover>,
        outside: Outside,
    ) -> anyhow::Result<Self> {
        let finish = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (requests, inbox) = mpsc::channel(16);

        let background = BackgroundClient::new(requests.clone());
        let missed = MissedCustomers {
            store: store.clone(),
            background: background.clone(),
            clock: clock.clone(),
        };
        let stop = finish.clone();
        tasks
            .spawn(async move { missed.run(stop).await.context("searching for missed customers") });
        let fields = CustomFields {
            background: background.clone(),
            store: store.clone(),
            clock: clock.clone(),
            businesses: config.workspace.polled_businesses(),
        };
        let stop = finish.clone();
        tasks.spawn(
            async move { fields.run(stop).await.context("keeping the custom fields fresh") },
        );

        let dispatcher = dispatcher(config, client, clock.clone(), store, handover).await?;
        let clocks = dispatcher.clocks();
        let stop = finish.clone();
        let (leave, handover) = oneshot::channel();
        tasks.spawn(async move {
            // Without a reader nothing follows.
            let _ = leave.send(dispatcher.run(inbox, stop).await.context("polling")?);
            Ok(())
        });

        let backup = watch::Sender::new(None);
        let reports = watch::Sender::new(Vec::new());
        let scheduled = ScheduledReports {
            settings: config.reports.clone(),
            zone: config.workspace.time_zone.clone(),
            clock: clock.clone(),
            store: store.clone(),
            sinks: outside.sinks.clone(),
            status: reports.clone(),
        };
        if !config.reports.schedule.is_empty() {
            tasks.spawn(scheduled.run(finish.clone()));
        }
        let watch = Watch {
            backup: backup.subscribe(),
            reports: reports.subscribe(),
            store: store.clone(),
            clock: clock.clone(),
            requests: requests.clone(),
            background,
            outside,
        };
        tasks.spawn(requests::serve(watch.clone(), store.clone(), finish.clone()));
        tasks.spawn(alerts::run(config.alerts.sinks.clone(), watch.clone(), finish.clone()));
        if notify::is_wanted() {
            tasks.spawn(notify::watch(watch.clone(), finish.clone()));
        }
        let daily = DailyBackup {
            settings: config.backup.clone(),
            zone: config.workspace.time_zone.clone(),
            clock: clock.clone(),
            clocks: clocks.clone(),
            store: store.clone(),
            status: backup,
        };
        if config.backup.keep > 0 {
            tasks.spawn(daily.run(finish.clone()));
        }
        tasks.spawn(search_index::run(store.clone(), finish.clone()));
        let retention = config.store.log_retention;
        tasks.spawn(upkeep::run(retention, clock, clocks, store.clone(), finish.clone()));
        Ok(Self { tasks, handover, finish, requests, watch })
    }

    /// Runs until the daemon has a new configuration, which `reread` returns if it can be used; `None` if
    /// the daemon is to stop.
    pub(super) async fn until_asked(
        &mut self,
        deliveries: &mut Deliveries,
        page: &mut OpenPage,
        signals: &Signals,
        reread: impl Fn() -> Option<(Config, Client)>,
    ) -> anyhow::Result<Option<(Config, Client)>> {
        loop {
            tokio::select! {
                () = signals.stop.cancelled() => return Ok(None),
                () = signals.reload.notified() => {}
                ended = self.tasks.join_next() => return Err(self.ended_early(ended)),
                failed = deliveries.failure() => return Err(failed),
                failed = page.failure() => return Err(failed),
            }
            if let Some(newer) = reread() {
                return Ok(Some(newer));
            }
            // The key may have changed even so. If the inbox is full, this request is lost, and the slow
            // probe ends the pause later.
            let _ = self.requests.try_send(DispatcherRequest::Resume);
        }
    }

    /// Waits up to [`GRACE`] for every task to finish its current work; `abort` ends them at once.
    /// Returns what the dispatcher leaves to the next one.
    pub(super) async fn finish(
        mut self,
        abort: &CancellationToken,
    ) -> anyhow::Result<Option<Handover>> {
        self.finish.cancel();
        let (mut failure, mut is_aborted) = (None, false);
        let deadline = tokio::time::sleep(GRACE);
        tokio::pin!(deadline);
        loop {
            let ended = tokio::select! {
                ended = self.tasks.join_next() => ended,
                () = &mut deadline, if !deadline.is_elapsed() => {
                    tracing::error!("a task did not end in time and was cancelled");
                    self.tasks.abort_all();
                    continue;
                }
                () = abort.cancelled(), if !is_aborted => {
                    is_aborted = true;
                    self.tasks.abort_all();
                    continue;
                }
            };
            match ended {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => failure = Some(error),
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => failure = Some(anyhow!(error).context("a task panicked")),
            }
        }
        failure.map_or(Ok(self.handover.try_recv().ok()), Err)
    }

    fn ended_early(&self, ended: Option<Result<anyhow::Result<()>, JoinError>>) -> anyhow::Error {
        self.finish.cancel();
        match ended {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => anyhow!(error).context("a task panicked"),
            Some(Ok(Ok(()))) | None => {
                anyhow!("a task ended without a stop request; report this as a bug")
            }
        }
    }
}
