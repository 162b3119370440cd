//! The status of the workspace as commands read it: from the daemon, or from the store if no daemon
//! replies.

use serde::de::DeserializeOwned;

use super::exit::{ExitError, UNAVAILABLE};
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::deliver::behind;
use crate::status::{BackupStatus, ScheduledReportStatus, WorkspaceStatus};
use crate::store::{BackupFolder, Kept, Reader};

/// The status from the daemon, or from the store if no daemon replies.
pub(super) fn current(config: &Config) -> anyhow::Result<WorkspaceStatus> {
    match runtime()?.block_on(control::send(&config.store.path, &ControlRequest::Status)) {
        Ok(reply) => decoded(&reply),
        Err(why) => {
            let reader = Reader::open(&config.store.path)?;
            let now = jiff::Timestamp::now();
            let every = config.once_every;
            let mut status = WorkspaceStatus::of_store(&reader, &why, every, now)?;
            for sink in &mut status.sinks {
                if let Some(settings) = config.sinks.get(&sink.name) {
                    let (name, last) = (&sink.name, status.last_seq);
                    sink.behind = behind(&reader, name, &settings.filter, sink.position, last)?;
                }
            }
            let folder = BackupFolder::new(&config.backup.path, &config.store.path);
            let backup = (config.backup.keep > 0)
                .then(|| BackupStatus::of_folder(&folder, jiff::Timestamp::now()));
            let zone = &config.workspace.time_zone;
            let runs = reader.kept(Kept::REPORT_RUNS)?.unwrap_or_default();
            let reports = ScheduledReportStatus::of_all(&config.reports, zone, &runs, now);
            Ok(status.with_backup(backup).with_reports(reports))
        }
    }
}

/// A daemon's reply. A daemon of another version may send what this one cannot read.
pub(super) fn decoded<T: DeserializeOwned>(reply: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(reply).map_err(|_| {
        let text = "the daemon's reply cannot be read, because the daemon is of another version: restart it";
        ExitError { code: UNAVAILABLE, text: text.to_owned() }.into()
    })
}
