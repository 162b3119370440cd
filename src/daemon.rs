//! The daemon: builds everything from the configuration, supervises the tasks, reloads and stops.
//!
//! All tasks end together. If a task ends early, the process ends; what was stored is delivered after
//! the restart. A reload restarts polling on the same store. Delivery to a sink and the status page
//! continue unless their configuration changed, and polling never waits for a delivery.

mod alerts;
mod backup;
mod build;
mod deliveries;
mod health;
mod notify;
mod open_page;
mod recall;
mod requests;
mod scheduled_reports;
mod search_index;
mod upkeep;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::Client;
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::custom_fields::CustomFields;
use crate::poll::{BackgroundClient, DispatcherRequest, Handover};
use crate::repair::Repair;
use crate::sink::Sink;
use crate::store::{Store, StoreError};
use backup::DailyBackup;
pub use build::{client, deliverers, dispatcher, ensure_startable, poller_plan};
use deliveries::Deliveries;
use health::{Outside, Watch};
use open_page::OpenPage;
pub use requests::exit_code;
use scheduled_reports::ScheduledReports;
pub(crate) use upkeep::old_by;

/// How long a task other than a delivery may take to end before it is cancelled.
const GRACE: Duration = Duration::from_secs(6);
/// How often the service manager is told that the store is still being opened; more often than its
/// time limit for a start, which each time is extended.
const OPENING_EVERY: Duration = Duration::from_secs(20);
/// How often to retry when the store cannot be written while the sinks are opened.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// A request from outside to the running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Read the configuration and the key again.
    Reload,
    /// Finish the current work and end.
    Stop,
    /// End now.
    Abort,
}

/// Reads the configuration again; an error is logged.
pub type Reread = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

/// Runs until a stop is requested.
///
/// # Errors
/// If something cannot be built at the start, or the store fails and a retry cannot help.
pub async fn run(
    config: Config,
    reread: Reread,
    clock: Clock,
    mut signals: mpsc::Receiver<Signal>,
) -> anyhow::Result<()> {
    // Before the store, so that a run that cannot start creates nothing.
    ensure_startable(&config)?;
    let Some((store, reload)) = open(&config.store.path, &mut signals).await? else {
        return Ok(());
    };
    let outcome = supervise(config, reread, reload, clock, &store, &mut signals).await;
    notify::stopping();
    let closed = store.close().await;
    outcome?;
    closed.context("could not close the store cleanly; the next start will check and repair it")
}

/// Opens the store, which may take long; returns `None` if a stop was requested meanwhile, else the
/// store and whether a reload was requested.
async fn open(
    path: &Path,
    signals: &mut mpsc::Receiver<Signal>,
) -> anyhow::Result<Option<(Store, bool)>> {
    let path = path.to_owned();
    // A stop does not wait for it: when the process ends, an unfinished migration is rolled back.
    let mut opening = tokio::task::spawn_blocking(move || Store::open(&path));
    let mut reload = false;
    loop {
        tokio::select! {
            opened = &mut opening => return Ok(Some((opened??, reload))),
            () = tokio::time::sleep(OPENING_EVERY) => {
                notify::waiting("opening the store; after an update this can take minutes");
            }
            signal = signals.recv() => match signal {
                Some(Signal::Reload) => reload = true,
                _ => return Ok(None),
            },
        }
    }
}

