//! Sends each new backup of the folder to the bucket of `[backup.s3]`, and removes old ones there.
//!
//! A failure is shown in the status and retried every few minutes; what was sent before is not sent
//! again. It never ends the daemon, and never costs an older backup.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use shopmirror_core::clock::stamp;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::config::{BackupSettings, OffsiteSettings};
use crate::poll::Clocks;
use crate::status::OffsiteStatus;
use crate::store::{ArchiveFiles, BackupFile, BackupFolder, MetaKey, OffsiteBackups};

/// How often to look for a new backup in the folder.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The waits after attempts that failed: the first one, and the longest.
const RETRY: Duration = Duration::from_secs(600);
const LONGEST_RETRY: Duration = Duration::from_secs(3600);

/// The task that keeps the off-site backups.
pub(super) struct Offsite {
    pub(super) backup: BackupSettings,
    pub(super) offsite: OffsiteSettings,
    /// The folder of the shop's own reports.
    pub(super) reports: Option<PathBuf>,
    pub(super) daemon: DaemonHandle,
    pub(super) clocks: Clocks,
}

impl Offsite {
    /// Sends backups until stopped.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let read = self
            .daemon
            .store
            .read(|reader| reader.value(MetaKey::OFFSITE));
        let stored = read.await.context("reading what is off-site")?;
        let mut status: OffsiteStatus = stored.unwrap_or_default();
        self.publish(&status);
        // The bucket may be another one than before: what is stored counts once it was listed.
        let mut is_listed = false;
        let mut retry = RETRY;
        while !stop.is_cancelled() {
            let is_known = is_listed && status.last_error.is_none();
            let last = if is_known {
                status.last_at.clone()
            } else {
                None
            };
            let Some(sent) = stop
                .run_until_cancelled(self.send_newest(last, !is_listed))
                .await
            else {
                break;
            };
            let error = match sent {
                Ok(None) => None,
                Ok(Some(new)) => {
                    is_listed = true;
                    self.keep(&new).await?;
                    status = new;
                    let Some(pruned) = stop.run_until_cancelled(self.prune()).await else {
                        break;
                    };
                    pruned.err()
                }
                Err(error) => Some(error),
            };
            let mut wait = LOOK_EVERY;
            match error {
                None => retry = RETRY,
                Some(error) => {
                    self.note_failure(&mut status, &error);
                    wait = retry;
                    retry = (2 * retry).min(LONGEST_RETRY);
                }
            }
            self.publish(&status);
            stop.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
        Ok(())
    }

    /// Notes why an attempt failed; the log has the first of several.
    fn note_failure(&self, status: &mut OffsiteStatus, error: &anyhow::Error) {
        let reason = format!("{error:#}");
        if status.last_error.is_none() {
            tracing::warn!(
                error = reason,
                "the off-site backup is not complete and is tried again: see `shopmirror status`"
            );
        }
        status.last_error = Some(reason);
    }

    fn publish(&self, status: &OffsiteStatus) {
        let state = &self.daemon.state;
        state.send_modify(|state| state.offsite = Some(status.clone()));
    }

    /// Sends the newest backup, unless it is the one of `last`, or the bucket has it; returns what
    /// is off-site then. With `is_first`, an archive of an earlier process goes on only if it is
    /// encrypted as this configuration says.
    async fn send_newest(
        &self,
        last: Option<String>,
        is_first: bool,
    ) -> anyhow::Result<Option<OffsiteStatus>> {
        let folder = BackupFolder::new(&self.backup.path, self.daemon.store.path());
        let Some(newest) = newest(&folder, self.now()).await? else {
            return Ok(None);
        };
        if last == Some(stamp(newest.at)) {
            return Ok(None);
        }
        let place = OffsiteBackups::open(&self.offsite)?;
        let encryption = &self.offsite.encryption;
        if is_first {
            place.drop_other_archive(&folder, encryption).await?;
        }
        let object = place.object_of(&folder, &newest)?;
        let there = place.list().await?;
        let is_there = there.iter().any(|backup| backup.object == object);
        // An object that is still being sent was not checked, although it may be listed.
        if !is_there || place.is_unfinished(&folder, &object) {
            let files = ArchiveFiles {
                database: newest.path.clone(),
                configuration: self.offsite.config_file.clone(),
                reports: self.reports.clone(),
            };
            let sending = place.send(&folder, &object, files, encryption.clone());
            let bytes = sending.await?;
            tracing::info!(object, bytes, "the backup is off-site, and was checked");
        }
        Ok(Some(OffsiteStatus {
            last_at: Some(stamp(newest.at)),
            last_object: Some(object),
            last_error: None,
        }))
    }

    /// Removes the off-site backups past the number to keep.
    async fn prune(&self) -> anyhow::Result<()> {
        let place = OffsiteBackups::open(&self.offsite)?;
        let pruned = place.prune(self.backup.keep, self.now()).await;
        pruned.context("the newest backup is off-site, but an old one could not be removed there")
    }

    /// The time by the workspace's clock, by which backups are named, once it is known.
    fn now(&self) -> Timestamp {
        let own = self.daemon.clock.now();
        self.clocks.workspace_time(own).unwrap_or(own.wall)
    }

    /// Saves what is off-site; a store that cannot take it now gets it with the next backup.
    async fn keep(&self, status: &OffsiteStatus) -> anyhow::Result<()> {
        match self.daemon.store.set_value(MetaKey::OFFSITE, status).await {
            Err(error) if !error.is_transient() => Err(error).context("keeping what is off-site"),
            _ => Ok(()),
        }
    }
}

/// The newest backup in the folder that is not dated in the future.
async fn newest(folder: &BackupFolder, now: Timestamp) -> anyhow::Result<Option<BackupFile>> {
    let listed = folder.clone();
    let files = tokio::task::spawn_blocking(move || listed.list()).await?;
    let files = files.context("could not read the folder of backups")?;
    Ok(files.into_iter().find(|file| !file.is_from_future(now)))
}
