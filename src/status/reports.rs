//! The state of the scheduled reports as the status shows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Health, WorkspaceStatus};
use crate::clock::stamp;
use crate::config::{ReportTarget, ReportsSettings, ScheduledReport};
use crate::report::{ReportRun, Timetable};

/// The state of one scheduled report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduledReportStatus {
    /// The name of its table in the configuration.
    pub name: String,
    /// The report.
    pub report: String,
    /// Where it goes: `sink NAME` or `file PATH`.
    pub to: String,
    /// When it is made next, or tried again.
    pub next_at: String,
    /// The time for which the last one was made.
    pub last_at: Option<String>,
    /// How often it failed since.
    pub failures: u32,
    /// Why it failed last; `None` once one is made.
    pub last_error: Option<String>,
}

impl ScheduledReportStatus {
    /// The state of every scheduled report.
    #[must_use]
    pub fn of_all(
        settings: &ReportsSettings,
        zone: &TimeZone,
        runs: &BTreeMap<String, ReportRun>,
        now: Timestamp,
    ) -> Vec<Self> {
        let of = |(name, one): (&String, &ScheduledReport)| {
            let run = runs.get(name);
            let table = Timetable { at: one.at, days: &one.days, zone };
            let next = run.map_or_else(|| table.next(now), |run| table.due(run, now).1.max(now));
            Self {
                name: name.clone(),
                report: one.report.clone(),
                to: match &one.to {
                    ReportTarget::File(path) => format!("file {}", path.display()),
                    ReportTarget::Sink(sink) => format!("sink {sink}"),
                },
                next_at: stamp(next),
                last_at: run.and_then(ReportRun::made_for).map(stamp),
                failures: run.map_or(0, |run| run.failures),
                last_error: run.and_then(|run| run.error.clone()),
            }
        };
        settings.schedule.iter().map(of).collect()
    }
}

impl WorkspaceStatus {
    /// Adds the state of the scheduled reports.
    #[must_use]
    pub fn with_reports(mut self, reports: Vec<ScheduledReportStatus>) -> Self {
        for report in &reports {
            if let Some(why) = &report.last_error {
                self.health = self.health.max(Health::Degraded);
                self.reasons.push(format!(
                    "the scheduled report {} failed and is retried at {}: {why}",
                    report.name, report.next_at
                ));
            }
        }
        self.reports = reports;
        self
    }
}
