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
use super::{Signal, alerts, dispatcher, notify, requests, search_index, upkeep};
use crate::api::Client;
use crate::clock::Clock;
use crate::config::Config;
use crate::poll::{BackgroundClient, DispatcherRequest, Handover};
use crate::recover::{CustomFields, MissedCustomers};
use crate::store::Store;

/// How long a task other than a delivery may take to end before it is cancelled.
pub(super) const GRACE: Duration = Duration::from_secs(6);

/// What ends the tasks of a configuration.
pub(super) enum Asked {
    /// Continue with this configuration and its client.
    Reload(Box<(Config, Client)>),
    Stop,
    Abort,
}

/// What remains when all tasks have ended on request.
#[derive(Default)]
pub(super) struct Finished {
    pub(super) handover: Option<Handover>,
    /// Signals that came in the meantime.
    pub(super) stop_requested: bool,
    pub(super) abort_requested: bool,
    pub(super) reload_requested: bool,
}

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

    /// Runs until the daemon is to stop or has a new configuration; `reread` gives that, if there is none
    /// that can be used `None`.
    pub(super) async fn until_asked(
        &mut self,
        deliveries: &mut Deliveries,
        page: &mut OpenPage,
        signals: &mut mpsc::Receiver<Signal>,
        reread: impl Fn() -> Option<(Config, Client)>,
    ) -> anyhow::Result<Asked> {
        loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal.unwrap_or(Signal::Stop),
                ended = self.tasks.join_next() => return Err(self.ended_early(ended)),
                failed = deliveries.failure() => return Err(failed),
                failed = page.failure() => return Err(failed),
            };
            match signal {
                Signal::Reload => match reread() {
                    Some(newer) => return Ok(Asked::Reload(Box::new(newer))),
                    // The key may have changed even so.
                    None => self.resume(),
                },
                Signal::Stop => return Ok(Asked::Stop),
                Signal::Abort => return Ok(Asked::Abort),
            }
        }
    }

    pub(super) fn resume(&self) {
        // If the inbox is full, this request is lost, and the slow probe ends the pause later.
        let _ = self.requests.try_send(DispatcherRequest::Resume);
    }

    /// Waits up to [`GRACE`] for every task to finish its current work; [`Signal::Abort`] ends them at
    /// once.
    pub(super) async fn finish(
        mut self,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> anyhow::Result<Finished> {
        self.finish.cancel();
        let mut finished = Finished::default();
        let mut failure = None;
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
                Some(signal) = signals.recv(), if !finished.abort_requested => {
                    match signal {
                        Signal::Reload => finished.reload_requested = true,
                        Signal::Stop => finished.stop_requested = true,
                        Signal::Abort => {
                            (finished.stop_requested, finished.abort_requested) = (true, true);
                            self.tasks.abort_all();
                        }
                    }
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
        finished.handover = self.handover.try_recv().ok();
        failure.map_or(Ok(finished), Err)
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
