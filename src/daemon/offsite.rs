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
use crate::status::OffsiteStatus;
use crate::store::{ArchiveFiles, BackupFile, BackupFolder, MetaKey, OffsiteBackups};

/// How often to look for a new backup in the folder.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The wait after an attempt that failed.
const RETRY: Duration = Duration::from_secs(600);

/// The task that keeps the off-site backups.
pub(super) struct Offsite {
    pub(super) backup: BackupSettings,
    pub(super) offsite: OffsiteSettings,
    /// The folder of the shop's own reports.
    pub(super) reports: Option<PathBuf>,
    pub(super) daemon: DaemonHandle,
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
        while !stop.is_cancelled() {
            let Some(sent) = stop.run_until_cancelled(self.send_newest(&status)).await else {
                break;
            };
            let wait = match sent {
                Ok(None) => LOOK_EVERY,
                Ok(Some(new)) => {
                    self.keep(&new).await?;
                    status = new;
                    LOOK_EVERY
                }
                Err(error) => {
                    let reason = format!("{error:#}");
                    if status.last_error.is_none() {
                        tracing::warn!(
                            error = reason,
                            "the backup could not be sent off-site and is tried again: see \
                             `shopmirror status`"
                        );
                    }
                    status.last_error = Some(reason);
                    RETRY
                }
            };
            self.publish(&status);
            stop.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
        Ok(())
    }

    fn publish(&self, status: &OffsiteStatus) {
        let state = &self.daemon.state;
        state.send_modify(|state| state.offsite = Some(status.clone()));
    }

    /// Sends the newest backup unless it is off-site already; returns the new status if it was not.
    async fn send_newest(&self, status: &OffsiteStatus) -> anyhow::Result<Option<OffsiteStatus>> {
        let folder = BackupFolder::new(&self.backup.path, self.daemon.store.path());
        let now = self.daemon.clock.now().wall;
        let Some(newest) = newest(&folder, now).await? else {
            return Ok(None);
        };
        if status.last_error.is_none() && status.last_at == Some(stamp(newest.at)) {
            return Ok(None);
        }
        let place = OffsiteBackups::open(&self.offsite)?;
        let object = place.object_of(&folder, &newest)?;
        let there = place.list().await?;
        if !there.iter().any(|backup| backup.object == object) {
            let files = ArchiveFiles {
                database: newest.path.clone(),
                configuration: self.offsite.config_file.clone(),
                reports: self.reports.clone(),
            };
            let encryption = self.offsite.encryption.clone();
            let bytes = place.send(&folder, &object, files, encryption).await?;
            tracing::info!(object, bytes, "the backup is off-site, and was checked");
        }
        let pruned = place.prune(self.backup.keep, now).await;
        pruned.context("could not remove an old off-site backup")?;
        Ok(Some(OffsiteStatus {
            last_at: Some(stamp(newest.at)),
            last_object: Some(object),
            last_error: None,
        }))
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
