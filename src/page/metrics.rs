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
use crate::store::word;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of each thing of a kind: its name, what it says, and its value, if that is known.
type Metric<'a, T> = (&'static str, &'static str, &'a dyn Fn(&T) -> Option<f64>);
type Labels = Vec<(&'static str, String)>;

/// Every metric of one status.
pub(super) fn respond(status: &WorkspaceStatus) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(status)).into_response()
}

fn text(status: &WorkspaceStatus) -> String {
    let now = seconds(&status.at).unwrap_or_default();
    let begun_at = |s: &WorkspaceStatus| seconds(s.backup.as_ref()?.last_at.as_ref()?);
    let of_workspace: [Metric<'_, WorkspaceStatus>; 4] = [
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
            &begun_at,
        ),
    ];
    let of_health: [Metric<'_, Health>; 1] =
        [("health", "1 for the state that it is in", &|state| {
            flag(*state == status.health)
        })];
    let of_budget: [Metric<'_, BudgetStatus>; 3] = [
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
    let read_at = |p: &PollerStatus| Some(now - p.last_success_age_s?);
    let rate = |p: &PollerStatus| Some(p.rate_per_hour? / 3600.0);
    let of_pollers: [Metric<'_, PollerStatus>; 6] = [
        ("poller_up", "1 if the last poll succeeded", &|p| {
            flag(p.state == PollerState::Ok)
        }),
        (
            "poller_last_success_timestamp_seconds",
            "When a page was last read",
            &read_at,
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
            &rate,
        ),
        (
            "open_gaps",
            "Gaps that are neither repaired nor accepted",
            &|p| number(p.gaps),
        ),
    ];
    let of_sinks: [Metric<'_, SinkStatus>; 7] = [
        ("sink_up", "1 if the sink takes changes", &|s| {
            flag(s.state == SinkActivity::Active)
        }),
        (
            "sink_backlog_changes",
            "Changes it asked for and has not got",
            &|s| number(s.behind),
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
    let of_records: [Metric<'_, (&String, &i64)>; 1] =
        [("records", "Records in the mirror", &|(_, records)| {
            number(**records)
        })];
    let records: Vec<(&String, &i64)> = status.records.iter().collect();
    [
        family(&of_workspace, std::slice::from_ref(status), |_| {
            Labels::new()
        }),
        family(&of_health, &Health::ALL, |h| vec![("state", word(h))]),
        family(&of_budget, status.budget.as_slice(), |_| Labels::new()),
        family(&of_pollers, &status.pollers, of_poller),
        family(&of_sinks, &status.sinks, of_sink),
        family(&of_records, &records, |(route, _)| {
            vec![("route", (*route).clone())]
        }),
    ]
    .concat()
}

/// The workspace's default business is the empty label, which Prometheus treats as absent.
fn of_poller(poller: &PollerStatus) -> Labels {
    let business = poller.business.clone().unwrap_or_default();
    vec![("route", poller.route.clone()), ("business", business)]
}

fn of_sink(sink: &SinkStatus) -> Labels {
    vec![
        ("sink", sink.name.clone()),
        ("type", sink.type_name.clone()),
    ]
}

/// The metrics of one kind with a sample of each thing; nothing of a metric that none has.
fn family<T>(metrics: &[Metric<'_, T>], of: &[T], labels: impl Fn(&T) -> Labels) -> String {
    let mut text = String::new();
    for (name, help, value) in metrics {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let mut head =
            format!("# HELP shopmirror_{name} {help}.\n# TYPE shopmirror_{name} {kind}\n");
        for (one, value) in of.iter().filter_map(|one| Some((one, value(one)?))) {
            let label = |(name, text): (&str, String)| format!("{name}=\"{}\"", escaped(&text));
            let labels = labels(one)
                .into_iter()
                .map(label)
                .collect::<Vec<_>>()
                .join(",");
            let labels = if labels.is_empty() {
                labels
            } else {
                format!("{{{labels}}}")
            };
            text += &std::mem::take(&mut head);
            text += &format!("shopmirror_{name}{labels} {value}\n");
        }
    }
    text
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
