//! `/metrics`: the snapshot in Prometheus' text format.
//!
//! Names and units follow Prometheus' conventions: base units, `_total` for counters only. The
//! labels are routes, businesses and sinks, so their number is bounded by the configuration.

use std::fmt::Write as _;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::snapshot::Snapshot;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::status::{BackupStatus, Health, WorkspaceStatus};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Every metric of one snapshot.
pub(super) fn respond(snapshot: &Snapshot) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(snapshot)).into_response()
}

fn text(snapshot: &Snapshot) -> String {
    let (status, mut text) = (&snapshot.status, Text::default());
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    text.family("build_info", "Always 1; the label names the version", [(version, 1.0)]);
    let healths = Health::ALL.map(|health| (health, health.as_str().replace(' ', "_")));
    let each = healths
        .iter()
        .map(|(health, name)| (vec![("state", name.as_str())], flag(status.health == *health)));
    text.family("health", "1 for the state that the health is in", each);
    let is_fresh = flag(status.hindrances().is_empty());
    text.one("ready", "1 if every poller was read in time", Some(is_fresh));
    let is_refused = flag(status.reload_refused.is_some());
    let help = "1 if the daemon runs with an older configuration than the file";
    text.one("reload_refused", help, Some(is_refused));
    of_pollers(&mut text, status);
    of_budget(&mut text, status);
    of_sinks(&mut text, status);
    let records = status.records.iter();
    let records = records.map(|(route, count)| (vec![("route", route.as_str())], *count as f64));
    text.family("records", "Records in the mirror", records);
    text.one("changes_total", "Rows ever written to the log", Some(status.last_seq as f64));
    let backup = status.backup.as_ref().and_then(begun_at);
    text.one("last_backup_timestamp_seconds", "When the newest backup was begun", backup);
    text.one("store_size_bytes", "Size of the database file", Some(snapshot.store_bytes as f64));
    let wal = Some(snapshot.wal_bytes as f64);
    text.one("store_wal_size_bytes", "Size of the database's write-ahead log", wal);
    text.0
}

fn of_pollers(text: &mut Text, status: &WorkspaceStatus) {
    let mut each = |name, help, value: &dyn Fn(&PollerStatus) -> Option<f64>| {
        let values = status.pollers.iter().filter_map(|p| Some((of_poller(p), value(p)?)));
        text.family(name, help, values);
    };
    let now = status.at.parse::<Timestamp>().map_or(0.0, seconds);
    each("poller_up", "1 if the last poll of the poller succeeded", &|p| {
        Some(flag(p.state == PollerState::Ok))
    });
    let help = "The mean interval of the last polls; the planned one before the third poll";
    each("poller_interval_seconds", help, &|p| p.interval_s);
    let help = "The longest interval that is guaranteed now";
    each("poller_guarantee_seconds", help, &|p| p.guarantee_s);
    let help = "1 if records may be missed in traffic like that seen so far";
    each("poller_at_risk", help, &|p| Some(flag(p.at_risk)));
    let help = "New records, as estimated by the schedule";
    each("poller_estimated_records_per_second", help, &|p| Some(p.rate_per_hour? / 3600.0));
    let help = "Failed polls since the last success";
    each("poller_consecutive_failures", help, &|p| Some(f64::from(p.failures)));
    let help = "Answers since the start that were not a page of records";
    each("poller_refused_pages_total", help, &|p| Some(p.refused_pages as f64));
    let help = "Intervals in which records may have been missed, neither repaired nor accepted";
    each("open_gaps", help, &|p| Some(p.gaps as f64));
    let help = "When a page was last read and stored, or found unchanged";
    let read_at = |p: &PollerStatus| Some(now - p.last_success_age_s?);
    each("poller_last_success_timestamp_seconds", help, &read_at);
}

fn of_budget(text: &mut Text, status: &WorkspaceStatus) {
    let Some(budget) = &status.budget else { return };
    let help = "Requests per minute that the key has for all of its clients";
    text.one("budget_limit_requests", help, Some(f64::from(budget.limit)));
    let help = "Requests of this daemon in the last 60 seconds";
    text.one("budget_used_requests", help, Some(budget.used_last_60s as f64));
    let help = "Requests per minute of the key's other clients, as estimated";
    text.one("budget_other_clients_requests", help, Some(budget.others_per_minute));
    let help = "Requests per minute that polls are granted now";
    text.one("budget_granted_requests", help, Some(budget.pace_per_minute));
}

fn of_sinks(text: &mut Text, status: &WorkspaceStatus) {
    let mut each = |name, help, value: fn(&SinkStatus) -> i64| {
        let values = status.sinks.iter().map(|sink| {
            let labels = vec![("sink", sink.name.as_str()), ("type", sink.type_name.as_str())];
            (labels, value(sink) as f64)
        });
        text.family(name, help, values);
    };
    let help = "1 if the sink takes changes";
    each("sink_up", help, |sink| i64::from(sink.state == SinkActivity::Active));
    let help = "Changes in the log that the sink asked for and does not have yet";
    each("sink_backlog_changes", help, |sink| sink.behind);
    let help = "Changes being retried, or waiting behind one that is";
    each("sink_retrying_changes", help, |sink| sink.retrying);
    each("sink_dead_letters", "Changes that the sink refused for good", |sink| sink.dead);
    let help = "Alerts and reports that the sink has not taken yet";
    each("sink_waiting_notices", help, |sink| sink.notices.waiting);
    let help = "Alerts and reports that the sink refused for good";
    each("sink_refused_notices", help, |sink| sink.notices.refused);
    let help = "Changes delivered since the sink was first seen";
    each("sink_delivered_changes_total", help, |sink| sink.delivered);
}

/// The workspace's default business is the empty label, which Prometheus treats as absent.
fn of_poller(poller: &PollerStatus) -> Labels<'_> {
    let business = poller.business.as_deref().unwrap_or_default();
    vec![("route", poller.route.as_str()), ("business", business)]
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}

fn begun_at(backup: &BackupStatus) -> Option<f64> {
    backup.last_at.as_deref()?.parse().ok().map(seconds)
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// The text so far.
#[derive(Default)]
struct Text(String);

impl Text {
    fn one(&mut self, name: &str, help: &str, value: Option<f64>) {
        self.family(name, help, value.map(|value| (Vec::new(), value)));
    }

    /// One metric with a sample for each set of labels; nothing if there is none.
    fn family<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let mut head =
            format!("# HELP shopmirror_{name} {help}.\n# TYPE shopmirror_{name} {kind}\n");
        for (labels, value) in samples {
            self.0.push_str(&std::mem::take(&mut head));
            let escaped =
                |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels: Vec<String> =
                labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text))).collect();
            let labels = match labels.as_slice() {
                [] => String::new(),
                labels => format!("{{{}}}", labels.join(",")),
            };
            let _ = writeln!(self.0, "shopmirror_{name}{labels} {value}");
        }
    }
}
