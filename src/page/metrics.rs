//! `/metrics`: the snapshot in Prometheus' text format.
//!
//! Names and units follow Prometheus' conventions: base units, `_total` for counters only. The
//! labels are routes, businesses and sinks, so their number is bounded by the configuration.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ready;
use super::snapshot::Snapshot;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::status::Health;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const EACH_HEALTH: [(Health, &str); 4] = [
    (Health::Ok, "ok"),
    (Health::Degraded, "degraded"),
    (Health::AtRisk, "at_risk"),
    (Health::Failing, "failing"),
];

type Labels = Vec<(&'static str, String)>;

/// Every metric of one snapshot.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut metrics = Metrics(Registry::with_prefix("shopmirror"));
    metrics.of_health(snapshot);
    metrics.of_pollers(snapshot);
    metrics.of_budget(snapshot);
    metrics.of_sinks(&snapshot.status.sinks);
    metrics.of_store(snapshot);
    let mut text = String::new();
    encode_registry(&mut text, &metrics.0).expect("writing to a string does not fail");
    classic(&text)
}

struct Metrics(Registry);

impl Metrics {
    fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        let mut any = false;
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
            any = true;
        }
        if any {
            self.0.register(name, help, family);
        }
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        values: impl IntoIterator<Item = (Labels, i64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        let mut any = false;
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(u64::try_from(value).unwrap_or(0));
            any = true;
        }
        if any {
            self.0.register(name, help, family);
        }
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: i64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(u64::try_from(value).unwrap_or(0));
        self.0.register(name, help, counter);
    }

    fn of_health(&mut self, snapshot: &Snapshot) {
        let status = &snapshot.status;
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        self.gauges("build_info", "Always 1; the label names the version", [(version, 1.0)]);
        self.gauges(
            "health",
            "1 for the state that the health is in",
            EACH_HEALTH.map(|(health, name)| {
                (vec![("state", name.to_owned())], flag(status.health == health))
            }),
        );
        let fresh = ready::hindrances(status).is_empty();
        self.gauge("ready", "1 if every poller was read in time", flag(fresh));
        self.gauge(
            "reload_refused",
            "1 if the daemon runs with an older configuration than the file",
            flag(status.reload_refused.is_some()),
        );
    }

    fn of_pollers(&mut self, snapshot: &Snapshot) {
        let status = &snapshot.status;
        let now = status.at.parse::<Timestamp>().map_or(0.0, |at| at.as_millisecond() as f64 / 1e3);
        let each = |value: fn(&PollerStatus) -> Option<f64>| {
            let values = status
                .pollers
                .iter()
                .filter_map(move |poller| Some((poller_labels(poller), value(poller)?)));
            values.collect::<Vec<_>>()
        };
        self.gauges(
            "poller_up",
            "1 if the last poll of the poller succeeded",
            each(|p| Some(flag(p.state == PollerState::Ok))),
        );
        let read_at = each(|p| p.last_success_age_s);
        self.gauges(
            "poller_last_success_timestamp_seconds",
            "When a page was last read and stored, or found unchanged",
            read_at.into_iter().map(|(labels, age)| (labels, now - age)),
        );
        self.gauges(
            "poller_interval_seconds",
            "The mean interval of the last polls; the planned one before the third poll",
            each(|p| p.interval_s),
        );
        self.gauges(
            "poller_guarantee_seconds",
            "The longest interval that is guaranteed now",
            each(|p| p.guarantee_s),
        );
        self.gauges(
            "poller_at_risk",
            "1 if records may be missed in traffic like that seen so far",
            each(|p| Some(flag(p.at_risk))),
        );
        self.gauges(
            "poller_estimated_records_per_second",
            "New records, as estimated by the schedule",
            each(|p| p.rate_per_hour.map(|rate| rate / 3600.0)),
        );
        self.gauges(
            "poller_consecutive_failures",
            "Failed polls since the last success",
            each(|p| Some(f64::from(p.failures))),
        );
        self.counters(
            "poller_refused_pages",
            "Answers since the start that were not a page of records",
            status.pollers.iter().map(|poller| {
                (poller_labels(poller), i64::try_from(poller.refused_pages).unwrap_or(i64::MAX))
            }),
        );
        self.gauges(
            "open_gaps",
            "Intervals in which records may have been missed, neither repaired nor accepted",
            each(|p| Some(p.gaps as f64)),
        );
    }

    fn of_budget(&mut self, snapshot: &Snapshot) {
        if let Some(budget) = &snapshot.status.budget {
            self.gauge(
                "budget_limit_requests",
                "Requests per minute that the key has for all of its clients",
                f64::from(budget.limit),
            );
            self.gauge(
                "budget_used_requests",
                "Requests of this daemon in the last 60 seconds",
                budget.used_last_60s as f64,
            );
            self.gauge(
                "budget_other_clients_requests",
                "Requests per minute of the key's other clients, as estimated",
                budget.others_per_minute,
            );
            self.gauge(
                "budget_granted_requests",
                "Requests per minute that polls are granted now",
                budget.pace_per_minute,
            );
        }
    }

    fn of_sinks(&mut self, sinks: &[SinkStatus]) {
        let each = |value: fn(&SinkStatus) -> f64| {
            sinks.iter().map(|sink| (sink_labels(sink), value(sink))).collect::<Vec<_>>()
        };
        self.gauges(
            "sink_up",
            "1 if the sink takes changes",
            each(|s| flag(s.state == SinkActivity::Active)),
        );
        self.gauges(
            "sink_backlog_changes",
            "Changes in the log that the sink asked for and does not have yet",
            each(|s| s.behind as f64),
        );
        self.gauges(
            "sink_retrying_changes",
            "Changes being retried, or waiting behind one that is",
            each(|s| s.retrying as f64),
        );
        self.gauges(
            "sink_dead_letters",
            "Changes that the sink refused for good",
            each(|s| s.dead as f64),
        );
        self.gauges(
            "sink_waiting_notices",
            "Alerts and reports that the sink has not taken yet",
            each(|s| s.notices.waiting as f64),
        );
        self.gauges(
            "sink_refused_notices",
            "Alerts and reports that the sink refused for good",
            each(|s| s.notices.refused as f64),
        );
        self.counters(
            "sink_delivered_changes",
            "Changes delivered since the sink was first seen",
            sinks.iter().map(|sink| (sink_labels(sink), sink.delivered)),
        );
    }

    fn of_store(&mut self, snapshot: &Snapshot) {
        let status = &snapshot.status;
        self.gauges(
            "records",
            "Records in the mirror",
            status
                .records
                .iter()
                .map(|(route, count)| (vec![("route", route.clone())], *count as f64)),
        );
        self.counter("changes", "Rows ever written to the log", status.last_seq);
        let backup = status.backup.as_ref().and_then(|backup| backup.last_at.as_deref());
        if let Some(at) = backup.and_then(|at| at.parse::<Timestamp>().ok()) {
            self.gauge(
                "last_backup_timestamp_seconds",
                "When the newest backup was begun",
                at.as_millisecond() as f64 / 1e3,
            );
        }
        self.gauge("store_size_bytes", "Size of the database file", snapshot.store_bytes as f64);
        self.gauge(
            "store_wal_size_bytes",
            "Size of the database's write-ahead log",
            snapshot.wal_bytes as f64,
        );
    }
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// The workspace's default business is the empty label, which Prometheus treats as absent.
fn poller_labels(poller: &PollerStatus) -> Labels {
    let business = poller.business.clone().unwrap_or_default();
    vec![("route", poller.route.to_string()), ("business", business)]
}

fn sink_labels(sink: &SinkStatus) -> Labels {
    vec![("sink", sink.name.clone()), ("type", sink.type_name.clone())]
}

/// Turns OpenMetrics text into the format that every Prometheus and `promtool` reads: there, the
/// name of a counter's family ends in `_total` as its samples do.
fn classic(text: &str) -> String {
    let name = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    let counters: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE ") && line.ends_with(" counter"))
        .map(name)
        .collect();
    let mut classic = String::with_capacity(text.len() + 256);
    for line in text.lines() {
        let described = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        let family = name(line);
        if described && counters.contains(&family) {
            classic.push_str(&line.replacen(&family, &format!("{family}_total"), 1));
        } else if described || !line.starts_with('#') {
            classic.push_str(line);
        }
        classic.push('\n');
    }
    classic
}
