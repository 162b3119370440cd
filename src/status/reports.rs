//! The state of the scheduled reports as the status shows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;

use crate::config::{ReportsSettings, ScheduledReport};
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
            let table = Timetable {
                at: one.at,
                days: &one.days,
                zone,
            };
            let next = run.map_or_else(|| table.next(now), |run| table.due(run, now).1.max(now));
            Self {
                name: name.clone(),
                next_at: stamp(next),
                last_at: run.and_then(ReportRun::made_for).map(stamp),
                failures: run.map_or(0, |run| run.failures),
                last_error: run.and_then(|run| run.error.clone()),
            }
        };
        settings.schedule.iter().map(of).collect()
    }
}
