//! The daemon: builds everything from the configuration, supervises the tasks, reloads, stops.
//!
//! Tasks end together. A task that ends early ends the process; what was stored is delivered after
//! the restart. A reload restarts polling at once on the same store; delivery to a sink goes on
//! unless its configuration changed, and polling never waits for it.

mod backup;
mod build;
mod deliveries;
mod health;
mod notify;
mod requests;
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
use crate::page::Page;
use crate::poll::{BackgroundClient, DispatcherRequest, Handover};
use crate::repair::Repair;
use crate::sink::Sink;
use crate::store::{Store, StoreError};
use backup::DailyBackup;
pub use build::{client, deliverers, dispatcher, ensure_startable, poller_plan};
use deliveries::Deliveries;
use health::{Outside, Watch};
pub use requests::exit_code;

/// How long a task other than a delivery may take to end before it is abandoned.
const GRACE: Duration = Duration::from_secs(6);
/// How often a store is tried that cannot be written at the start of its sinks.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// What the daemon is asked from outside while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Read the configuration and the key again.
    Reload,
    /// Finish the unit in hand and end.
    Stop,
    /// End now.
    Abort,
}

/// Reads the configuration again; the error is for the log.
pub type Reread = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

/// Runs until told to stop.
///
/// # Errors
/// When something cannot be built at the start, or the store fails for good.
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
    closed.context("could not close the store in order; the next start settles it")
}

