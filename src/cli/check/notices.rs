//! `check` of the sinks that are told of alerts or given reports: what they would send shows them.
//!
//! A template that was made for records may refuse an alert, or send a message that says nothing of it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::samples;
use crate::alerts;
use crate::config::{Config, CountedBy, ReportFormat, ReportTarget, ScheduledReport, SinkKind};
use crate::record::{Change, Kind};
use crate::report::{self, Answer, Column, Known, Period, Report};
use crate::sink::{Sink, Verdict};
use crate::store::{NewNotice, SqlValue};

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// Why what the sink would send does not show the alerts and the reports that it gets. Sends nothing.
pub(super) fn problems(config: &Config, name: &str, sink: &dyn Sink) -> Vec<String> {
    let now = Timestamp::now();
    let is_told = config.alerts.sinks.iter().any(|told| told == name);
    let alert = is_told.then(|| notice(alerts::sample(TITLE, TEXT, now), now));
    let report = config.reports.schedule.iter().find_map(|(report, settings)| match &settings.to {
        ReportTarget::Sink(to) if to == name => scheduled(report, settings, now),
        _ => None,
    });
    let kind = &config.sinks[name].kind;
    alert.into_iter().chain(report).filter_map(|notice| problem(kind, sink, &notice, now)).collect()
}

fn problem(
    settings: &SinkKind,
    sink: &dyn Sink,
    notice: &Change,
    now: Timestamp,
) -> Option<String> {
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
    Some(samples::change(Kind::Report, name, body, now))
}

fn notice(made: NewNotice, now: Timestamp) -> Change {
    samples::change(made.kind, &made.about, made.body, now)
}
