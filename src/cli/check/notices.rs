//! `check` of the sinks that are told of alerts or given reports: what they would send shows them.
//!
//! A template that was made for records may refuse an alert, or send a message that says nothing of it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::CheckReport;
use crate::cli::exit;
use crate::clock::stamp;
use crate::config::{Config, ReportTarget, SinkKind};
use crate::record::{Change, Kind, Route};
use crate::sink::{Sink, Verdict};

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// Tests each sink of `[alerts]` and of a scheduled report; sends nothing. With `only`, this sink alone.
pub(super) fn check(config: &Config, only: Option<&str>, report: &mut CheckReport) {
    let now = Timestamp::now();
    let alerts = config.alerts.sinks.iter().map(|sink| (sink, alert(now)));
    let reports = config.reports.schedule.iter().filter_map(|(name, settings)| {
        let ReportTarget::Sink(sink) = &settings.to else { return None };
        Some((sink, scheduled(name, now)))
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
    let sink = Sink::build(name, settings).ok()?;
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
    let body = json!({
        "state": "begun", "about": "key", "title": TITLE, "text": TEXT, "reasons": [],
        "since": stamp(now), "at": stamp(now),
    });
    notice(Kind::Alert, "key", &body, now)
}

fn scheduled(name: &str, now: Timestamp) -> Change {
    let body = json!({
        "name": name, "report": name, "title": TITLE, "about": "", "from": "", "to": "", "notes": [],
        "rows": 0, "format": "table", "content_type": "text/plain; charset=utf-8",
        "file_name": "sample.txt", "content": TEXT, "text": TEXT, "html": TEXT, "chart": null,
    });
    notice(Kind::Report, name, &body, now)
}

fn notice(kind: Kind, about: &str, body: &Value, now: Timestamp) -> Change {
    Change {
        seq: 0,
        event_id: format!("{kind}_sample"),
        route: Route::Jobs,
        record_id: Some(about.to_owned()),
        kind,
        version: 1,
        observed_at: stamp(now),
        business: None,
        body: body.to_string(),
        before: None,
    }
}
