//! The daemon: builds everything from the configuration, supervises the tasks, reloads and stops.
//!
//! All tasks end together. If a task ends early, the process ends; what was stored is delivered
//! after the restart. A reload restarts polling on the same store. Delivery to a sink and the
//! status page continue unless their configuration changed, and polling never waits for a delivery.

mod alerts;
mod build;
mod deliveries;
mod health;
mod heartbeat;
mod notify;
#[cfg(feature = "s3")]
mod offsite;
mod open_page;
mod reload;
mod requests;
mod running;
mod scheduled;
mod search_index;
mod shared;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::api::Client;
use crate::config::Config;
use crate::poll::{BackgroundClient, DispatcherRequest};
use crate::store::{Reader, Store, StoreError, StorePlace};
pub use build::{checked_client, client, deliverers, dispatcher, poller_plan};
use deliveries::Deliveries;
#[cfg(test)]
pub(crate) use deliveries::stop_at_most;
use open_page::OpenPage;
use reload::Reload;
pub use reload::{ReloadInbox, ReloadRequests, reload_requests};
use requests::ControlSocket;
pub use requests::exit_code;
use running::RunningTasks;
use shared::{DaemonHandle, SharedState};
use shopmirror_core::clock::Clock;
pub(crate) use upkeep::{old_by, reread};

/// How often the service manager is notified that the store is still being opened; more often than
/// its time limit for a start, which each notification extends.
const OPENING_EVERY: Duration = Duration::from_secs(20);
/// How often to retry when the store cannot be written while the sinks are opened.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// Requests to the running daemon. Each stays until it is obeyed.
#[derive(Debug, Clone)]
pub struct Signals {
    /// Read the configuration and the key again.
    pub reload: ReloadRequests,
    /// Finish the current work and end.
    pub stop: CancellationToken,
    /// End now.
    pub abort: CancellationToken,
}

impl Signals {
    /// No request yet, and the inbox of the daemon that takes the reloads.
    #[must_use]
    pub fn new() -> (Self, ReloadInbox) {
        let (reload, inbox) = reload_requests();
        let signals = Self {
            reload,
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
        };
        (signals, inbox)
    }
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
    signals: Signals,
    mut reloads: ReloadInbox,
) -> anyhow::Result<()> {
    // Before the store, so that a run that cannot start creates nothing.
    let client = checked_client(&config, clock.clone())?;
    let place = StorePlace::new(&config.store, &config.backup);
    let Some(store) = open(place, &signals.stop).await? else {
        return Ok(());
    };
    let outcome = supervise(
        (config, client),
        reread,
        clock,
        &store,
        &signals,
        &mut reloads,
    )
    .await;
    notify::stopping();
    let closed = store.close().await;
    outcome?;
    closed.context(
        "could not close the store cleanly; the next start reads what its write-ahead log still \
         holds",
    )
}

/// Opens the store, which may take long; returns `None` if a stop was requested meanwhile.
async fn open(place: StorePlace, stop: &CancellationToken) -> anyhow::Result<Option<Store>> {
    // A stop does not wait for it: when the process ends, an unfinished migration is rolled back.
    let mut opening = tokio::task::spawn_blocking(move || Store::open(&place));
    loop {
        tokio::select! {
            opened = &mut opening => return Ok(Some(opened??)),
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(OPENING_EVERY) => {
                notify::waiting("opening the store; after an update this can take minutes");
            }
        }
    }
}

