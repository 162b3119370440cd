//! The signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::{TRY_AGAIN, refuse};

/// SIGINT and SIGTERM. Once this value exists, they no longer end the process.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(super) fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self {
            interrupt,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Does work that ends early and cleanly once `stop` is cancelled. The first signal cancels `stop`,
/// the second ends the work at once.
pub(super) async fn stoppable<T>(
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> anyhow::Result<T> {
    let mut signals = StopSignals::new()?;
    tokio::pin!(work);
    while !stop.is_cancelled() {
        tokio::select! {
            done = &mut work => return Ok(done),
            () = signals.next() => stop.cancel(),
        }
    }
    tokio::select! {
        done = &mut work => Ok(done),
        () = signals.next() => refuse(TRY_AGAIN, "interrupted"),
    }
}
