//! `run`: the daemon, until SIGTERM or SIGINT.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{CONFIG, refuse};
use super::signals::StopSignals;
use super::{logging, output, read_config, runtime};
use crate::clock::Clock;
use crate::daemon::{self, Signals};

/// How long a file system that hangs may keep the process from ending.
const HANGING: Duration = Duration::from_secs(1);

/// Runs the daemon until a stop is requested; SIGHUP reloads the configuration.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    logging::start("info");
    let config = read_config(path)?;
    ensure_files(config.sinks.len())?;
    let path: PathBuf = path.to_owned();
    let reread = Box::new(move || {
        let config = read_config(&path)?;
        ensure_files(config.sinks.len())?;
        Ok(config)
    });
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let signals = Signals::default();
        // Signals first: from here on none ends the process before the store is closed.
        tokio::select! {
            biased;
            failed = forward(&signals) => failed,
            outcome = daemon::run(config, reread, Clock::system(), signals.clone()) => outcome,
        }
    });
    runtime.shutdown_timeout(HANGING);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Files and connections that the daemon may have open at a time: those of the store and of polling, of the
/// status page, of commands, and of one sink.
const FILES: u64 = 128;
const FILES_OF_A_SINK: u64 = 8;

/// Raises the limit of open files as far as the system lets this process; refuses a start with too low a
/// one, because sinks and polls would fail one by one without a cause that can be seen.
fn ensure_files(sinks: usize) -> anyhow::Result<()> {
    let needed = FILES + FILES_OF_A_SINK * u64::try_from(sinks).unwrap_or(u64::MAX / 16);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if maximum.is_none_or(|maximum| maximum >= needed)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_ok()
    {
        return Ok(());
    }
    let current = current.unwrap_or_default();
    refuse(
        CONFIG,
        format!(
            "this process may open {current} files, and with {} it needs {needed}: set LimitNOFILE= in the unit, or raise `ulimit -n`, and start it again",
            output::count(sinks, "sink", "sinks")
        ),
    )
}

/// Turns the system's signals into requests while the daemon runs. A second stop signal aborts.
pub(super) async fn forward(signals: &Signals) -> anyhow::Result<()> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            () = stop.next() => match signals.stop.is_cancelled() {
                true => signals.abort.cancel(),
                false => signals.stop.cancel(),
            },
            _ = hangup.recv() => signals.reload.notify_one(),
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
