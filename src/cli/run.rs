//! `run`: the daemon, until SIGTERM or SIGINT.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use shopmirror_core::clock::Clock;
use tokio::signal::unix::{SignalKind, signal};

use super::run_as::read_config_and_become_owner;
use super::signals::StopSignals;
use super::{logging, read_config, runtime};
use crate::daemon::{self, Signals};

/// How long a file system that hangs may delay the end of the process.
const HANGING: Duration = Duration::from_secs(1);

/// Runs the daemon until a stop is requested; SIGHUP reloads the configuration.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    logging::start("info");
    let config = read_config_and_become_owner(path)?;
    let path: PathBuf = path.to_owned();
    let reread = Box::new(move || read_config(&path));
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let (signals, reloads) = Signals::new();
        let running = daemon::run(config, reread, Clock::system(), signals.clone(), reloads);
        // Signals first: from here on no signal ends the process before the store is closed.
        tokio::select! {
            biased;
            failed = forward(&signals) => failed,
            outcome = running => outcome,
        }
    });
    runtime.shutdown_timeout(HANGING);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Turns the system's signals into requests while the daemon runs. A second stop signal aborts.
pub(super) async fn forward(signals: &Signals) -> anyhow::Result<()> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            () = stop.next() => {
                if signals.stop.is_cancelled() {
                    signals.abort.cancel();
                } else {
                    signals.stop.cancel();
                }
            }
            _ = hangup.recv() => signals.reload.request(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_takes_less_than_the_ten_seconds_that_the_unit_files_promise() {
        assert!(daemon::stop_at_most() + HANGING + logging::LAST_WAIT <= Duration::from_secs(10));
    }
}
