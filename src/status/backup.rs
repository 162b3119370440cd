//! The state of the backups as the status shows it: those in the folder, and those off-site.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;

use crate::store::BackupFolder;

/// What to do about [`BackupStatus::same_disk_only`].
pub const SAME_DISK: &str = "on the disk of the database, and no copy elsewhere is configured: set \
    [backup.s3], or copy the folder to another machine";

/// The state of the daily backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackupStatus {
    /// When the newest backup in the folder was begun.
    pub last_at: Option<String>,
    /// The file of the newest backup.
    pub last_file: Option<String>,
    /// When the next one is due; only of a running daemon.
    pub next_at: Option<String>,
    /// Why the last attempt failed; `None` once one has succeeded.
    pub last_error: Option<String>,
    /// True if the backups lie on the disk of the database, and none are configured off-site.
    #[serde(default)]
    pub same_disk_only: bool,
}

/// The state of the off-site backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OffsiteStatus {
    /// When the newest backup that is off-site was begun.
    pub last_at: Option<String>,
    /// The name of its object.
    pub last_object: Option<String>,
    /// Why the last attempt failed; `None` once one has succeeded.
    pub last_error: Option<String>,
}

impl BackupStatus {
    /// What the folder contains at `now`, without backups dated in the future; a folder that cannot
    /// be read is reported as a failure. `is_offsite` if the backups are sent elsewhere as well.
    #[must_use]
    pub fn from_folder(folder: &BackupFolder, is_offsite: bool, now: Timestamp) -> Self {
        let mut status = Self {
            same_disk_only: !is_offsite && folder.is_on_disk_of_store(),
            ..Self::default()
        };
        match folder.list() {
            Ok(files) => {
                if let Some(newest) = files.iter().find(|file| !file.is_from_future(now)) {
                    status.last_at = Some(stamp(newest.at));
                    status.last_file = Some(newest.path.display().to_string());
                }
            }
            Err(error) => {
                status.last_error = Some(format!(
                    "could not read the folder of backups, {}: {error}; correct its owner and \
                     mode, or [backup] path",
                    folder.folder().display()
                ));
            }
        }
        status
    }
}
