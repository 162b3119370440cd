//! The state of the daily backup as the status shows it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;

use crate::store::BackupFolder;

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
}

impl BackupStatus {
    /// What the folder contains at `now`, without backups dated in the future; a folder that cannot
    /// be read is reported as a failure.
    #[must_use]
    pub fn from_folder(folder: &BackupFolder, now: Timestamp) -> Self {
        let mut status = Self::default();
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
