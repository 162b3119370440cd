//! The state of the workspace: pollers, budget, sinks, records, and the health they add up to.
//!
//! All output shows this one value. A running daemon sends it over the control socket; without a
//! daemon it is read from the store. It holds counts and states, and no content of a record.

mod backup;
mod health;
mod last_run;
mod overview;
mod reports;
mod stored;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::BudgetStatus;
use crate::clock::stamp;
use crate::control::ControlError;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerStatus, PollingStatus};
use crate::record::Route;
use crate::store::{JobLink, Reader, StoreError};
pub use backup::BackupStatus;
pub use health::Health;
use health::HealthReport;
pub use last_run::{FailedPoll, LastRun};
pub use overview::{SayTime, Table};
pub use reports::ScheduledReportStatus;
pub use stored::{EmptiedRoute, RemovedSink, Stored};

/// The state of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkspaceStatus {
    /// The worst of all findings.
    pub health: Health,
    /// The findings, each with what to do.
    pub reasons: Vec<String>,
    /// True if a daemon replied; otherwise the status comes from the store.
    pub running: bool,
    /// The daemon's process id.
    pub pid: Option<u32>,
    /// Why the last reload was refused. The daemon then runs with an older configuration.
    pub reload_refused: Option<String>,
    /// Where the status page is open; only of a running daemon.
    pub page: Option<String>,
    /// When the status was taken.
    pub at: String,
    /// One entry per poller.
    pub pollers: Vec<PollerStatus>,
    /// The last run of `shopmirror once` or of the daemon; only if no daemon runs.
    pub last_run: Option<LastRun>,
    /// The rate budget; only of a running daemon.
    pub budget: Option<BudgetStatus>,
    /// One entry per sink.
    pub sinks: Vec<SinkStatus>,
    /// Sinks that are no longer configured and for which the log keeps changes.
    #[serde(default)]
    pub removed_sinks: Vec<RemovedSink>,
    /// The number of records per route.
    pub records: BTreeMap<String, i64>,
    /// Routes whose last page was empty although the mirror has records of them.
    pub emptied: Vec<EmptiedRoute>,
    /// The number of the last row of the log.
    pub last_seq: i64,
    /// How status changes and payments name their job.
    #[serde(default)]
    pub job_links: Vec<JobLink>,
    /// Of which of these routes no record is known to name its job.
    #[serde(default)]
    pub unlinked_routes: Vec<Route>,
    /// The state of the daily backup; `None` if none are made.
    #[serde(default)]
    pub backup: Option<BackupStatus>,
    /// One entry per scheduled report.
    #[serde(default)]
    pub reports: Vec<ScheduledReportStatus>,
}

impl WorkspaceStatus {
    /// The status of a running daemon: what its tasks report, joined with what is stored.
    #[must_use]
    pub fn of_daemon(
        polling: PollingStatus,
        sinks: Vec<SinkStatus>,
        stored: &Stored,
        reload_refused: Option<String>,
        page: Option<String>,
        now: Timestamp,
    ) -> Self {
        let mut health = HealthReport::default();
        health.judge_polling(&polling);
        if let Some(why) = &reload_refused {
            health.degraded(format!(
                "the last reload was refused, and the daemon still runs with the older configuration: {why}; correct the file, then reload"
            ));
        }
        let halted = polling.paused.is_some();
        let mut status = Self {
            running: true,
            pid: Some(std::process::id()),
            reload_refused,
            page,
            pollers: polling.pollers,
            budget: Some(polling.budget),
            sinks,
            at: stamp(now),
            ..stored.status.clone()
        };
        stored.complete(&mut status.pollers, now);
        if !halted {
            health.judge_pollers(&status.pollers);
        }
        status.conclude(health)
    }

    /// The status from the store only, because no daemon replied for the reason `why`.
    ///
    /// `once_every` is the configured interval of `shopmirror once`, if a timer runs it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of_store(
        reader: &Reader,
        why: &ControlError,
        once_every: Option<Duration>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let stored = Stored::read(reader)?;
        let last_run = LastRun::read(reader, now)?;
        let mut health = HealthReport::default();
        health.judge_absence(why, last_run.as_ref(), once_every, reader.path());
        if let Some(other) = reader.other_workspace()? {
            health.failing(other.to_string());
        }
        let mut status = Self {
            last_run,
            pollers: stored.stopped_pollers(now),
            sinks: stored::stopped_sinks(reader, stored.status.last_seq)?,
            at: stamp(now),
            ..stored.status.clone()
        };
        stored.complete(&mut status.pollers, now);
        Ok(status.conclude(health))
    }

    fn conclude(mut self, mut health: HealthReport) -> Self {
        for poller in self.pollers.iter_mut().filter(|poller| poller.failures == 0) {
            // An error that is over is not shown.
            poller.last_error = None;
            poller.last_error_text = None;
        }
        for sink in &mut self.sinks {
            if sink.state == SinkActivity::Active && sink.retrying + sink.dead == 0 {
                sink.last_error = None;
            }
        }
        health.judge_gaps(&self.pollers);
        for route in &self.emptied {
            health.degraded(route.to_string());
        }
        health.judge_sinks(&self.sinks);
        for sink in &self.removed_sinks {
            health.degraded(format!("sink {sink}"));
        }
        (self.health, self.reasons) = health.into_parts();
        self
    }
}
