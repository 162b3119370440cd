//! A shop whose whole history is in the mirror, and the same history as the sandbox tells it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sandbox::{Options, Sandbox, Shop as ShopKind};
use serde_json::{Value, json};
use shopmirror::record::{Page, PollerId, Record, RecordId, Route};
use shopmirror::store::{PollFacts, Store};
use tokio::sync::Mutex;

use crate::support::{Ended, Place};

/// A shop in a time zone, with everything that happened in it over some weeks.
pub(super) struct Shop {
    pub(super) place: Place,
    pub(super) zone: TimeZone,
    pub(super) now: Timestamp,
    truth: BTreeMap<&'static str, Vec<Value>>,
}

/// A zone, and when its shop's history ends: some days after a change of the clock, at an hour at
/// which the shop's working day holds the zone's midnight.
const ZONES: [(&str, &str); 3] = [
    ("Europe/Berlin", "2026-04-05T20:30:00Z"),
    ("America/New_York", "2026-03-14T23:30:00Z"),
    ("Asia/Kolkata", "2026-03-20T16:00:00Z"),
];

/// The shops are the same for every test that runs at the time.
pub(super) async fn shops() -> Arc<Vec<Shop>> {
    static SHARED: Mutex<Weak<Vec<Shop>>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(shops) = shared.upgrade() {
        return shops;
    }
    let mut shops = Vec::new();
    for (zone, end) in ZONES {
        shops.push(Shop::open(zone, end.parse().unwrap()).await);
    }
    let shops = Arc::new(shops);
    *shared = Arc::downgrade(&shops);
    shops
}

const ROUTES: [(Route, sandbox::Route); 6] = [
    (Route::Jobs, sandbox::Route::Jobs),
    (Route::Customers, sandbox::Route::Customers),
    (Route::Leads, sandbox::Route::Leads),
    (Route::Payments, sandbox::Route::Payments),
    (Route::JobStatusChanges, sandbox::Route::JobStatusChanges),
    (Route::OutsourcedJobs, sandbox::Route::OutsourcedJobs),
];

impl Shop {
    async fn open(zone: &str, end: Timestamp) -> Self {
        let options = Options {
            shop: ShopKind::Quiet,
            seed: 5,
            start: Some(end),
            speed: 0.0,
            ..Options::default()
        };
        let sandbox = Sandbox::new(options);
        // Amounts whose binary fractions do not add up, and a refund.
        for amount in [0.1, 0.2, -33.33, 19.99] {
            let fields = json!({"amount": amount, "job_number": "JOB-00001"});
            let Value::Object(fields) = fields else { unreachable!() };
            sandbox.add_record(sandbox::Route::Payments, None, fields).unwrap();
        }
        let now = sandbox.now();
        let place = Place::new("http://127.0.0.1:1/api", "any-key");
        place.configure_all(&format!("time_zone = \"{zone}\"\n"));
        let zone = TimeZone::get(zone).unwrap();
        let store = Store::open(&place.store()).unwrap();
        store.keep_time_zone(zone.clone(), now).await.unwrap();
        let mut truth = BTreeMap::new();
        for (route, from) in ROUTES {
            let texts: Vec<String> =
                sandbox.truth(from).iter().map(|one| one.record.get().to_owned()).collect();
            show(&store, route, now, &texts).await;
            let records = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            truth.insert(route.as_str(), records);
        }
        store.close().await.unwrap();
        Self { place, zone, now, truth }
    }

    /// Every record of a route, the oldest first.
    pub(super) fn all(&self, route: &str) -> &[Value] {
        &self.truth[route]
    }

    /// The first and the last day of the history, in the zone.
    pub(super) fn days(&self) -> (Date, Date) {
        let created = self.all("job_status_changes").iter().map(|record| self.day(record));
        (created.min().unwrap(), self.now.to_zoned(self.zone.clone()).date())
    }

    /// The local time at which a record was created.
    pub(super) fn local(&self, record: &Value) -> jiff::Zoned {
        at(record).to_zoned(self.zone.clone())
    }

    pub(super) fn day(&self, record: &Value) -> Date {
        self.local(record).date()
    }

    /// Days since a record was created.
    pub(super) fn age(&self, record: &Value) -> f64 {
        self.now.duration_since(at(record)).as_secs_f64() / 86_400.0
    }

    /// Runs a report over the whole history.
    pub(super) async fn run(&self, name: &str, more: &[&str]) -> Ended {
        let (from, to) = self.days();
        let (from, to) = (from.to_string(), to.to_string());
        let mut args = vec!["report", name, "--from", &from, "--to", &to];
        args.extend(more);
        self.place.run(args).await
    }

    /// The rows of a report as the shop stood at its end.
    pub(super) async fn rows(&self, name: &str, more: &[&str]) -> Vec<Value> {
        let at = self.now.to_string();
        let mut args = vec!["--format", "json", "--at", &at];
        args.extend(more);
        let ended = self.run(name, &args).await;
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        ended.json().as_array().unwrap().clone()
    }
}

/// When a record was created, to the second.
pub(super) fn at(record: &Value) -> Timestamp {
    let at: Timestamp = record["created_at"].as_str().unwrap().parse().unwrap();
    Timestamp::from_second(at.as_second()).unwrap()
}

/// Stores one page with all of these records.
pub(super) async fn show(store: &Store, route: Route, now: Timestamp, texts: &[String]) {
    let (mut body, mut records) = (String::from("["), Vec::new());
    for text in texts.iter().rev() {
        if !records.is_empty() {
            body.push(',');
        }
        let span = body.len()..body.len() + text.len();
        body.push_str(text);
        let id = shopmirror::record::field(text, "id").unwrap();
        records.push(Record::at(span, &body, RecordId::from_json(id).unwrap()));
    }
    body.push(']');
    let facts = PollFacts {
        at: now.checked_sub(SignedDuration::from_secs(1)).unwrap(),
        asked_after: store.seq(),
        limit: 1_000_000,
        latency: Duration::ZERO,
        remaining: None,
        served_business: None,
    };
    let key = PollerId { route, business: None };
    store.store_page(key, Page::new(body, records), facts, None).await.unwrap();
}

/// Fails unless the rows are those; numbers may differ by what rounding to two digits does.
pub(super) fn assert_rows(name: &str, found: &[Value], wanted: &[Value]) {
    assert_eq!(found.len(), wanted.len(), "{name}: {found:#?} instead of {wanted:#?}");
    assert!(!wanted.is_empty(), "{name}: nothing is compared");
    for (found, wanted) in found.iter().zip(wanted) {
        for (column, value) in wanted.as_object().unwrap() {
            let same = match (found[column].as_f64(), value.as_f64()) {
                (Some(found), Some(value)) => (found - value).abs() < 0.0051,
                _ => found[column] == *value,
            };
            assert!(same, "{name}: {column} of {found} instead of {wanted}");
        }
        let columns = |row: &Value| row.as_object().unwrap().len();
        assert_eq!(columns(found), columns(wanted), "{name}: {found} instead of {wanted}");
    }
}