/// Opens the store, which may check gigabytes first; `None` when told to stop meanwhile, else also
/// whether a reload was asked for.
async fn open(
    path: &Path,
    signals: &mut mpsc::Receiver<Signal>,
) -> anyhow::Result<Option<(Store, bool)>> {
    let path = path.to_owned();
    // After a stop it is left to the end of the process: an unfinished migration is rolled back.
    let mut opening = tokio::task::spawn_blocking(move || Store::open(&path));
    let mut reload = false;
    loop {
        tokio::select! {
            opened = &mut opening => return Ok(Some((opened??, reload))),
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
    let mut told = false;
    let mut deliveries = Deliveries::new(store.clone(), clock.clone());
    loop {
        // Asked for while the store was waited for, or while the tasks before ended.
        if std::mem::take(&mut reload)
            && let Some(newer) = accepted(&reread, &config, &clock, &refusal)
        {
            (config, client) = newer;
        }
        // Before the first poll: a new sink is to miss nothing of what that brings.
        match deliveries.configure(&config.sinks).await {
            Err(error) if error.downcast_ref().is_some_and(StoreError::passes) => {
                match wait_for_store(&error, &mut told, signals).await {
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
        told = false;
        let outside = Outside { sinks: deliveries.handles(), refusal: refusal.subscribe() };
        let mut running =
            Running::start(&config, client, clock.clone(), store, handover.take(), outside).await?;
        notify::ready();
        tracing::info!(store = %store.path().display(), pollers = poller_plan(&config).len(), sinks = config.sinks.len(), "running");
        let newer = loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal.unwrap_or(Signal::Stop),
                ended = running.tasks.join_next() => return Err(running.ended_early(ended)),
                failed = deliveries.failure() => return Err(failed),
            };
            match signal {
                Signal::Reload => match accepted(&reread, &config, &clock, &refusal) {
                    Some(newer) => break newer,
                    // The key may have changed all the same.
                    None => running.resume(),
                },
                Signal::Stop | Signal::Abort => {
                    stopping();
                    if signal == Signal::Stop {
                        return end(running, deliveries, signals).await;
                    }
                    return Ok(());
                }
            }
        };
        notify::reloading();
        tracing::info!("reloading");
        let finished = running.finish(signals).await?;
        if finished.stop_asked {
            stopping();
            deliveries.finish();
            return deliveries.ended(signals).await;
        }
        (config, client) = newer;
        (handover, reload) = (finished.handover, finished.reload_asked);
    }
}

/// Lets polling and deliveries end at the same time.
async fn end(
    running: Running,
    deliveries: Deliveries,
    signals: &mut mpsc::Receiver<Signal>,
) -> anyhow::Result<()> {
    deliveries.finish();
    let finished = running.finish(signals).await;
    if finished.as_ref().is_ok_and(|finished| finished.abort_asked) {
        deliveries.cut();
    }
    let ended = deliveries.ended(signals).await;
    finished?;
    ended
}

/// Says once that the store cannot be written, and waits a moment; the signal that ended the wait.
async fn wait_for_store(
    error: &anyhow::Error,
    told: &mut bool,
    signals: &mut mpsc::Receiver<Signal>,
) -> Option<Signal> {
    if !std::mem::replace(told, true) {
        tracing::warn!(error = format!("{error:#}"), "could not open the sinks; trying again");
    }
    notify::waiting("waiting for the store, which takes no writes: see the journal");
    tokio::select! {
        signal = signals.recv() => Some(signal.unwrap_or(Signal::Stop)),
        () = tokio::time::sleep(OPEN_AGAIN) => None,
    }
}

fn stopping() {
    notify::stopping();
    tracing::info!("stopping");
}

/// What the daemon is to go on with, read again; a refusal is logged, and told by the status until
/// a reload succeeds.
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

/// A new configuration and its client, if the daemon can go on with them: what would end it, such
/// as a key file that is being replaced just now, is refused while the old ones still work.
fn acceptable(new: Config, old: &Config, clock: &Clock) -> anyhow::Result<(Config, Client)> {
    anyhow::ensure!(
        new.store.path == old.store.path,
        "[store] path can only change with a restart"
    );
    for (name, sink) in &new.sinks {
        Sink::build(name, &sink.kind)?;
    }
    let client = client(&new, clock.clone())?;
    Ok((new, client))
}

/// What one task came to.
enum Ended {
    Polling(Box<Handover>),
    Other,
}

/// What is left when all tasks have ended as asked.
#[derive(Default)]
struct Finished {
    handover: Option<Handover>,
    /// Signals that came in the meantime.
    stop_asked: bool,
    abort_asked: bool,
    reload_asked: bool,
}

/// The tasks of one configuration, but for the deliveries.
struct Running {
    tasks: JoinSet<anyhow::Result<Ended>>,
    /// Asks tasks to end after the unit in hand.
    finish: CancellationToken,
    requests: mpsc::Sender<DispatcherRequest>,
}

impl Running {
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
            Ok(Ended::Other)
        });
        let fields = CustomFields {
            background: background.clone(),
            store: store.clone(),
            clock: clock.clone(),
            businesses: config.workspace.branches(),
        };
        let stop = finish.clone();
        tasks.spawn(async move {
            fields.run(stop).await.context("keeping the custom fields fresh")?;
            Ok(Ended::Other)
        });

        let dispatcher = dispatcher(config, client, clock.clone(), store, handover).await?;
        let stop = finish.clone();
        tasks.spawn(async move {
            Ok(Ended::Polling(Box::new(dispatcher.run(inbox, stop).await.context("polling")?)))
        });

        let opened = watch::Sender::new(None);
        let backup = watch::Sender::new(None);
        let watch = Watch {
            backup: backup.subscribe(),
            store: store.clone(),
            clock: clock.clone(),
            requests: requests.clone(),
            background,
            businesses: config.workspace.branches(),
            outside,
            page: opened.subscribe(),
        };
        if let Some(settings) = &config.status {
            let shop = config.workspace.base_url.host_str().unwrap_or_default().to_owned();
            let page = Page { settings: settings.clone(), shop, store: store.clone(), opened };
            let (watch, stop) = (watch.clone(), finish.clone());
            tasks.spawn(async move {
                page.run(|| watch.snapshot(), stop).await;
                Ok(Ended::Other)
            });
        }
        tasks.spawn(serve_socket(watch.clone(), store.clone(), finish.clone()));
        tasks.spawn(notify::watch(watch, finish.clone()));
        let daily = DailyBackup {
            settings: config.backup.clone(),
            zone: TimeZone::system(),
            clock: clock.clone(),
            store: store.clone(),
            status: backup,
        };
        tasks.spawn(daily.run(finish.clone()));
        tasks.spawn(upkeep::run(config.store.log_retention, clock, store.clone(), finish.clone()));
        Ok(Self { tasks, finish, requests })
    }

    fn resume(&self) {
        // A full inbox means that the dispatcher is busy with the same question.
        let _ = self.requests.try_send(DispatcherRequest::Resume);
    }

    /// Lets every task finish the unit in hand, for a while; [`Signal::Abort`] ends it at once.
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
                    tracing::error!("a task does not end: it is abandoned");
                    self.tasks.abort_all();
                    continue;
                }
                Some(signal) = signals.recv(), if !finished.abort_asked => {
                    match signal {
                        Signal::Reload => finished.reload_asked = true,
                        Signal::Stop => finished.stop_asked = true,
                        Signal::Abort => {
                            (finished.stop_asked, finished.abort_asked) = (true, true);
                            self.tasks.abort_all();
                        }
                    }
                    continue;
                }
            };
            match ended {
                None => break,
                Some(Ok(Ok(Ended::Polling(handover)))) => finished.handover = Some(*handover),
                Some(Ok(Ok(Ended::Other))) => {}
                Some(Ok(Err(error))) => failure = Some(error),
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => failure = Some(anyhow!(error).context("a task panicked")),
            }
        }
        failure.map_or(Ok(finished), Err)
    }

    fn ended_early(
        &self,
        ended: Option<Result<anyhow::Result<Ended>, tokio::task::JoinError>>,
    ) -> anyhow::Error {
        self.finish.cancel();
        match ended {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => anyhow!(error).context("a task panicked"),
            Some(Ok(Ok(_))) | None => anyhow!("a task ended although nobody asked it to"),
        }
    }
}

async fn serve_socket(
    watch: Watch,
    store: Store,
    stop: CancellationToken,
) -> anyhow::Result<Ended> {
    let served =
        crate::control::serve(store.path(), move |request| watch.answer(request), stop.clone())
            .await;
    if let Err(error) = served {
        // Worth a word, not the process: polling and delivery do not need it.
        tracing::warn!(%error, "could not open the socket next to the store: `shopmirror status` shows only what is stored");
        stop.cancelled().await;
    }
    Ok(Ended::Other)
}
