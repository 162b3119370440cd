//! `/metrics`: the status in Prometheus' text format.
//!
//! Names and units follow Prometheus' conventions: base units, `_total` for counters only. The
//! labels are routes, businesses and sinks, so their number is bounded by the configuration.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use shopmirror_core::budget::BudgetStatus;

use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::status::{Health, WorkspaceStatus};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of each item: its name, its help text, and its value, if that is known.
type Metric<'a, T> = (&'static str, &'static str, &'a dyn Fn(&T) -> Option<f64>);
type Labels = Vec<(&'static str, String)>;

/// Every metric of one status.
pub(super) fn respond(status: &WorkspaceStatus) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(status)).into_response()
}

fn text(status: &WorkspaceStatus) -> String {
    let mut text = workspace(status);
    text += &health(status.health);
    if let Some(budget) = &status.budget {
        text += &budget_metrics(budget);
    }
    text += &pollers(status);
    text += &sinks(&status.sinks);
    text += &records(status);
    text
}

fn workspace(status: &WorkspaceStatus) -> String {
    let last_backup = |status: &WorkspaceStatus| {
        let backup = status.backup.as_ref()?;
        seconds(backup.last_at.as_ref()?)
    };
    let metrics: [Metric<'_, WorkspaceStatus>; 4] = [
        ("ready", "1 if every poller was read in time", &|s| {
            flag(s.hindrances().is_empty())
        }),
        ("reload_refused", "1 if a reload was refused", &|s| {
            flag(s.reload_refused.is_some())
        }),
        ("changes_total", "Rows ever written to the log", &|s| {
            number(s.last_seq)
        }),
        (
            "last_backup_timestamp_seconds",
            "When the newest backup was begun",
            &last_backup,
        ),
    ];
    family(&metrics, std::slice::from_ref(status), |_| Labels::new())
}

fn health(current: Health) -> String {
    let metrics: [Metric<'_, Health>; 1] =
        [("health", "1 for the state that it is in", &|state| {
            flag(*state == current)
        })];
    family(&metrics, &Health::ALL, |state| {
        vec![("state", state.as_str().to_owned())]
    })
}

fn budget_metrics(budget: &BudgetStatus) -> String {
    let metrics: [Metric<'_, BudgetStatus>; 3] = [
        (
            "budget_limit_requests",
            "Requests a minute of the key",
            &|b| Some(b.limit.into()),
        ),
        (
            "budget_used_requests",
            "Own requests in the last minute",
            &|b| Some(b.used_last_60s as f64),
        ),
        (
            "budget_other_clients_requests",
            "Requests a minute of other clients, estimated",
            &|b| Some(b.others_per_minute),
        ),
    ];
    family(&metrics, std::slice::from_ref(budget), |_| Labels::new())
}

fn pollers(status: &WorkspaceStatus) -> String {
    let now = seconds(&status.at).unwrap_or_default();
    let metrics: [Metric<'_, PollerStatus>; 6] = [
        ("poller_up", "1 if the last poll succeeded", &|p| {
            flag(p.state == PollerState::Ok)
        }),
        (
            "poller_last_success_timestamp_seconds",
            "When a page was last read",
            &|p| Some(now - p.last_success_age_s?),
        ),
        (
            "poller_interval_seconds",
            "The interval that its share of the budget allows",
            &|p| p.interval_s,
        ),
        (
            "poller_guarantee_seconds",
            "The longest interval guaranteed now",
            &|p| p.guarantee_s,
        ),
        (
            "poller_estimated_records_per_second",
            "New records, as estimated",
            &|p| Some(p.rate_per_hour? / 3600.0),
        ),
        (
            "open_gaps",
            "Gaps that are neither repaired nor accepted",
            &|p| number(p.gaps),
        ),
    ];
    // The workspace's default business is the empty label, which Prometheus treats as absent.
    family(&metrics, &status.pollers, |poller| {
        vec![
            ("route", poller.route.clone()),
            ("business", poller.business.clone().unwrap_or_default()),
        ]
    })
}

fn sinks(sinks: &[SinkStatus]) -> String {
    let metrics: [Metric<'_, SinkStatus>; 7] = [
        ("sink_up", "1 if the sink takes changes", &|s| {
            flag(s.state == SinkActivity::Active)
        }),
        (
            "sink_backlog_changes",
            "Changes it asked for and does not have yet, with those that are tried again",
            &|s| number(s.backlog),
        ),
        (
            "sink_retrying_changes",
            "Changes that are tried again",
            &|s| number(s.retrying),
        ),
        (
            "sink_dead_letters",
            "Changes that it refused for good",
            &|s| number(s.dead),
        ),
        ("sink_waiting_notices", "Alerts and reports to send", &|s| {
            number(s.notices.waiting)
        }),
        ("sink_refused_notices", "Alerts and reports refused", &|s| {
            number(s.notices.refused)
        }),
        ("sink_delivered_changes_total", "Changes delivered", &|s| {
            number(s.delivered)
        }),
    ];
    family(&metrics, sinks, |sink| {
        vec![
            ("sink", sink.name.clone()),
            ("type", sink.type_name.clone()),
        ]
    })
}

fn records(status: &WorkspaceStatus) -> String {
    let metrics: [Metric<'_, (&String, &i64)>; 1] =
        [("records", "Records in the mirror", &|(_, records)| {
            number(**records)
        })];
    let records: Vec<(&String, &i64)> = status.records.iter().collect();
    family(&metrics, &records, |(route, _)| {
        vec![("route", (*route).clone())]
    })
}

/// The metrics with a sample of each item; a metric without a sample is left out.
fn family<T>(metrics: &[Metric<'_, T>], items: &[T], labels: impl Fn(&T) -> Labels) -> String {
    let mut text = String::new();
    for (name, help, value) in metrics {
        let mut samples = String::new();
        for item in items {
            if let Some(value) = value(item) {
                let labels = labels_text(labels(item));
                samples += &format!("shopmirror_{name}{labels} {value}\n");
            }
        }
        if samples.is_empty() {
            continue;
        }
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        text += &format!("# HELP shopmirror_{name} {help}.\n# TYPE shopmirror_{name} {kind}\n");
        text += &samples;
    }
    text
}

/// The labels as they stand after the name of a metric; nothing if there are none.
fn labels_text(labels: Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let mut pairs = Vec::new();
    for (name, value) in labels {
        pairs.push(format!("{name}=\"{}\"", escaped(&value)));
    }
    format!("{{{}}}", pairs.join(","))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn seconds(stamp: &str) -> Option<f64> {
    Some(stamp.parse::<Timestamp>().ok()?.as_millisecond() as f64 / 1e3)
}

fn number(value: i64) -> Option<f64> {
    Some(value as f64)
}

fn flag(value: bool) -> Option<f64> {
    number(value.into())
}
