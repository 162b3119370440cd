//! `check` of the templates and shapes of sinks: each sink writes one record of every route and
//! kind that it asks for. Nothing is sent.
//!
//! The record is the newest one of the mirror, because a shop may have fields of its own. If there
//! is none, it is a sample with the fields that every workspace has. A sink that gets alerts or
//! reports also writes one of these, because a template that was written for records may refuse it,
//! or leave it out.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Change, Kind, Route};

use crate::config::{Config, SinkFilter, SinkKind};
use crate::report;
use crate::sink::{Sink, Verdict};
use crate::status::alerts;
use crate::store::Reader;

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// The first change that the sink asks for and cannot write.
pub(super) fn problem(sink: &dyn Sink, filter: &SinkFilter, store: &Path) -> Option<String> {
    let mirror = Reader::open(store).ok();
    let now = Timestamp::now();
    for route in &filter.routes {
        let record = newest_of(mirror.as_ref(), &[*route], now);
        for kind in &filter.changes {
            let reason = match sink.preview(&with_kind(*kind, &record), now) {
                Err(
                    Verdict::Refused {
                        reason,
                        for_good: false,
                    }
                    | Verdict::Fault { reason, .. },
                ) => reason,
                // A record that is refused for good lacks a field that another record may have.
                _ => continue,
            };
            return Some(format!(
                "cannot send {route}.{kind}: {}; or leave {route} out of `routes`, or {kind} \
                 out of `changes`",
                reason.text
            ));
        }
    }
    None
}

/// Why the sink would not show the alerts and the reports that it gets. Sends nothing.
pub(super) fn notice_problems(config: &Config, name: &str, sink: &dyn Sink) -> Vec<String> {
    let now = Timestamp::now();
    let mut notices = Vec::new();
    if config.alerts.sinks.iter().any(|sink| sink == name) {
        let alert = alerts::sample(TITLE, TEXT, now);
        notices.push(change(alert.kind, &alert.about, alert.body, now));
    }
    let mut scheduled = config.reports.schedule.iter();
    if let Some((report, _)) = scheduled.find(|(_, one)| one.sink.as_deref() == Some(name)) {
        let body = report::sample_body(report, TITLE, TEXT, now);
        notices.push(change(Kind::Report, report, body, now));
    }
    let kind = &config.sinks[name].kind;
    let mut problems = Vec::new();
    for notice in &notices {
        problems.extend(notice_problem(kind, sink, notice, now));
    }
    problems
}

fn notice_problem(
    settings: &SinkKind,
    sink: &dyn Sink,
    notice: &Change,
    now: Timestamp,
) -> Option<String> {
    let kind = notice.kind;
    let remedy = match settings {
        SinkKind::File(_) => "add title and text to `columns`".to_owned(),
        _ => format!(
            "give the template a part for them, {{% if kind == \"{kind}\" %}} with record.title \
             and record.text, as the files in examples/sinks do"
        ),
    };
    match sink.preview(notice, now) {
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => Some(format!(
            "cannot send the kind {kind}: {}; {remedy}",
            reason.text
        )),
        Ok(preview) if !preview.body.contains(TITLE) && !preview.body.contains(TEXT) => Some(
            format!("sends the kind {kind} without its title and text; {remedy}"),
        ),
        _ => None,
    }
}

/// The change of the newest record of these routes, or a sample.
pub(in crate::cli) fn newest_of(
    mirror: Option<&Reader>,
    routes: &[Route],
    now: Timestamp,
) -> Change {
    let mut stored = Vec::new();
    if let Some(mirror) = mirror {
        stored.extend(routes.iter().filter_map(|route| newest(mirror, *route)));
    }
    match stored.into_iter().max_by_key(|change| change.seq) {
        Some(change) => change,
        None => sample(routes.first().copied().unwrap_or(Route::Leads), now),
    }
}

/// The change that the mirror has of the newest record of a route.
fn newest(mirror: &Reader, route: Route) -> Option<Change> {
    let newest = mirror.newest(route, &[], 1).ok()?;
    let mut changes = mirror.changes(&newest).ok()?;
    mirror.add_jobs(&mut changes).ok()?;
    let change = changes.pop()?;
    if change.kind == Kind::Forgotten {
        return None;
    }
    Some(change)
}

/// A record that does not exist, as a change.
fn sample(route: Route, now: Timestamp) -> Change {
    let body = match route {
        Route::Jobs => JOB,
        Route::Customers => CUSTOMER,
        Route::Leads => LEAD,
        Route::Payments => PAYMENT,
        Route::JobStatusChanges => STATUS_CHANGE,
        Route::OutsourcedJobs => OUTSOURCED,
    };
    let mut change = change(Kind::Created, "test", body.to_owned(), now);
    change.route = route;
    if matches!(route, Route::Payments | Route::JobStatusChanges) {
        change.job = Some(current_job());
    }
    change
}

/// A change that is in no log.
pub(in crate::cli) fn change(kind: Kind, id: &str, body: String, now: Timestamp) -> Change {
    Change {
        seq: 0,
        event_id: format!("{kind}_sample"),
        route: Route::Jobs,
        record_id: Some(id.to_owned()),
        kind,
        version: 1,
        observed_at: stamp(now),
        business: None,
        body,
        before: None,
        job: None,
    }
}

/// The value of `job` in the event of a status change or a payment.
fn current_job() -> String {
    let current = concat!(
        r#""current_status":"Received","current_stage":"open","#,
        r#""status_since":"2026-03-01T09:00:00.000000Z","completed_at":null,"#,
        r#""paid_total":0,"paid_total_mark":"","paid_total_max":null}"#
    );
    format!("{},{current}", JOB.trim_end_matches('}'))
}

/// The record as if a change of this kind had happened to it.
fn with_kind(kind: Kind, record: &Change) -> Change {
    let mut change = record.clone();
    change.kind = kind;
    change.before = None;
    match kind {
        Kind::Gap => {
            change.body = GAP.to_owned();
            change.record_id = None;
            change.job = None;
        }
        Kind::Forgotten => {
            let id = change.record_id.as_deref().unwrap_or_default();
            change.body = json!({ "id": id }).to_string();
            change.job = None;
        }
        // Every field is new.
        Kind::Updated => change.before = Some("{}".to_owned()),
        _ => {}
    }
    change
}

const JOB: &str = include_str!("samples/job.json").trim_ascii_end();
const CUSTOMER: &str = include_str!("samples/customer.json").trim_ascii_end();
const LEAD: &str = include_str!("samples/lead.json").trim_ascii_end();
const PAYMENT: &str = include_str!("samples/payment.json").trim_ascii_end();
const STATUS_CHANGE: &str = include_str!("samples/status_change.json").trim_ascii_end();
const OUTSOURCED: &str = include_str!("samples/outsourced_job.json").trim_ascii_end();
const GAP: &str = include_str!("samples/gap.json").trim_ascii_end();