async fn supervise(
    (mut config, mut client): (Config, Client),
    reread: Reread,
    clock: Clock,
    store: &Store,
    signals: &Signals,
    reloads: &mut ReloadInbox,
) -> anyhow::Result<()> {
    let mut polled = None;
    let mut is_logged = false;
    let (requests, inbox) = mpsc::channel(16);
    let inbox = Arc::new(Mutex::new(inbox));
    let daemon = DaemonHandle {
        store: store.clone(),
        clock: clock.clone(),
        background: BackgroundClient::new(requests.clone()),
        requests,
        reload: signals.reload.clone(),
        state: SharedState::default(),
    };
    let mut deliveries = Deliveries::new(daemon.clone(), signals.abort.clone());
    let mut page = OpenPage::new(daemon.clone());
    let mut control = ControlSocket::default();
    let polling = loop {
        if signals.stop.is_cancelled() {
            break None;
        }
        // Requested while the store was opened or locked, or while the tasks before ended: the
        // older configuration is not used any more.
        if let Some(reload) = reloads.next().now_or_never()
            && let Some(newer) = accepted(reload, &reread, &config, &daemon)
        {
            tracing::info!("reloading");
            (config, client) = newer;
        }
        // Before the first poll, so that a new sink gets the changes of that poll.
        match deliveries.configure(&config.sinks).await {
            Err(error) if error.downcast_ref().is_some_and(StoreError::is_transient) => {
                wait_for_store(&error, &mut is_logged, &signals.stop).await;
                continue;
            }
            configured => configured?,
        }
        if is_logged {
            tracing::warn!("the sinks are open now");
        }
        is_logged = false;
        page.configure(&config).await;
        let before = polled.take();
        let mut running =
            RunningTasks::start(&config, client, &daemon, inbox.clone(), before).await?;
        control.open(&daemon);
        notify::ready();
        log_running(&config, store).await;
        let newer = loop {
            let reload = tokio::select! {
                () = signals.stop.cancelled() => break None,
                reload = reloads.next() => reload,
                failed = running.failure() => return Err(failed),
                failed = deliveries.failure() => return Err(failed),
                failed = page.failure() => return Err(failed),
                failed = control.failure() => return Err(failed),
            };
            let newer = accepted(reload, &reread, &config, &daemon);
            if newer.is_some() {
                break newer;
            }
            // The key may have changed even so. If the inbox is full, this request is lost, and the
            // slow probe ends the pause later.
            let _ = daemon.requests.try_send(DispatcherRequest::Resume);
        };
        let Some(newer) = newer else {
            break Some(running);
        };
        notify::reloading();
        tracing::info!("reloading");
        polled = running.finish(&signals.abort).await?;
        (config, client) = newer;
    };
    // Stop the sinks first, before systemd is notified: they take no further change.
    deliveries.finish();
    notify::stopping();
    tracing::info!("stopping");
    page.close().await;
    control.close().await;
    // Polling and deliveries end at the same time.
    let polled = match polling {
        Some(running) => running.finish(&signals.abort).await.map(drop),
        None => Ok(()),
    };
    let delivered = deliveries.ended().await;
    polled.and(delivered)
}

/// Logs that the daemon runs with a configuration.
async fn log_running(config: &Config, store: &Store) {
    let workspace = match store.read(Reader::workspace).await {
        Ok(Some(stored)) => stored.name,
        _ => config.workspace.base_url.to_string(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        workspace,
        store = %store.path().display(),
        routes = config.routes.len(),
        pollers = poller_plan(config).len(),
        sinks = config.sinks.len(),
        "running"
    );
}

/// Logs once that the store cannot be written, and waits.
async fn wait_for_store(error: &anyhow::Error, is_logged: &mut bool, stop: &CancellationToken) {
    if !std::mem::replace(is_logged, true) {
        tracing::warn!(
            error = format!("{error:#}"),
            "could not open the sinks; retrying every second"
        );
    }
    notify::waiting("waiting: the store cannot be written; see the journal");
    stop.run_until_cancelled(tokio::time::sleep(OPEN_AGAIN))
        .await;
}

/// The configuration as it is now and its client, if the daemon can continue with them. A problem,
/// for example a key file that is being replaced, refuses the reload; it is logged, and the status
/// shows it until a reload succeeds. Those who wait for the reload get the decision.
fn accepted(
    reload: Reload,
    reread: &Reread,
    old: &Config,
    daemon: &DaemonHandle,
) -> Option<(Config, Client)> {
    match newer(reread, old, &daemon.clock) {
        Ok(newer) => {
            daemon.state.send_modify(|state| state.refusal = None);
            reload.reply(&Ok(()));
            Some(newer)
        }
        Err(error) => {
            // In one line: a log line shows line breaks as escapes.
            let text = format!("{error:#}").replace('\n', "; ");
            tracing::error!(
                error = text,
                "the reload was refused; the daemon continues with the older configuration"
            );
            reload.reply(&Err(text.clone()));
            daemon.state.send_modify(|state| state.refusal = Some(text));
            None
        }
    }
}

fn newer(reread: &Reread, old: &Config, clock: &Clock) -> anyhow::Result<(Config, Client)> {
    let new = reread()?;
    anyhow::ensure!(
        new.store.path == old.store.path,
        "[store] path cannot change in a reload; restart the daemon"
    );
    let client = checked_client(&new, clock.clone())?;
    Ok((new, client))
}
