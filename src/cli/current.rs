//! The current status for commands: from the daemon or, without one, from the store.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use shopmirror_core::record::PollerId;

use super::exit::{self, UNAVAILABLE};
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlError, ControlRequest};
use crate::daemon::poller_plan;
use crate::deliver::not_sent;
use crate::status::{BackupStatus, ScheduledReportStatus, WorkspaceStatus};
use crate::store::{BackupFolder, MetaKey, Reader};
use crate::text::duration;

/// The status from the daemon, or from the store if no daemon replies.
pub(super) fn current(config: &Config) -> anyhow::Result<WorkspaceStatus> {
    let reply = control::send(&config.store.path, &ControlRequest::Status);
    match runtime()?.block_on(reply) {
        Ok(reply) => decode(&reply),
        Err(why) => stored(config, &why),
    }
}

/// A daemon's reply. A daemon of another version may send one that this program cannot read.
pub(super) fn decode<T: DeserializeOwned>(reply: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(reply).map_err(|_| {
        let text = "the daemon's reply cannot be read, because the daemon is of another version: \
                    restart it";
        exit::error(UNAVAILABLE, text)
    })
}

/// The status from the store, because no daemon replied for the reason `why`.
fn stored(config: &Config, why: &ControlError) -> anyhow::Result<WorkspaceStatus> {
    let reader = Reader::open(&config.store.path)?;
    let now = Timestamp::now();
    let mut status = WorkspaceStatus::stored(&reader, now)?;
    if config.backup.keep > 0 {
        let folder = BackupFolder::new(&config.backup.path, &config.store.path);
        let is_offsite = config.backup.offsite.is_some();
        status.backup = Some(BackupStatus::from_folder(&folder, is_offsite, now));
        if is_offsite {
            status.offsite = Some(reader.value(MetaKey::OFFSITE)?.unwrap_or_default());
        }
    }
    let zone = &config.workspace.time_zone;
    let runs = reader.value(MetaKey::REPORT_RUNS)?.unwrap_or_default();
    status.reports = ScheduledReportStatus::from_runs(&config.reports, zone, &runs, now);
    let plans = poller_plan(config).into_iter();
    let pollers: Vec<PollerId> = plans.map(|plan| plan.id).collect();
    let mut status = status.without_daemon(&reader, why, &pollers, config.once_every)?;
    for sink in &mut status.sinks {
        if let Some(settings) = config.sinks.get(&sink.name) {
            let last = status.last_seq;
            let filter = &settings.filter;
            let not_sent = not_sent(&reader, &sink.name, filter, sink.position, last)?;
            sink.backlog = not_sent + sink.retrying;
        }
    }
    Ok(status)
}

/// A time, given by the seconds from the status until then: `in 5m`, `2h ago`.
pub(super) fn in_or_ago(seconds: f64) -> String {
    if seconds.is_sign_negative() {
        format!("{} ago", duration::seconds(-seconds))
    } else {
        format!("in {}", duration::seconds(seconds))
    }
}
