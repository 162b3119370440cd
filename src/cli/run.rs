//! `run`: the daemon, until SIGTERM or SIGINT.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::{logging, read_config, runtime};
use crate::clock::Clock;
use crate::daemon::{self, Signal};

/// Runs the daemon until a stop is requested; SIGHUP reloads the configuration.
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
            failed = forward_signals(sender) => failed,
        }
    });
    // A file system that hangs must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Turns the system's signals into the daemon's while it runs. A second stop signal aborts.
pub(super) async fn forward_signals(sender: mpsc::Sender<Signal>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut stopping = false;
    loop {
        let received = tokio::select! {
            _ = terminate.recv() => Signal::Stop,
            _ = interrupt.recv() => Signal::Stop,
            _ = hangup.recv() => Signal::Reload,
        };
        let received = if received == Signal::Stop && stopping { Signal::Abort } else { received };
        stopping |= received == Signal::Stop;
        if sender.send(received).await.is_err() {
            // The daemon is ending already; its outcome is the one to return.
            std::future::pending::<()>().await;
        }
    }
}
