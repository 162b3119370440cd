//! The state of the scheduled reports as the status shows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;

use crate::config::ReportsSettings;
use crate::report::{ReportRun, Timetable};

/// The state of one scheduled report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduledReportStatus {
    /// The name of its table in the configuration.
    pub name: String,
    /// When it is made next, or tried again.
    pub next_at: String,
    /// The time for which the last one was made.
    pub last_at: Option<String>,
    /// How often it failed since then.
    pub failures: u32,
    /// Why it failed last; `None` once one is made.
    pub last_error: Option<String>,
}

impl ScheduledReportStatus {
    /// The state of every scheduled report.
    #[must_use]
    pub fn from_runs(
        settings: &ReportsSettings,
        zone: &TimeZone,
        runs: &BTreeMap<String, ReportRun>,
        now: Timestamp,
    ) -> Vec<Self> {
        let mut statuses = Vec::new();
        for (name, report) in &settings.schedule {
            let timetable = Timetable {
                at: &report.at,
                days: &report.days,
                zone,
            };
            let mut status = Self {
                name: name.clone(),
                next_at: stamp(timetable.next(now)),
                last_at: None,
                failures: 0,
                last_error: None,
            };
            if let Some(run) = runs.get(name) {
                let (_, due_at) = timetable.due(run, now);
                status.next_at = stamp(due_at.max(now));
                status.last_at = run.made_for().map(stamp);
                status.failures = run.failures;
                status.last_error = run.error.clone();
            }
            statuses.push(status);
        }
        statuses
    }
}
