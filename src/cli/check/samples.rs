//! `check` of what sinks make of records: each template, given one record of every route and kind
//! that its sink asks for. Sends nothing.
//!
//! It is the newest record of the mirror, because a shop may have fields of its own. While there is
//! none, it is one with the fields that every workspace has. A sink that gets alerts or reports is
//! given one of these as well, because a template that was made for records may refuse it, or say
//! nothing of it.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Change, Kind, Route};

use crate::config::{Config, ScheduledReport, SinkFilter, SinkKind};
use crate::report;
use crate::sink::{Sink, Verdict};
use crate::status::alerts;
use crate::store::Reader;

const TITLE: &str = "shopmirror sample title";
const TEXT: &str = "shopmirror sample text";

/// The first change that the sink asks for and cannot write.
pub(super) fn problem(sink: &dyn Sink, filter: &SinkFilter, store: &Path) -> Option<String> {
    let (mirror, now) = (Reader::open(store).ok(), Timestamp::now());
    for route in &filter.routes {
        let record = newest_of(mirror.as_ref(), &[*route], now);
        for kind in &filter.changes {
            let reason = match sink.preview(&of_kind(*kind, record.clone()), now) {
                Err(
                    Verdict::Refused {
                        reason,
                        for_good: false,
                    }
                    | Verdict::Fault { reason, .. },
                ) => reason,
                // What is refused for good lacks something that another record may have.
                _ => continue,
            };
            return Some(format!(
                "cannot send {route}.{kind}: {reason}; or leave {route} out of `routes`, or {kind} out of `changes`"
            ));
        }
    }
    None
}

/// Why what the sink would send does not show the alerts and the reports that it gets. Sends
/// nothing.
pub(super) fn notice_problems(config: &Config, name: &str, sink: &dyn Sink) -> Vec<String> {
    let now = Timestamp::now();
    let is_told = config.alerts.sinks.iter().any(|told| told == name);
    let alert = is_told.then(|| alerts::sample(TITLE, TEXT, now));
    let alert = alert.map(|made| change(made.kind, &made.about, made.body, now));
    let is_given =
        |(_, settings): &(&String, &ScheduledReport)| settings.sink.as_deref() == Some(name);
    let report = config
        .reports
        .schedule
        .iter()
        .find(is_given)
        .map(|(name, _)| {
            change(
                Kind::Report,
                name,
                report::sample_body(name, TITLE, TEXT, now),
                now,
            )
        });
    let kind = &config.sinks[name].kind;
    alert
        .into_iter()
        .chain(report)
        .filter_map(|notice| notice_problem(kind, sink, &notice, now))
        .collect()
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
            "give the template a part for them, {{% if kind == \"{kind}\" %}} with record.title and record.text, \
             as the files in examples/sinks do"
        ),
    };
    match sink.preview(notice, now) {
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => {
            Some(format!("cannot send the kind {kind}: {reason}; {remedy}"))
        }
        Ok(preview) if ![TITLE, TEXT].iter().any(|text| preview.body.contains(text)) => Some(
            format!("sends the kind {kind} without its title and text; {remedy}"),
        ),
        _ => None,
    }
}

/// The change of the newest record of these routes, or one that is made up.
pub(in crate::cli) fn newest_of(
    mirror: Option<&Reader>,
    routes: &[Route],
    now: Timestamp,
) -> Change {
    let found = mirror.and_then(|mirror| {
        routes
            .iter()
            .filter_map(|route| newest(mirror, *route))
            .max_by_key(|change| change.seq)
    });
    let route = routes.first().copied().unwrap_or(Route::Leads);
    found.unwrap_or_else(|| made_up(route, now))
}

/// The change that the mirror has of the newest record of a route.
fn newest(mirror: &Reader, route: Route) -> Option<Change> {
    let mut changes = mirror.changes(&mirror.newest(route, &[], 1).ok()?).ok()?;
    mirror.add_jobs(&mut changes).ok()?;
    changes
        .pop()
        .filter(|change| change.kind != Kind::Forgotten)
}

