//! `check` of the sinks that are told of alerts or given reports: what they would send shows them.
//!
//! A template that was made for records may refuse an alert, or send a message that says nothing of it.

use jiff::Timestamp;
use serde_json::json;

use super::samples;
use crate::alerts;
use crate::clock::stamp;
use crate::config::{Config, ReportTarget, ScheduledReport, SinkKind};
use crate::record::{Change, Kind};
use crate::sink::{Sink, Verdict};
use crate::store::NewNotice;

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// Why what the sink would send does not show the alerts and the reports that it gets. Sends nothing.
pub(super) fn problems(config: &Config, name: &str, sink: &dyn Sink) -> Vec<String> {
    let now = Timestamp::now();
    let is_told = config.alerts.sinks.iter().any(|told| told == name);
    let alert = is_told.then(|| notice(alerts::sample(TITLE, TEXT, now), now));
    let is_given =
        |settings: &ScheduledReport| matches!(&settings.to, ReportTarget::Sink(to) if to == name);
    let reports = config.reports.schedule.iter();
    let report = reports
        .filter(|(_, settings)| is_given(settings))
        .map(|(name, _)| report(name, now))
        .next();
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

/// A report whose every part shows the title and the text.
fn report(name: &str, now: Timestamp) -> Change {
    let body = json!({
        "name": name, "report": name, "title": TITLE, "about": TEXT, "from": "2026-03-01", "to": "2026-03-01",
        "as_of": stamp(now), "notes": [], "rows": 1, "format": "table", "content_type": "text/plain",
        "file_name": "sample.txt", "content": TEXT, "text": TEXT, "html": TEXT, "chart": null,
    });
    samples::change(Kind::Report, name, body.to_string(), now)
}

fn notice(made: NewNotice, now: Timestamp) -> Change {
    samples::change(made.kind, &made.about, made.body, now)
}
