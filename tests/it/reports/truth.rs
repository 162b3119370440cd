//! A shop whose whole history is in the mirror, and the same history as the sandbox tells it.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sandbox::{Options, Sandbox, Shop as ShopKind};
use serde_json::{Value, json};
use shopmirror::store::Store;
use shopmirror_core::record::{Page, PollerId, Record, Route};

use super::store_page;
use crate::support::Place;

/// A shop in a time zone, with everything that happened in it over some weeks.
pub(super) struct Shop {
    pub(super) place: Place,
    pub(super) zone_name: &'static str,
    pub(super) zone: TimeZone,
    pub(super) now: Timestamp,
    /// The day on which the clock changes.
    pub(super) clock_change: Date,
    pub(super) pollers: Vec<Polled>,
    truth: BTreeMap<&'static str, Vec<Value>>,
}

/// A poller of the shop's store.
pub(super) struct Polled {
    pub(super) route: &'static str,
    pub(super) business: &'static str,
    /// Records that may be missing in its one gap.
    pub(super) missing: Option<i64>,
}

/// A zone, the day on which its clock changes, and when its shop's history ends: some days later,
/// at an hour at which the shop's working day holds the zone's midnight. The clock is put forward
/// in the first two and back in the third, where local hours begin at half past.
const ZONES: [(&str, &str, &str); 3] = [
    ("Europe/Berlin", "2026-03-29", "2026-04-05T20:30:00Z"),
    ("America/New_York", "2026-03-08", "2026-03-14T23:30:00Z"),
    ("Australia/Adelaide", "2026-04-05", "2026-04-10T12:30:00Z"),
];

const BUSINESSES: [&str; 2] = ["1", "2"];

pub(super) async fn shops() -> Vec<Shop> {
    let mut shops = Vec::new();
    for (zone, day, end) in ZONES {
        shops.push(Shop::open(zone, day.parse().unwrap(), end.parse().unwrap()).await);
    }
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
    async fn open(zone_name: &'static str, clock_change: Date, end: Timestamp) -> Self {
        let options = Options {
            shop: ShopKind::Quiet,
            seed: 5,
            start: Some(end),
            speed: 0.0,
            ..Options::default()
        };
        let (sandbox, zone) = (Sandbox::new(options), TimeZone::get(zone_name).unwrap());
        add_what_is_rare(&sandbox, clock_change, &zone);
        let now = sandbox.now();
        let place = Place::new("http://127.0.0.1:1/api", "any-key");
        place.configure_all(&format!("time_zone = \"{zone_name}\"\n"));
        let store = Store::open(&place.store()).unwrap();
        store.store_time_zone(zone.clone(), now).await.unwrap();
        let (mut truth, mut pollers) = (BTreeMap::new(), Vec::new());
        for (route, from) in ROUTES {
            let told = sandbox.truth(from);
            let texts: Vec<&str> = told.iter().map(|one| one.record.get()).collect();
            for (part, business) in BUSINESSES.into_iter().enumerate() {
                let own = texts
                    .iter()
                    .enumerate()
                    .filter(|(nth, text)| part_of(*nth, text) == part);
                let own: Vec<String> = own.map(|(_, text)| (*text).to_owned()).collect();
                // One poller sees the last two only after a burst that a page could not hold.
                let late = if (route, business) == (Route::OutsourcedJobs, "2") {
                    2
                } else {
                    0
                };
                let (first, last) = own.split_at(own.len() - late);
                let key = PollerId {
                    route,
                    business: Some(business.into()),
                };
                let at = now - SignedDuration::from_secs(2);
                // A first page of a round length may have been ended by the server.
                if first.len().is_multiple_of(5) {
                    let without_last = &first[..first.len().saturating_sub(1)];
                    show_to(&store, key.clone(), at, 1_000_000, without_last).await;
                }
                show_to(&store, key.clone(), at, 1_000_000, first).await;
                if late > 0 {
                    show_to(&store, key, now - SignedDuration::from_secs(1), 2, last).await;
                }
                pollers.push(Polled {
                    route: route.as_str(),
                    business,
                    missing: (late > 0).then_some(0),
                });
            }
            let records = texts.iter().enumerate().map(|(nth, text)| {
                let mut record: Value = serde_json::from_str(text).unwrap();
                record["_business"] = json!(BUSINESSES[part_of(nth, text)]);
                record
            });
            truth.insert(route.as_str(), records.collect());
        }
        let gaps = store.read(|reader| reader.gaps()).await.unwrap();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        let gapped = pollers
            .iter_mut()
            .find(|poller| poller.missing.is_some())
            .unwrap();
        gapped.missing = gaps[0].estimate;
        assert!(gapped.missing > Some(0), "{gaps:?}");
        store.close().await.unwrap();
        Self {
            place,
            zone_name,
            zone,
            now,
            clock_change,
            pollers,
            truth,
        }
    }

    /// Every record of a route, the oldest first.
    pub(super) fn all(&self, route: &str) -> &[Value] {
        &self.truth[route]
    }

    /// The first and the last day of the history, in the zone.
    pub(super) fn days(&self) -> (Date, Date) {
        let created = self
            .all("job_status_changes")
            .iter()
            .map(|record| self.day(record));
        (
            created.min().unwrap(),
            self.now.to_zoned_datetime(self.zone.clone()).date(),
        )
    }

    /// The local time at which a record was created.
    pub(super) fn local(&self, record: &Value) -> jiff::ZonedDateTime {
        at(record).to_zoned_datetime(self.zone.clone())
    }

    pub(super) fn day(&self, record: &Value) -> Date {
        self.local(record).date()
    }

    /// Days since a record was created.
    pub(super) fn age(&self, record: &Value) -> f64 {
        self.now.duration_since(at(record)).as_secs_f64() / 86_400.0
    }
}

