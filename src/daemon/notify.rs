//! Notifies the service manager: ready, reloading, stopping, a status line, and the watchdog.
//!
//! The watchdog is notified only after the dispatcher and the store have responded, so that systemd
//! restarts a process that hangs.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::status::WorkspaceStatus;
use crate::text::number::count;

/// How often the status line is renewed, unless the watchdog needs it more often.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// How long the service manager may wait for the next notification during a wait.
const WAITING_USEC: u32 = 60_000_000;

pub(super) fn ready() {
    send(&[NotifyState::Ready]);
}

pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

pub(super) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Reports a wait, and keeps the watchdog and the time limit of a start or reload from ending the
/// process.
pub(super) fn waiting(why: &str) {
    send(&[
        NotifyState::Status(why),
        NotifyState::Watchdog,
        NotifyState::ExtendTimeoutUsec(WAITING_USEC),
    ]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "could not notify the service manager");
    }
}

/// Whether a service manager wants to be notified.
pub(super) fn is_wanted() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Renews the status line and notifies the watchdog until stopped.
pub(super) async fn run(daemon: DaemonHandle, stop: CancellationToken) -> anyhow::Result<()> {
    let watchdog = sd_notify::watchdog_enabled();
    let every = match watchdog {
        Some(limit) => STATUS_EVERY.min(limit / 3),
        None => STATUS_EVERY,
    };
    loop {
        if let Some(Some(snapshot)) = stop.run_until_cancelled(daemon.snapshot()).await {
            let line = status_line(&snapshot);
            send(&[NotifyState::Status(&line)]);
            if watchdog.is_some() {
                send(&[NotifyState::Watchdog]);
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(every) => {}
        }
    }
}

fn status_line(snapshot: &WorkspaceStatus) -> String {
    if let Some(reason) = snapshot.reasons.first() {
        return reason.chars().take(200).collect();
    }
    let records: i64 = snapshot.records.values().sum();
    format!(
        "{} {}",
        count(records, "record.", "records."),
        snapshot.sentence()
    )
}
