//! `check` of the scheduled reports: each names a report that exists, with parameters that it has.

use jiff::Timestamp;

use super::CheckReport;
use crate::cli::{exit, moment};
use crate::clock::stamp;
use crate::config::{Config, ReportFormat, ScheduledReport};
use crate::report::{self, Timetable};

pub(super) fn check(config: &Config, report: &mut CheckReport) {
    let now = Timestamp::now();
    for (name, settings) in &config.reports.schedule {
        let what = format!("report {name}");
        match problem(config, settings) {
            Some(problem) => report.wrong(exit::CONFIG, what, problem),
            None => {
                let zone = &config.workspace.time_zone;
                let table = Timetable { at: settings.at, days: &settings.days, zone };
                let next = moment::shown(&stamp(table.next(now)));
                report.ok(what, format!("{}, next at {next}", settings.report));
            }
        }
    }
}

fn problem(config: &Config, settings: &ScheduledReport) -> Option<String> {
    let found = match report::find(&settings.report, config.reports.folder.as_deref()) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    if settings.format == ReportFormat::Svg && found.chart.is_none() {
        return Some(format!(
            "the report {} declares no chart: set format to \"html\" or \"csv\"",
            found.name
        ));
    }
    report::refused_parameter(&found, &settings.parameters).map(|error| error.to_string())
}