async fn supervise(
    mut config: Config,
    reread: Reread,
    mut reload: bool,
    clock: Clock,
    store: &Store,
    signals: &mut mpsc::Receiver<Signal>,
) -> anyhow::Result<()> {
    let mut client = client(&config, clock.clone())?;
    let mut handover: Option<Handover> = None;
    let refusal = watch::Sender::new(None);
    let mut is_logged = false;
    let mut deliveries = Deliveries::new(store.clone(), clock.clone());
    let mut page = OpenPage::new(store.clone());
    loop {
        // Requested while waiting for the store, or while the previous tasks ended.
        if std::mem::take(&mut reload)
            && let Some(newer) = accepted(&reread, &config, &clock, &refusal)
        {
            (config, client) = newer;
        }
        // Before the first poll, so that a new sink gets the changes of that poll.
        match deliveries.configure(&config.sinks).await {
            Err(error) if error.downcast_ref().is_some_and(StoreError::passes) => {
                match wait_for_store(&error, &mut is_logged, signals).await {
                    None => {}
                    Some(Signal::Reload) => reload = true,
                    Some(Signal::Stop | Signal::Abort) => {
                        stopping();
                        deliveries.finish();
                        return deliveries.ended(signals).await;
                    }
                }
                continue;
            }
            configured => configured?,
        }
        is_logged = false;
        page.configure(&config).await;
        let (sinks, refused) = (deliveries.handles(), refusal.subscribe());
        let outside = Outside { sinks, refusal: refused, page: page.address() };
        let mut running =
            RunningTasks::start(&config, client, clock.clone(), store, handover.take(), outside)
                .await?;
        page.ask(Some(running.watch.clone()));
        notify::ready();
        tracing::info!(store = %store.path().display(), pollers = poller_plan(&config).len(), sinks = config.sinks.len(), "running");
        let newer = loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal.unwrap_or(Signal::Stop),
                ended = running.tasks.join_next() => return Err(running.ended_early(ended)),
                failed = deliveries.failure() => return Err(failed),
                failed = page.failure() => return Err(failed),
            };
            match signal {
                Signal::Reload => match accepted(&reread, &config, &clock, &refusal) {
                    Some(newer) => break newer,
                    // The key may have changed even so.
                    None => running.resume(),
                },
                Signal::Stop | Signal::Abort => {
                    stopping();
                    if signal == Signal::Stop {
                        page.close().await;
                        return end(running, deliveries, signals).await;
                    }
                    return Ok(());
                }
            }
        };
        notify::reloading();
        tracing::info!("reloading");
        page.ask(None);
        let finished = running.finish(signals).await?;
        if finished.stop_requested {
            stopping();
            deliveries.finish();
            return deliveries.ended(signals).await;
        }
        (config, client) = newer;
        (handover, reload) = (finished.handover, finished.reload_requested);
    }
}

/// Lets polling and deliveries end at the same time.
async fn end(
    running: RunningTasks,
    deliveries: Deliveries,
    signals: &mut mpsc::Receiver<Signal>,
) -> anyhow::Result<()> {
    deliveries.finish();
    let finished = running.finish(signals).await;
    if finished.as_ref().is_ok_and(|finished| finished.abort_requested) {
        deliveries.cut();
    }
    let ended = deliveries.ended(signals).await;
    finished?;
    ended
}

/// Logs once that the store cannot be written, and waits; returns the signal that ended the wait.
async fn wait_for_store(
    error: &anyhow::Error,
    is_logged: &mut bool,
    signals: &mut mpsc::Receiver<Signal>,
) -> Option<Signal> {
    if !*is_logged {
        *is_logged = true;
        tracing::warn!(
            error = format!("{error:#}"),
            "could not open the sinks; retrying every second"
        );
    }
    notify::waiting("waiting: the store cannot be written; see the journal");
    tokio::select! {
        signal = signals.recv() => Some(signal.unwrap_or(Signal::Stop)),
        () = tokio::time::sleep(OPEN_AGAIN) => None,
    }
}

fn stopping() {
    notify::stopping();
    tracing::info!("stopping");
}

/// Reads the configuration again; a refusal is logged, and the status shows it until a reload
/// succeeds.
fn accepted(
    reread: &Reread,
    old: &Config,
    clock: &Clock,
    refusal: &watch::Sender<Option<String>>,
) -> Option<(Config, Client)> {
    match reread().and_then(|new| acceptable(new, old, clock)) {
        Ok(newer) => {
            refusal.send_replace(None);
            Some(newer)
        }
        Err(error) => {
            // In one line: a log line shows line breaks as escapes.
            let text = match error.downcast_ref() {
                Some(ConfigError::Invalid(problems)) => problems.summary(),
                _ => format!("{error:#}"),
            };
            tracing::error!(
                error = text,
                "the reload was refused; the daemon continues with the older configuration"
            );
            refusal.send_replace(Some(text));
            None
        }
    }
}

/// A new configuration and its client, if the daemon can continue with them. A problem, for example
/// a key file that is being replaced, refuses the reload; the old configuration stays in use.
fn acceptable(new: Config, old: &Config, clock: &Clock) -> anyhow::Result<(Config, Client)> {
    anyhow::ensure!(
        new.store.path == old.store.path,
        "[store] path cannot change in a reload; restart the daemon"
    );
    for (name, sink) in &new.sinks {
        Sink::build(name, &sink.kind)?;
    }
    let client = client(&new, clock.clone())?;
    Ok((new, client))
}