/// Which business has a record: the second one has every third job with all that belongs to it, and
/// every third of the other records.
fn part_of(nth: usize, text: &str) -> usize {
    let record: Value = serde_json::from_str(text).unwrap();
    let number = record["job_number"].as_str();
    let sum = number.map_or(nth, |number| number.bytes().map(usize::from).sum());
    usize::from(sum % 3 == 2)
}

/// Adds what a quiet shop may not have: refunds and amounts whose binary fractions do not add up,
/// and records of each route in the first and the last instant of the day of the clock change, and
/// in those next to them.
fn add_what_is_rare(sandbox: &Sandbox, day: Date, zone: &TimeZone) {
    let add = |route, fields: Value| {
        let Value::Object(fields) = fields else {
            unreachable!()
        };
        sandbox.add_record(route, None, fields).unwrap();
    };
    // Before the job was seen last, so that its own paid sum holds them.
    let at = format!("{:.6}", sandbox.now() - SignedDuration::from_hours(1));
    for amount in [0.1, 0.2, -33.33, 19.99, -7.01] {
        let fields = json!({"amount": amount, "job_number": "JOB-00001", "created_at": at});
        add(sandbox::Route::Payments, fields);
    }
    let start = |day: Date| day.to_zoned_datetime(zone.clone()).unwrap().timestamp();
    let instant = SignedDuration::from_micros(1);
    let mut nth = 0;
    for bound in [start(day), start(day.tomorrow().unwrap())] {
        for at in [
            bound - instant,
            bound,
            bound + SignedDuration::from_hours(1),
        ] {
            // Three of each, so that every business has them.
            for _ in 0..3 {
                nth += 1;
                let (at, number) = (format!("{at:.6}"), format!("EDGE-{nth}"));
                add(
                    sandbox::Route::Jobs,
                    json!({"created_at": at, "job_number": number}),
                );
                // Completed twice, as after a complaint.
                for stage in ["open", "completed", "completed"] {
                    let fields =
                        json!({"created_at": at, "job_number": number, "status_stage": stage});
                    add(sandbox::Route::JobStatusChanges, fields);
                }
                let amount = f64::from(nth) - 10.5;
                add(
                    sandbox::Route::Payments,
                    json!({"created_at": at, "amount": amount}),
                );
                // The same person by the address only.
                for route in [sandbox::Route::Customers, sandbox::Route::Leads] {
                    add(
                        route,
                        json!({"created_at": at, "email": format!("{number}@example.com")}),
                    );
                }
            }
        }
    }
    // A lead of one who was a customer before, and is none again.
    let before = start(day) - SignedDuration::from_hours(48);
    for (route, at) in [
        (sandbox::Route::Customers, before),
        (sandbox::Route::Leads, start(day)),
    ] {
        add(
            route,
            json!({"created_at": format!("{at:.6}"), "email": "before@example.com"}),
        );
    }
    for far in 1..=6 {
        let at = sandbox.now() - SignedDuration::from_hours(far * 8);
        let fields = json!({"id": 900_000 + 10 * far, "created_at": format!("{at:.6}")});
        add(sandbox::Route::OutsourcedJobs, fields);
    }
}

/// When a record was created, to the second.
pub(super) fn at(record: &Value) -> Timestamp {
    let at: Timestamp = record["created_at"].as_str().unwrap().parse().unwrap();
    Timestamp::from_second(at.as_second()).unwrap()
}

/// Stores one page with all of these records.
pub(super) async fn show(store: &Store, route: Route, now: Timestamp, texts: &[String]) {
    let key = PollerId {
        route,
        business: None,
    };
    show_to(
        store,
        key,
        now - SignedDuration::from_secs(1),
        1_000_000,
        texts,
    )
    .await;
}

/// Stores the page that a poller has read at this time.
async fn show_to(store: &Store, key: PollerId, at: Timestamp, limit: u32, texts: &[String]) {
    let (mut body, mut records) = (String::from("["), Vec::new());
    for text in texts.iter().rev() {
        body.push_str(text);
        records.push(Record::read(&body, body.len() - text.len()..body.len()).unwrap());
        body.push(',');
    }
    store_page(store, key, Page::new(body, records), at, limit, None).await;
}
