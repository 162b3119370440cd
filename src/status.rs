//! The state of the workspace: pollers, budget, sinks, records, and the health they add up to.
//!
//! All output shows this one value. A running daemon sends it over the control socket; without a
//! daemon it is read from the store. It holds counts and states, and no content of a record.

pub mod alerts;
mod backup;
mod fields;
mod health;
mod overview;
mod reports;
mod stored;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shopmirror_core::budget::BudgetStatus;
use shopmirror_core::record::{PollerId, Route};

use crate::control::ControlError;
use crate::deliver::SinkStatus;
use crate::poll::{PollerStatus, PollingStatus};
use crate::store::{FieldStatus, Gap, JobLink, Reader, Reread, StoreError, Withheld};
pub use backup::{BackupStatus, OffsiteStatus, SAME_DISK};
pub use health::Health;
use health::{degraded, failing, judge_absence, judge_pollers, judge_polling};
pub use overview::{FormatTime, StatusTable};
pub use reports::ScheduledReportStatus;

/// The state of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkspaceStatus {
    /// The worst of all findings.
    pub health: Health,
    /// The findings, each with what to do.
    pub reasons: Vec<String>,
    /// What the other side said when it made every route wait: not our words.
    pub paused_quotation: Option<String>,
    /// True if a daemon replied; otherwise the status comes from the store.
    pub running: bool,
    /// The daemon's process id.
    pub pid: Option<u32>,
    /// Why the last reload was refused. The daemon then runs with an older configuration.
    pub reload_refused: Option<String>,
    /// What is wrong with the configuration file, if the daemon runs with an older configuration;
    /// only in the output of the command `status`.
    pub file_mistake: Option<String>,
    /// Where the status page is open; only of a running daemon.
    pub page: Option<String>,
    /// Why the status page cannot be opened.
    pub page_refused: Option<String>,
    /// When the status was taken.
    pub at: String,
    /// The name of the workspace, once it is known.
    pub workspace: Option<String>,
    /// One entry per poller.
    pub pollers: Vec<PollerStatus>,
    /// The rate budget; only of a running daemon.
    pub budget: Option<BudgetStatus>,
    /// One entry per sink.
    pub sinks: Vec<SinkStatus>,
    /// Sinks that are no longer configured and for which the log keeps changes, each with what to
    /// do.
    pub removed_sinks: Vec<String>,
    /// The gaps that are neither repaired nor accepted, newest first.
    pub gaps: Vec<Gap>,
    /// Lists with records that are gone from them and still count, since they were too many in a day.
    pub withheld: Vec<Withheld>,
    /// The number of records per route.
    pub records: BTreeMap<String, i64>,
    /// Routes whose last page was empty although the mirror has records of them, each with what to
    /// do.
    pub emptied: Vec<String>,
    /// Routes whose newest records are gone from their list, with nothing newer in their place.
    pub newest_gone: Vec<String>,
    /// That the workspace was restored from a backup, if it seems so, and what to do.
    pub restored: Option<String>,
    /// Businesses of a route that were read before and are not polled now.
    pub left_out: Vec<LeftOutList>,
    /// The number of the last row of the log.
    pub last_seq: i64,
    /// How status changes and payments name their job.
    pub job_links: Vec<JobLink>,
    /// Routes whose records cannot be linked to a job, because none was seen to name one.
    pub unlinked_routes: Vec<Route>,
    /// The fields that reports calculate with of which there is something to say.
    pub fields: Vec<FieldStatus>,
    /// The tables whose values are being read again.
    pub rereads: Vec<Reread>,
    /// The state of the daily backup; `None` if none are made.
    pub backup: Option<BackupStatus>,
    /// The state of the off-site backup; `None` if none are made.
    pub offsite: Option<OffsiteStatus>,
    /// One entry per scheduled report.
    pub reports: Vec<ScheduledReportStatus>,
}

/// A business of a route that was read before and is not polled now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftOutList {
    /// The route and the business: `jobs@2`.
    pub name: String,
    /// When it was read last.
    pub last_read_at: String,
    /// Since when the workspace's default business is another one, if that is why.
    pub replaced_at: Option<String>,
}

impl WorkspaceStatus {
    /// What is stored, with what the tasks of a running daemon report.
    #[must_use]
    pub fn with_polling(self, polling: PollingStatus) -> Self {
        let mut findings = judge_polling(&polling);
        if let Some(why) = &self.reload_refused {
            findings.push(degraded(format!(
                "the last reload was refused, and the daemon still runs with the older \
                 configuration: {why}; correct the file, then reload"
            )));
        }
        if let Some(why) = &self.page_refused {
            findings.push(degraded(format!(
                "the status page cannot be opened at {why}"
            )));
        }
        let is_paused = polling.paused.is_some();
        let left_out = self.left_out_of(&polling.pollers);
        let pollers = polling
            .pollers
            .into_iter()
            .map(|poller| self.completed(poller))
            .collect();
        let status = Self {
            running: true,
            pid: Some(std::process::id()),
            pollers,
            budget: Some(polling.budget),
            paused_quotation: polling.paused_quotation,
            left_out,
            ..self
        };
        if !is_paused {
            findings.extend(judge_pollers(&status.pollers));
        }
        status.judged(findings)
    }

    /// The status without what others said, which may repeat records.
    #[must_use]
    pub fn without_quotations(mut self) -> Self {
        self.paused_quotation = None;
        for poller in &mut self.pollers {
            poller.last_error_quotation = None;
        }
        for sink in &mut self.sinks {
            sink.last_error_quotation = None;
        }
        self
    }

    /// What was said in place of the workspace or by it about what is wrong now, each with what it
    /// concerns.
    fn quotations(&self) -> Vec<(String, &str)> {
        let mut quotations: Vec<(String, &str)> = Vec::new();
        if let Some(quotation) = &self.paused_quotation {
            quotations.push(("the workspace's address".to_owned(), quotation));
        }
        for poller in &self.pollers {
            let Some(quotation) = &poller.last_error_quotation else {
                continue;
            };
            // Routes are mostly answered alike.
            if !quotations.iter().any(|(_, known)| known == quotation) {
                quotations.push((poller.name(), quotation));
            }
        }
        quotations
    }

    /// What is stored, because no daemon replied for the reason `why`.
    ///
    /// `configured` are the pollers that the configuration names, and `once_every` is its interval
    /// of `shopmirror once`, if a timer runs it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn without_daemon(
        self,
        reader: &Reader,
        why: &ControlError,
        configured: &[PollerId],
        once_every: Option<Duration>,
    ) -> Result<Self, StoreError> {
        let pollers: Vec<_> = configured
            .iter()
            .map(|id| self.completed(PollerStatus::stopped(id)))
            .collect();
        let mut findings = judge_absence(why, &pollers, once_every, reader.path());
        if let Some(other) = reader.other_workspace()? {
            findings.push(failing(other.to_string()));
        }
        let sinks = stored::stopped_sinks(reader, self.last_seq)?;
        let status = Self {
            left_out: self.left_out_of(&pollers),
            pollers,
            sinks,
            ..self
        };
        Ok(status.judged(findings))
    }
}
