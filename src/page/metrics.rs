//! `/metrics`: the snapshot in Prometheus' text format.
//!
//! Names and units follow Prometheus' conventions: base units, `_total` for counters only. The
//! labels are routes, businesses and sinks, so their number is bounded by the configuration.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::ready;
use super::snapshot::Snapshot;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::status::{BackupStatus, Health};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

type Labels<'a> = Vec<(&'static str, &'a str)>;
/// The name of a metric, what it says, and its value for one poller or one sink, if it has one.
type Metric<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const OF_POLLERS: [Metric<PollerStatus>; 8] = [
    ("poller_up", "1 if the last poll of the poller succeeded", |p| {
        Some(flag(p.state == PollerState::Ok))
    }),
    (
        "poller_interval_seconds",
        "The mean interval of the last polls; the planned one before the third poll",
        |p| p.interval_s,
    ),
    ("poller_guarantee_seconds", "The longest interval that is guaranteed now", |p| p.guarantee_s),
    ("poller_at_risk", "1 if records may be missed in traffic like that seen so far", |p| {
        Some(flag(p.at_risk))
    }),
    ("poller_estimated_records_per_second", "New records, as estimated by the schedule", |p| {
        p.rate_per_hour.map(|rate| rate / 3600.0)
    }),
    ("poller_consecutive_failures", "Failed polls since the last success", |p| {
        Some(f64::from(p.failures))
    }),
    (
        "poller_refused_pages_total",
        "Answers since the start that were not a page of records",
        |p| Some(p.refused_pages as f64),
    ),
    (
        "open_gaps",
        "Intervals in which records may have been missed, neither repaired nor accepted",
        |p| Some(p.gaps as f64),
    ),
];

const OF_SINKS: [Metric<SinkStatus>; 7] = [
    ("sink_up", "1 if the sink takes changes", |s| Some(flag(s.state == SinkActivity::Active))),
    (
        "sink_backlog_changes",
        "Changes in the log that the sink asked for and does not have yet",
        |s| Some(s.behind as f64),
    ),
    ("sink_retrying_changes", "Changes being retried, or waiting behind one that is", |s| {
        Some(s.retrying as f64)
    }),
    ("sink_dead_letters", "Changes that the sink refused for good", |s| Some(s.dead as f64)),
    ("sink_waiting_notices", "Alerts and reports that the sink has not taken yet", |s| {
        Some(s.notices.waiting as f64)
    }),
    ("sink_refused_notices", "Alerts and reports that the sink refused for good", |s| {
        Some(s.notices.refused as f64)
    }),
    ("sink_delivered_changes_total", "Changes delivered since the sink was first seen", |s| {
        Some(s.delivered as f64)
    }),
];

/// Every metric of one snapshot.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let (status, mut text) = (&snapshot.status, Text::default());
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    text.family("build_info", "Always 1; the label names the version", [(version, 1.0)]);
    let healths = Health::ALL.map(|health| (health, health.as_str().replace(' ', "_")));
    let each = healths
        .iter()
        .map(|(health, name)| (vec![("state", name.as_str())], flag(status.health == *health)));
    text.family("health", "1 for the state that the health is in", each);
    let is_fresh = ready::hindrances(status).is_empty();
    text.one("ready", "1 if every poller was read in time", Some(flag(is_fresh)));
    text.one(
        "reload_refused",
        "1 if the daemon runs with an older configuration than the file",
        Some(flag(status.reload_refused.is_some())),
    );
    for (name, help, value) in OF_POLLERS {
        let values = status.pollers.iter().filter_map(|p| Some((of_poller(p), value(p)?)));
        text.family(name, help, values);
    }
    let now = status.at.parse::<Timestamp>().map_or(0.0, seconds);
    let read_at = status.pollers.iter();
    let read_at = read_at.filter_map(|p| Some((of_poller(p), now - p.last_success_age_s?)));
    text.family(
        "poller_last_success_timestamp_seconds",
        "When a page was last read and stored, or found unchanged",
        read_at,
    );
    let budget = status.budget.as_ref();
    for (name, help, value) in [
        (
            "budget_limit_requests",
            "Requests per minute that the key has for all of its clients",
            budget.map(|budget| f64::from(budget.limit)),
        ),
        (
            "budget_used_requests",
            "Requests of this daemon in the last 60 seconds",
            budget.map(|budget| budget.used_last_60s as f64),
        ),
        (
            "budget_other_clients_requests",
            "Requests per minute of the key's other clients, as estimated",
            budget.map(|budget| budget.others_per_minute),
        ),
        (
            "budget_granted_requests",
            "Requests per minute that polls are granted now",
            budget.map(|budget| budget.pace_per_minute),
        ),
    ] {
        text.one(name, help, value);
    }
    for (name, help, value) in OF_SINKS {
        let values = status.sinks.iter().filter_map(|sink| {
            let labels = vec![("sink", sink.name.as_str()), ("type", sink.type_name.as_str())];
            Some((labels, value(sink)?))
        });
        text.family(name, help, values);
    }
    let records = status.records.iter();
    let records = records.map(|(route, count)| (vec![("route", route.as_str())], *count as f64));
    text.family("records", "Records in the mirror", records);
    for (name, help, value) in [
        ("changes_total", "Rows ever written to the log", Some(status.last_seq as f64)),
        (
            "last_backup_timestamp_seconds",
            "When the newest backup was begun",
            status.backup.as_ref().and_then(begun_at),
        ),
        ("store_size_bytes", "Size of the database file", Some(snapshot.store_bytes as f64)),
        (
            "store_wal_size_bytes",
            "Size of the database's write-ahead log",
            Some(snapshot.wal_bytes as f64),
        ),
    ] {
        text.one(name, help, value);
    }
    text.0
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