/// A record that does not exist, as a change.
fn made_up(route: Route, now: Timestamp) -> Change {
    let body = match route {
        Route::Jobs => JOB,
        Route::Customers => CUSTOMER,
        Route::Leads => LEAD,
        Route::Payments => PAYMENT,
        Route::JobStatusChanges => STATUS_CHANGE,
        Route::OutsourcedJobs => OUTSOURCED,
    };
    let has_job = matches!(route, Route::Payments | Route::JobStatusChanges);
    Change {
        route,
        job: has_job.then(current_job),
        ..change(Kind::Created, "test", body.to_owned(), now)
    }
}

/// A change that is in no log.
pub(super) fn change(kind: Kind, id: &str, body: String, now: Timestamp) -> Change {
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

/// What stands in `job` beside a status change and a payment.
fn current_job() -> String {
    let current = r#""current_status":"Received","current_stage":"open","status_since":"2026-03-01T09:00:00.000000Z","completed_at":null,"paid_total":0}"#;
    format!("{},{current}", JOB.trim_end_matches('}'))
}

/// The record as if this had happened to it.
fn of_kind(kind: Kind, record: Change) -> Change {
    // Every field is new.
    let before = (kind == Kind::Updated).then(|| "{}".to_owned());
    match kind {
        Kind::Gap => Change {
            body: GAP.to_owned(),
            record_id: None,
            before,
            job: None,
            kind,
            ..record
        },
        Kind::Forgotten => {
            let id = record.record_id.clone().unwrap_or_default();
            Change {
                body: json!({ "id": id }).to_string(),
                before,
                job: None,
                kind,
                ..record
            }
        }
        _ => Change {
            kind,
            before,
            ..record
        },
    }
}

const JOB: &str = r#"{"id":"test","job_number":"JOB-00012","customer_name":"Test of shopmirror","mobile_country_code":"+49","mobile_number":"5550100",
"email":"sample@example.com","device_type":"Phone","device_brand":"Sample","device_model":"One","serial_number":"1",
"problem":"Sample","accessories":[],"status":"Received","status_stage":"open","assigned_to":"Sample",
"received_at":"2026-03-01 09:00","estimated_delivery":null,"total_amount":10.5,"paid_amount":0,"custom_fields":{},
"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const CUSTOMER: &str = r#"{"id":"test","name":"Test of shopmirror","customer_type":"Individual","contact_person_name":null,"mobile_country_code":"+49",
"mobile_number":"5550100","phone_number":null,"email":"sample@example.com","address":null,"custom_fields":{},
"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const LEAD: &str = r#"{"id":"test","name":"Test of shopmirror","contact_person_name":null,"mobile_country_code":"+49","mobile_number":"5550100",
"phone_number":null,"email":"sample@example.com","source":"Sample","status":"New","status_stage":"open",
"assigned_to":"Sample","next_follow_up":null,"device_type":"Phone","device_brand":"Sample","device_model":"One",
"comment":"Sample","address":null,"custom_fields":{},"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const PAYMENT: &str = r#"{"id":"test","amount":10.5,"payment_mode":"Card","job_number":"JOB-00012","customer_name":"Test of shopmirror",
"received_by":"Sample","reference":null,"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const STATUS_CHANGE: &str = r#"{"id":"test","job_number":"JOB-00012","customer_name":"Test of shopmirror","device_brand":"Sample","device_model":"One",
"status":"Received","status_stage":"open","changed_by":"Sample","comment":null,
"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const OUTSOURCED: &str = r#"{"id":"test","job_number":"JOB-00012","customer_name":"Test of shopmirror","vendor_name":"Sample","device_type":"Phone",
"device_brand":"Sample","device_model":"One","status":"Sent","status_stage":"open","cost":10.5,"returned_on":null,
"created_at":"2026-03-01T09:00:00.000000Z"}"#;
const GAP: &str = r#"{"id":1,"route":"leads","business":null,"certainty":"gap","found_at":"2026-03-01T09:00:00.000000Z",
"from_at":"2026-03-01T08:00:00.000000Z","to_at":"2026-03-01T09:00:00.000000Z","after_id":"1","before_id":"9",
"estimate":7,"state":"open","repaired":0,"note":null}"#;
