//! `run` and `once`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::exit::{self, Wrong};
use super::{logging, output, read_config, runtime};
use crate::api::{ApiError, Client};
use crate::clock::Clock;
use crate::config::Config;
use crate::daemon::{self, Signal};
use crate::deliver::SinkStatus;
use crate::record::PollerId;
use crate::store::Store;

/// Runs the daemon until SIGTERM or SIGINT; SIGHUP reloads.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    logging::start("info");
    let config = read_config(path)?;
    let path: PathBuf = path.to_owned();
    let reread = Box::new(move || read_config(&path));
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (sender, signals) = mpsc::channel(8);
        tokio::select! {
            outcome = daemon::run(config, reread, Clock::system(), signals) => outcome,
            refused = forward_signals(sender) => refused,
        }
    });
    // A file system that hangs must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Turns the system's signals into ours for as long as the daemon runs; a second stop means now.
pub(super) async fn forward_signals(sender: mpsc::Sender<Signal>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut stopping = false;
    loop {
        let told = tokio::select! {
            _ = terminate.recv() => Signal::Stop,
            _ = interrupt.recv() => Signal::Stop,
            _ = hangup.recv() => Signal::Reload,
        };
        let told = if told == Signal::Stop && stopping { Signal::Abort } else { told };
        stopping |= told == Signal::Stop;
        if sender.send(told).await.is_err() {
            // The daemon is ending already; its outcome is what counts.
            std::future::pending::<()>().await;
        }
    }
}

/// Polls every route once, delivers, and says what came of it.
pub(super) fn once(path: &Path) -> anyhow::Result<ExitCode> {
    logging::start("warn");
    let config = read_config(path)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut told = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        let stop = CancellationToken::new();
        let work = poll_and_deliver(&config, &stop);
        tokio::pin!(work);
        tokio::select! {
            outcome = &mut work => return outcome,
            () = told() => {}
        }
        // What is under way is cut, and what it came to is kept; a second signal means now.
        stop.cancel();
        tokio::select! {
            outcome = &mut work => { outcome?; }
            () = told() => {}
        }
        let text = "interrupted: the next run goes on from here".to_owned();
        Err(Wrong { code: exit::TRY_AGAIN, text }.into())
    });
    // As for `run`: what blocks must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// What one run came to.
struct Outcome {
    stored: i64,
    failed: Vec<(PollerId, ApiError)>,
    unsettled: Vec<SinkStatus>,
}

async fn poll_and_deliver(config: &Config, stop: &CancellationToken) -> anyhow::Result<ExitCode> {
    let client = daemon::client(config)?;
    let path = config.store.path.clone();
    // It may check gigabytes first.
    let opening = tokio::task::spawn_blocking(move || Store::open(&path));
    let store = tokio::select! {
        opened = opening => opened??,
        () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    let outcome = work_on(config, client, &store, stop).await;
    let closed = store.close().await;
    let outcome = outcome?;
    closed?;
    tell(&outcome)
}

/// Polls and delivers; after an error what was begun is finished, and the first one is returned.
async fn work_on(
    config: &Config,
    client: Client,
    store: &Store,
    stop: &CancellationToken,
) -> anyhow::Result<Outcome> {
    let clock = Clock::system();
    let dispatcher = daemon::dispatcher(config, client, clock.clone(), store, None).await?;
    let before = store.read(|reader| reader.last_seq()).await?;
    // Sinks that are new begin after what is there now, not after what this run brings.
    let deliverers = daemon::deliverers(config, &clock, store, &watch::channel(()).1).await?;
    let failed = dispatcher.once(stop).await;
    // Side by side, so that one that hangs holds up no other.
    let mut delivering = JoinSet::new();
    for deliverer in deliverers {
        let stop = stop.clone();
        delivering.spawn(async move { deliverer.once(&stop).await });
    }
    let mut unsettled = Vec::new();
    let mut delivered = Ok(());
    while let Some(ended) = delivering.join_next().await {
        match ended.map_err(anyhow::Error::from).and_then(|view| Ok(view?)) {
            Ok(Some(view)) if view.behind + view.retrying > 0 || view.state != "active" => {
                unsettled.push(view);
            }
            Ok(_) => {}
            Err(error) => delivered = delivered.and(Err(error.context("delivering"))),
        }
    }
    unsettled.sort_by(|a, b| a.name.cmp(&b.name));
    let after = store.read(|reader| reader.last_seq()).await;
    let kept = store.upkeep(clock.now().wall, config.store.log_retention).await;
    let failed = failed?;
    delivered?;
    let stored = after? - before;
    kept?;
    Ok(Outcome { stored, failed, unsettled })
}

fn tell(outcome: &Outcome) -> anyhow::Result<ExitCode> {
    let Outcome { stored, failed, unsettled } = outcome;
    match output::text(&format!("{stored} change(s) stored\n")) {
        // Who reads no further may still want to know how it ended.
        Err(error) if exit::is_closed_pipe(&error) => {}
        told => told?,
    }
    for view in unsettled {
        let why = view.last_error.as_deref().unwrap_or("it takes nothing at the moment");
        let behind = view.behind + view.retrying;
        output::aside(&format!("sink {}: {behind} change(s) not delivered: {why}", view.name));
    }
    tell_failed(failed);
    Ok(match (failed.first(), unsettled.is_empty()) {
        (Some((_, error)), _) => ExitCode::from(exit::code_of_api(error)),
        (None, false) => ExitCode::from(exit::TRY_AGAIN),
        (None, true) => ExitCode::SUCCESS,
    })
}

/// Says each failure once, with every poller that met it.
fn tell_failed(failed: &[(PollerId, ApiError)]) {
    let mut told: Vec<(&ApiError, Vec<String>)> = Vec::new();
    for (key, error) in failed {
        match told.iter_mut().find(|(other, _)| *other == error) {
            Some((_, keys)) => keys.push(key.to_string()),
            None => told.push((error, vec![key.to_string()])),
        }
    }
    for (error, keys) in told {
        output::aside(&format!("{}: {error}", keys.join(", ")));
    }
}
