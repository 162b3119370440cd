//! Notifies the service manager: ready, reloading, stopping, a status line, and the watchdog.
//!
//! The watchdog is notified only after the dispatcher and the store have responded, so that systemd
//! restarts a process that hangs.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::status::WorkspaceStatus;
use crate::text::number::count;

/// How often the status line is renewed, unless the watchdog needs it more often.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// How long the service manager may wait for the next notification during a wait.
const WAITING_USEC: u32 = 60_000_000;

pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Reports a wait, and keeps the watchdog and the time limit of a start or reload from ending the
/// process.
pub(super) fn waiting(why: &str) {
    tell(&[
        NotifyState::Status(why),
        NotifyState::Watchdog,
        NotifyState::ExtendTimeoutUsec(WAITING_USEC),
    ]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "could not notify the service manager");
    }
}

/// Whether a service manager wants to be notified.
pub(super) fn is_wanted() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Renews the status line and notifies the watchdog until stopped.
pub(super) async fn watch(watch: Watch, stop: CancellationToken) -> anyhow::Result<()> {
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(STATUS_EVERY, |limit| (limit / 3).min(STATUS_EVERY));
    loop {
        if let Some(snapshot) = stop.run_until_cancelled(watch.snapshot()).await.flatten() {
            let line = status_line(&snapshot);
            tell(&[NotifyState::Status(&line)]);
            if watchdog.is_some() {
                tell(&[NotifyState::Watchdog]);
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
