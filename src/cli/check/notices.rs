//! `check` of the sinks that are told of alerts or given reports: what they would send shows them.
//!
//! A template that was made for records may refuse an alert, or send a message that says nothing of it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::CheckReport;
use crate::alerts;
use crate::cli::exit;
use crate::clock::stamp;
use crate::config::{Config, CountedBy, ReportFormat, ReportTarget, ScheduledReport, SinkKind};
use crate::record::{Change, Kind, Route};
use crate::report::{self, Answer, Column, Known, Period, Report};
use crate::sink::{self, Verdict};
use crate::store::{NewNotice, SqlValue};

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// Tests each sink of `[alerts]` and of a scheduled report; sends nothing. With `only`, this sink alone.
pub(super) fn check(config: &Config, only: Option<&str>, report: &mut CheckReport) {
    let now = Timestamp::now();
    let alerts = config.alerts.sinks.iter().map(|sink| (sink, alert(now)));
    let reports = config.reports.schedule.iter().filter_map(|(name, settings)| {
        let ReportTarget::Sink(sink) = &settings.to else { return None };
        Some((sink, scheduled(name, settings, now)?))
    });
    let mut told: Vec<(&String, Kind)> = Vec::new();
    for (sink, notice) in alerts.chain(reports) {
        let is_again = told.contains(&(sink, notice.kind));
        if is_again || only.is_some_and(|only| only != sink) {
            continue;
        }
        told.push((sink, notice.kind));
        if let Some(problem) = problem(config, sink, &notice, now) {
            report.wrong(exit::CONFIG, format!("sink {sink}"), problem);
        }
    }
}

/// Why what the sink would send does not show the notice. A sink that cannot be built has a test of its own.
fn problem(config: &Config, name: &str, notice: &Change, now: Timestamp) -> Option<String> {
    let settings = &config.sinks.get(name)?.kind;
    let sink = sink::build_one(name, settings).ok()?;
    let kind = notice.kind;
    let remedy = match settings {
        SinkKind::File(_) => "add title and text to `columns`".to_owned(),
        _ => format!(
            "give the template a part for them, {{% if kind == \"{kind}\" %}} with record.title and record.text, \
             as the files in examples/sinks do"
        ),
    };
    match sink.preview(notice, now) {
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => {
            Some(format!("cannot send the kind {kind}: {reason}; {remedy}"))
        }
        Ok(preview) if ![TITLE, TEXT].iter().any(|text| preview.body.contains(text)) => {
            Some(format!("sends the kind {kind} without its title and text; {remedy}"))
        }
        _ => None,
    }
}

fn alert(now: Timestamp) -> Change {
    notice(alerts::sample(TITLE, TEXT, now))
}

/// A report with one row, in the form that this one is made in. A sample has no chart.
fn scheduled(name: &str, settings: &ScheduledReport, now: Timestamp) -> Option<Change> {
    let report = Report::parse(name, &format!("-- title: {TITLE}")).ok()?;
    let today = now.to_zoned(TimeZone::UTC).date();
    let answer = Answer {
        report,
        period: Period { from: today, to: today },
        by: CountedBy::Day,
        as_of: now.to_zoned(TimeZone::UTC),
        columns: vec![Column { name: "sample".to_owned(), format: None }],
        rows: vec![vec![SqlValue::Text(TEXT.to_owned())]],
        row_count: 1,
        known: Known::Wholly,
        exactness: Vec::new(),
        totals: None,
        totals_exactness: Vec::new(),
        notes: Vec::new(),
        currency: None,
    };
    let format = match settings.format {
        ReportFormat::Svg => ReportFormat::Table,
        format => format,
    };
    let body = report::notice_body(name, &answer, format).ok()?;
    let (kind, about, made_at) = (Kind::Report, name.to_owned(), stamp(now));
    Some(notice(NewNotice { kind, about, version: 1, made_at, body }))
}

fn notice(made: NewNotice) -> Change {
    let NewNotice { kind, about, version, made_at, body } = made;
    Change {
        seq: 0,
        event_id: format!("{kind}_sample"),
        route: Route::Jobs,
        record_id: Some(about),
        kind,
        version,
        observed_at: made_at,
        business: None,
        body,
        before: None,
        job: None,
    }
}