/// The result of a task.
enum TaskEnd {
    Polling(Box<Handover>),
    Other,
}

/// What remains when all tasks have ended on request.
#[derive(Default)]
struct Finished {
    handover: Option<Handover>,
    /// Signals that came in the meantime.
    stop_requested: bool,
    abort_requested: bool,
    reload_requested: bool,
}

/// The tasks of one configuration, without the deliveries.
struct RunningTasks {
    tasks: JoinSet<anyhow::Result<TaskEnd>>,
    /// Tells the tasks to end after their current work.
    finish: CancellationToken,
    requests: mpsc::Sender<DispatcherRequest>,
    /// Tells how the tasks are doing.
    watch: Watch,
}

impl RunningTasks {
    async fn start(
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
        let repair =
            Repair { store: store.clone(), background: background.clone(), clock: clock.clone() };
        let stop = finish.clone();
        tasks.spawn(async move {
            repair.run(stop).await.context("searching for missed customers")?;
            Ok(TaskEnd::Other)
        });
        let fields = CustomFields {
            background: background.clone(),
            store: store.clone(),
            clock: clock.clone(),
            businesses: config.workspace.polled_businesses(),
        };
        let stop = finish.clone();
        tasks.spawn(async move {
            fields.run(stop).await.context("keeping the custom fields fresh")?;
            Ok(TaskEnd::Other)
        });

        let dispatcher = dispatcher(config, client, clock.clone(), store, handover).await?;
        let clocks = dispatcher.clocks();
        let stop = finish.clone();
        tasks.spawn(async move {
            Ok(TaskEnd::Polling(Box::new(dispatcher.run(inbox, stop).await.context("polling")?)))
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
        tasks.spawn(scheduled.run(finish.clone()));
        let watch = Watch {
            backup: backup.subscribe(),
            reports: reports.subscribe(),
            store: store.clone(),
            clock: clock.clone(),
            requests: requests.clone(),
            background,
            businesses: config.workspace.polled_businesses(),
            outside,
        };
        tasks.spawn(requests::serve(watch.clone(), store.clone(), finish.clone()));
        tasks.spawn(alerts::run(config.alerts.sinks.clone(), watch.clone(), finish.clone()));
        tasks.spawn(notify::watch(watch.clone(), finish.clone()));
        let daily = DailyBackup {
            settings: config.backup.clone(),
            zone: TimeZone::system(),
            clock: clock.clone(),
            clocks: clocks.clone(),
            store: store.clone(),
            status: backup,
        };
        tasks.spawn(daily.run(finish.clone()));
        tasks.spawn(search_index::run(store.clone(), finish.clone()));
        let retention = config.store.log_retention;
        tasks.spawn(upkeep::run(retention, clock, clocks, store.clone(), finish.clone()));
        Ok(Self { tasks, finish, requests, watch })
    }

    fn resume(&self) {
        // If the inbox is full, this request is lost, and the slow probe ends the pause later.
        let _ = self.requests.try_send(DispatcherRequest::Resume);
    }

    /// Waits up to [`GRACE`] for every task to finish its current work; [`Signal::Abort`] ends them at
    /// once.
    async fn finish(mut self, signals: &mut mpsc::Receiver<Signal>) -> anyhow::Result<Finished> {
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
                Some(Ok(Ok(TaskEnd::Polling(handover)))) => finished.handover = Some(*handover),
                Some(Ok(Ok(TaskEnd::Other))) => {}
                Some(Ok(Err(error))) => failure = Some(error),
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => failure = Some(anyhow!(error).context("a task panicked")),
            }
        }
        failure.map_or(Ok(finished), Err)
    }

    fn ended_early(
        &self,
        ended: Option<Result<anyhow::Result<TaskEnd>, tokio::task::JoinError>>,
    ) -> anyhow::Error {
        self.finish.cancel();
        match ended {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => anyhow!(error).context("a task panicked"),
            Some(Ok(Ok(_))) | None => {
                anyhow!("a task ended without a stop request; report this as a bug")
            }
        }
    }
}
