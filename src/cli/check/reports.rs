//! `check` of the reports: each file of the folder can be used, and each scheduled report names a
//! report that exists, with parameters that it has, and a file that can be written.

use jiff::Timestamp;
use shopmirror_core::clock::stamp;

use super::CheckReport;
use super::writable::unwritable;
use crate::cli::moment;
use crate::config::{Config, OnlyIf, ReportFormat, ScheduledReport};
use crate::report::{self, Answer, Timetable};

/// Tests each scheduled report; with `are_files_tested` the files and folders too.
pub(super) fn check(config: &Config, are_files_tested: bool, report: &mut CheckReport) {
    if are_files_tested {
        for error in report::list(config.reports.folder.as_deref()).1 {
            report.wrong("reports", error.to_string());
        }
    }
    let now = Timestamp::now();
    for (name, settings) in &config.reports.schedule {
        let what = format!("report {name}");
        let mut problem = problem(config, settings);
        if problem.is_none()
            && are_files_tested
            && let Some(file) = &settings.path
        {
            problem = unwritable(file, &config.store.path, report.unit.as_ref());
        }
        if problem.is_none()
            && let Some(only_if) = &settings.only_if
        {
            problem = reason_problem(config, settings, only_if, now);
        }
        if let Some(problem) = problem {
            report.wrong(what, problem);
            continue;
        }
        let timetable = Timetable {
            at: &settings.at,
            days: &settings.days,
            zone: &config.workspace.time_zone,
        };
        let next = moment::shown(&stamp(timetable.next(now)));
        report.ok(what, format!("{}, next at {next}", settings.report));
    }
}

/// What is wrong with the reason of a report, as far as the mirror can tell.
fn reason_problem(
    config: &Config,
    settings: &ScheduledReport,
    only_if: &OnlyIf,
    now: Timestamp,
) -> Option<String> {
    let answer = made(config, settings, now).ok()?;
    let judged = report::has_reason(only_if, &answer);
    judged.err().map(|error| error.to_string())
}

/// A scheduled report as it would be made now.
///
/// # Errors
/// If there is no store, or it cannot answer.
pub(in crate::cli) fn made(
    config: &Config,
    settings: &ScheduledReport,
    now: Timestamp,
) -> anyhow::Result<Answer> {
    let mut reader = crate::cli::reader(config)?;
    let zone = &config.workspace.time_zone;
    let currency = config.reports.currency.as_deref();
    let locale = config.workspace.own_locale();
    let found = report::find(&settings.report, config.reports.folder.as_deref())?;
    let question = report::question_of(settings, currency, &locale, zone, now);
    Ok(report::answer(&mut reader, &found, &question, zone, now)?)
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
    let set: Vec<_> = settings.parameters.clone().into_iter().collect();
    report::own_parameters(&found, &set)
        .err()
        .map(|error| error.to_string())
}
