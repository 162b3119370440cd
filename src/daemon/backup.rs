//! The daily backup: when one is due, how it is made, which old ones are removed.
//!
//! A backup that fails is reported in the status and tried again; it never ends the daemon and
//! never costs an older backup.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, stamp};
use crate::config;
use crate::poll::Clocks;
use crate::report::Timetable;
use crate::status::BackupStatus;
use crate::store::{self, BackupFolder, CopyControl, CopyFacts, Store};

/// How often it is looked whether a backup is due: the wall clock may be set meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long to wait after a backup that failed.
const RETRY: Duration = Duration::from_secs(3600);
/// How often it is looked whether the first page was read.
const LOOK_FOR_PAGE: Duration = Duration::from_secs(1);
/// How long to wait for the first page, which tells whether the clock is right.
const WAIT_FOR_PAGE: Duration = Duration::from_secs(600);

/// What the task needs.
pub(super) struct DailyBackup {
    pub(super) settings: config::BackupSettings,
    pub(super) zone: TimeZone,
    pub(super) clock: Clock,
    pub(super) clocks: Clocks,
    pub(super) store: Store,
    /// Where the state is published.
    pub(super) status: watch::Sender<Option<BackupStatus>>,
}

impl DailyBackup {
    /// Makes backups until stopped; only if some are to be kept.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let folder = BackupFolder::new(&self.settings.path, self.store.path());
        let mut failed: Option<(Duration, String)> = None;
        let begun = self.clock.now();
        while !stop.is_cancelled() {
            let own = self.clock.now();
            let compared = self.clocks.workspace_time(own);
            let is_known = compared.is_some() || own.elapsed >= begun.elapsed + WAIT_FOR_PAGE;
            let now = compared.unwrap_or(own.wall);
            let first = now.checked_sub(own.elapsed - begun.elapsed).unwrap_or(now);
            let listed = folder.clone();
            let mut status = in_background(move || BackupStatus::of_folder(&listed, now))
                .await
                .unwrap_or_default();
            // By the time that has passed, because the clock may be set meanwhile.
            let not_before = failed.as_ref().map(|(at, _)| {
                let wait = (*at + RETRY).saturating_sub(own.elapsed);
                now.saturating_add(wait).unwrap_or(Timestamp::MAX)
            });
            let due =
                self.due(&status, first).await.map(|due| not_before.map_or(due, |at| due.max(at)));
            status.next_at = due.map(stamp);
            if let Some((_, why)) = &failed {
                status.last_error = Some(why.clone());
            }
            self.status.send_replace(Some(status));
            if is_known && due.is_some_and(|due| due <= now) {
                failed = match self.back_up(&folder, now, stop.clone()).await {
                    Ok(facts) => {
                        tracing::info!(path = %folder.path(now).display(), bytes = facts.bytes, seq = facts.last_seq, "backed up the store");
                        None
                    }
                    Err(_) if stop.is_cancelled() => None,
                    Err(error) => {
                        let why = format!("{error:#}");
                        tracing::warn!(
                            error = why,
                            "could not back up the store; trying again in an hour"
                        );
                        Some((own.elapsed, why))
                    }
                };
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(if is_known { LOOK_EVERY } else { LOOK_FOR_PAGE }) => {}
            }
        }
        Ok(())
    }

    /// When the next backup is due; `None` while there is nothing to back up.
    async fn due(&self, status: &BackupStatus, begun: Timestamp) -> Option<Timestamp> {
        let last = status.last_at.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        let after = match last {
            Some(last) => last,
            // A store that has no backup yet counts from its first page, or from this start if the
            // clock was wrong at that page.
            None => {
                let pollers = self.store.read(store::Reader::pollers).await.ok()?;
                let first = pollers.iter().map(|poller| &poller.first_polled_at).min()?;
                first.parse::<Timestamp>().ok()?.min(begun)
            }
        };
        let daily = Timetable { at: self.settings.at, days: &[], zone: &self.zone };
        Some(daily.next(after))
    }

    /// Makes one backup, then removes the oldest past the number to keep.
    async fn back_up(
        &self,
        folder: &BackupFolder,
        now: Timestamp,
        stop: CancellationToken,
    ) -> anyhow::Result<CopyFacts> {
        let (folder, source, keep) =
            (folder.clone(), self.store.path().to_owned(), self.settings.keep);
        in_background(move || {
            let place = || folder.path(now).display().to_string();
            folder.prepare().with_context(|| format!("could not write {}", place()))?;
            let control = CopyControl { stop, progress: Arc::new(|_| ()) };
            let facts = store::back_up(&source, &folder.path(now), true, &control)?;
            folder.prune(keep, now).context("could not remove an old backup")?;
            Ok(facts)
        })
        .await?
    }
}

/// Runs what blocks on a thread of its own.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("backing up the store")
}
