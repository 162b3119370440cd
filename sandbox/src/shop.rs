//! The repair shop that fills the workspace: people come, devices are repaired, bills are paid.
//!
//! Growth is a queue of dated events, processed up to a given time with random numbers drawn in
//! event order only, so that a seed gives the same history however often, and when, it is asked.
//! Must not know of requests, keys or faults.

mod day;
mod history;
pub(super) mod people;
mod repair;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::day::{Day, later};
use self::history::Known;
use self::people::Person;
use self::repair::Repair;
use super::fields::Fields;
use super::records::{MAX_RECORDS, Records, Row};
use super::route::Route;

pub(super) use self::history::invented;

/// How busy the imitated shop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shop {
    /// One counter, some two dozen customers a day, repairs that take days.
    Quiet,
    /// A customer every few seconds and repairs within minutes: something to watch.
    #[default]
    Busy,
    /// Three busy businesses: the default business 1, and 2 and 3.
    Chain,
}

/// No shop has the given name.
#[derive(Debug, thiserror::Error)]
#[error("no shop is called {0:?}: choose quiet, busy or chain")]
pub struct UnknownShop(String);

impl FromStr for Shop {
    type Err = UnknownShop;

    fn from_str(name: &str) -> Result<Self, UnknownShop> {
        match name {
            "quiet" => Ok(Self::Quiet),
            "busy" => Ok(Self::Busy),
            "chain" => Ok(Self::Chain),
            other => Err(UnknownShop(other.to_owned())),
        }
    }
}

impl fmt::Display for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quiet => "quiet",
            Self::Busy => "busy",
            Self::Chain => "chain",
        })
    }
}

/// The figures of one kind of shop; durations are seconds of opening time.
#[derive(Clone, Copy)]
struct Pace {
    businesses: &'static [i64],
    between_arrivals: f64,
    between_steps: f64,
    history: f64,
    imports: bool,
    /// Whether some repairs are late, and some are not paid at the counter.
    has_late_and_unpaid: bool,
}

impl Shop {
    /// The businesses, the default one first.
    pub(super) const fn businesses(self) -> &'static [i64] {
        match self {
            Self::Quiet | Self::Busy => &[1],
            Self::Chain => &[1, 2, 3],
        }
    }

    const fn pace(self) -> Pace {
        let businesses = self.businesses();
        let (between_arrivals, between_steps, history, imports) = match self {
            Self::Quiet => (1500.0, 7200.0, 3.0 * 86_400.0, false),
            Self::Busy => (6.0, 120.0, 5400.0, true),
            Self::Chain => (9.0, 120.0, 5400.0, true),
        };
        Pace {
            businesses,
            between_arrivals,
            between_steps,
            history,
            imports,
            has_late_and_unpaid: false,
        }
    }
}

impl Pace {
    /// Some 25 customers a day for more than two months, and repairs that take days.
    const fn long_past(self) -> Self {
        Self {
            between_arrivals: 1800.0,
            between_steps: 9000.0,
            history: 70.0 * 86_400.0,
            imports: false,
            has_late_and_unpaid: true,
            ..self
        }
    }

    /// Something to watch after a long past: ten minutes bring as many customers as half a day.
    const fn after_long_past(self) -> Self {
        Self {
            between_arrivals: 45.0,
            between_steps: 240.0,
            ..self.long_past()
        }
    }
}

/// By how much faster repairs from before a quicker pace go on: few are open then, and the first
/// minutes are to be as busy as the later ones.
const FIRST_RUSH: f64 = 6.0;

/// What happens next, and to whom.
#[derive(Debug, Clone)]
enum Event {
    Arrival {
        business: i64,
    },
    FollowUp {
        lead: Row,
        business: i64,
        person: Box<Person>,
        contacted: bool,
    },
    Step {
        repair: usize,
    },
    Returned {
        repair: usize,
    },
    Import {
        business: i64,
    },
    Booked {
        checkin: usize,
        business: i64,
        person: Box<Person>,
    },
}

/// The shop's growth over the sandbox's clock.
pub(super) struct Growth {
    pace: Pace,
    day: Day,
    rng: Rng,
    queue: BTreeMap<(Timestamp, u64), Event>,
    queued: u64,
    people: usize,
    known: BTreeMap<i64, Vec<Known>>,
    repairs: Vec<Repair>,
    /// How far the clock has run ahead of growth in pauses.
    lag: SignedDuration,
    paused_at: Option<Timestamp>,
    /// Self check-ins whose customers have come in since the last call.
    came_in: Vec<usize>,
}

impl Growth {
    /// A shop that has existed for a while at `start`, with its history in `records`.
    pub(super) fn new(
        shop: Shop,
        past_in: Option<&TimeZone>,
        seed: u64,
        start: Timestamp,
        records: &mut Records,
    ) -> Self {
        let pace = shop.pace();
        let (past, day) = match past_in {
            Some(zone) => (pace.long_past(), Day::in_zone(start, zone)),
            None => (pace, Day::new(start)),
        };
        let first = later(start, -past.history);
        let mut growth = Self {
            day,
            rng: Rng::with_seed(seed),
            queue: BTreeMap::new(),
            queued: 0,
            people: 0,
            known: BTreeMap::new(),
            repairs: Vec::new(),
            lag: SignedDuration::ZERO,
            paused_at: None,
            came_in: Vec::new(),
            pace: past,
        };
        for business in growth.pace.businesses {
            growth.expect(
                first,
                Event::Arrival {
                    business: *business,
                },
            );
            if past.imports {
                let at = growth.day.next_import(start);
                growth.expect(
                    at,
                    Event::Import {
                        business: *business,
                    },
                );
            }
        }
        growth.advance(start, records);
        if past_in.is_some() {
            growth.quicken(pace.after_long_past(), start);
        }
        growth
    }

    /// From `at` on, customers come and repairs that have begun go on at this pace.
    fn quicken(&mut self, pace: Pace, at: Timestamp) {
        let quicker = pace.between_steps / self.pace.between_steps / FIRST_RUSH;
        self.pace = pace;
        for ((due, _), event) in std::mem::take(&mut self.queue) {
            if !matches!(event, Event::Arrival { .. }) {
                let wait = due.duration_since(at).as_secs_f64() * quicker;
                self.expect(later(at, wait), event);
            }
        }
        for business in self.pace.businesses {
            self.expect(
                at,
                Event::Arrival {
                    business: *business,
                },
            );
        }
    }

    /// Stops growth at `now` or resumes it from where it stopped.
    pub(super) fn pause(&mut self, now: Timestamp, paused: bool) {
        match (self.paused_at, paused) {
            (None, true) => self.paused_at = Some(now),
            (Some(since), false) => {
                self.lag += now.duration_since(since);
                self.paused_at = None;
            }
            _ => {}
        }
    }

    /// Lets everything happen that is due by `now`.
    pub(super) fn advance(&mut self, now: Timestamp, records: &mut Records) {
        let due = self.own(now);
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > due || records.len(Route::JobStatusChanges) >= MAX_RECORDS {
                return;
            }
            let ((at, _), event) = entry.remove_entry();
            self.happen(at, event, records);
        }
    }

    fn expect(&mut self, at: Timestamp, event: Event) {
        self.queued += 1;
        self.queue.insert((at, self.queued), event);
    }

    /// A waiting time of open hours, exponentially distributed about `mean` seconds.
    fn wait(&mut self, at: Timestamp, mean: f64) -> Timestamp {
        let seconds = -mean * (1.0 - self.rng.f64()).ln();
        self.day.after(at, seconds.clamp(0.001, mean * 8.0))
    }

    /// Growth's own time at the sandbox's `now`.
    fn own(&self, now: Timestamp) -> Timestamp {
        let now = self.paused_at.unwrap_or(now);
        now.checked_sub(self.lag).unwrap_or(now)
    }

    /// Takes the self check-ins whose customers have come in.
    pub(super) fn take_arrived(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.came_in)
    }

    /// The sandbox's time at growth's `at`.
    fn clock(&self, at: Timestamp) -> Timestamp {
        at.checked_add(self.lag).unwrap_or(Timestamp::MAX)
    }

    fn create(
        &self,
        records: &mut Records,
        route: Route,
        business: i64,
        at: Timestamp,
        fields: Fields,
    ) -> Row {
        let at = self.clock(at);
        records.create(
            route,
            business,
            fields.with("created_at", format!("{at:.6}")),
            at,
        )
    }

    fn edit<const N: usize>(
        &self,
        records: &mut Records,
        (route, row): (Route, Row),
        at: Timestamp,
        changes: [(&str, Value); N],
    ) {
        let changes: Map<String, Value> = changes
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        records.edit(route, row, changes, self.clock(at));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::formats::DateFormats;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn growth(shop: Shop, past_in: Option<&TimeZone>, records: &mut Records) -> Growth {
        Growth::new(shop, past_in, 7, START, records)
    }

    fn grown(shop: Shop, seconds: f64, steps: u32) -> Records {
        let mut records = Records::new([1; 6], DateFormats::default());
        let mut growth = growth(shop, None, &mut records);
        for step in 1..=steps {
            growth.advance(
                later(START, seconds * f64::from(step) / f64::from(steps)),
                &mut records,
            );
        }
        records
    }

    fn everything(records: &mut Records) -> String {
        Route::ALL
            .map(|route| serde_json::to_string(&records.truth(route)).unwrap())
            .join("\n")
    }

    fn sent(records: &mut Records, route: Route) -> Vec<Value> {
        let truth = records.truth(route);
        truth
            .iter()
            .map(|one| serde_json::from_str(one.record.get()).unwrap())
            .collect()
    }

    #[test]
    fn a_seed_gives_the_same_history_however_often_it_is_asked() {
        let mut once = grown(Shop::Chain, 600.0, 1);
        let mut often = grown(Shop::Chain, 600.0, 97);
        assert_eq!(everything(&mut once), everything(&mut often));
    }

    #[test]
    fn every_shop_starts_with_rows_in_all_routes_and_a_busy_one_with_more_than_a_page() {
        for shop in [Shop::Quiet, Shop::Busy, Shop::Chain] {
            let records = grown(shop, 0.0, 1);
            for route in Route::ALL {
                let least = if shop == Shop::Quiet { 5 } else { 100 };
                let rows = records.len(route);
                assert!(rows > least, "{shop} has {rows} {route}");
            }
        }
    }

    #[test]
    fn a_long_past_spreads_a_page_over_weeks_and_the_shop_is_busy_afterwards() {
        let mut records = Records::new([1; 6], DateFormats::default());
        let mut growth = growth(Shop::Busy, Some(&TimeZone::UTC), &mut records);
        for route in Route::ALL {
            assert!(records.len(route) > 100, "{} {route}", records.len(route));
        }
        let jobs = sent(&mut records, Route::Jobs);
        let at = |job: &Value| {
            job["created_at"]
                .as_str()
                .unwrap()
                .parse::<Timestamp>()
                .unwrap()
        };
        let oldest = at(&jobs[jobs.len() - 100]);
        let days = START.duration_since(oldest).as_secs() / 86_400;
        assert!((4..60).contains(&days), "{days}");
        let day_before = later(START, -86_400.0);
        let in_a_day = jobs.iter().filter(|job| at(job) > day_before).count();
        growth.advance(later(START, 600.0), &mut records);
        let more = records.len(Route::Jobs) - jobs.len();
        assert!((3..40).contains(&more), "{more} in ten minutes");
        assert!(more < 3 * in_a_day, "{more} after {in_a_day} in a day");
        let sum = |job: &Value, field: &str| job[field].as_f64().unwrap();
        let is_completed = |job: &&Value| job["status_stage"] == "completed";
        let is_unpaid = |job: &Value| sum(job, "paid_amount") < sum(job, "total_amount");
        assert!(jobs.iter().filter(is_completed).any(is_unpaid));
        let today = START.strftime("%Y-%m-%d").to_string();
        let is_late = |job: &Value| {
            let promised = job["estimated_delivery"].as_str();
            job["status_stage"] == "open" && promised.is_some_and(|day| *day < *today)
        };
        let late = jobs.iter().filter(|job| is_late(job)).count();
        assert!((1..12).contains(&late), "{late} are late");
    }

    #[test]
    fn a_busy_shop_moves_within_seconds() {
        let before = grown(Shop::Busy, 0.0, 1);
        let after = grown(Shop::Busy, 20.0, 1);
        let rows = |records: &Records| Route::ALL.map(|r| records.len(r)).iter().sum::<usize>();
        assert!(rows(&after) >= rows(&before) + 8);
    }

    #[test]
    fn the_records_agree_with_one_another() {
        let mut records = grown(Shop::Busy, 900.0, 3);
        let mut paid: HashMap<String, f64> = HashMap::new();
        for payment in sent(&mut records, Route::Payments) {
            let job = payment["job_number"].as_str().unwrap().to_owned();
            *paid.entry(job).or_default() += payment["amount"].as_f64().unwrap();
        }
        let mut status: HashMap<String, Value> = HashMap::new();
        for change in sent(&mut records, Route::JobStatusChanges) {
            status.insert(
                change["job_number"].as_str().unwrap().to_owned(),
                change["status"].clone(),
            );
        }
        let customers = sent(&mut records, Route::Customers);
        let jobs = sent(&mut records, Route::Jobs);
        for job in &jobs {
            let number = job["job_number"].as_str().unwrap();
            let said = job["paid_amount"].as_f64().unwrap();
            let sum = paid.remove(number).unwrap_or_default();
            assert!((said - sum).abs() < 0.001, "{number}: {said} is not {sum}");
            assert_eq!(
                status.remove(number),
                Some(job["status"].clone()),
                "{number}"
            );
            let known = |c: &Value| {
                c["name"] == job["customer_name"] && c["mobile_number"] == job["mobile_number"]
            };
            assert!(customers.iter().any(known), "{number} has no customer");
        }
        assert!(
            paid.is_empty() && status.is_empty(),
            "nothing without its job"
        );
        assert!(jobs.iter().any(|job| job["status_stage"] == "completed"));
        for lead in sent(&mut records, Route::Leads) {
            let known = |c: &Value| c["mobile_number"] == lead["mobile_number"];
            assert_eq!(lead["status"] == "Converted", customers.iter().any(known));
        }
    }

    #[test]
    fn an_import_is_larger_than_a_page() {
        let before = grown(Shop::Busy, 20.9 * 3600.0, 1).len(Route::Leads);
        let after = grown(Shop::Busy, 21.0 * 3600.0, 1).len(Route::Leads);
        assert!(after - before > 100);
    }

    #[test]
    fn a_pause_holds_everything_back_and_loses_nothing() {
        let mut records = Records::new([1; 6], DateFormats::default());
        let mut growth = growth(Shop::Busy, None, &mut records);
        let before = records.len(Route::JobStatusChanges);
        growth.pause(START, true);
        growth.advance(later(START, 500.0), &mut records);
        assert_eq!(records.len(Route::JobStatusChanges), before);
        growth.pause(later(START, 500.0), false);
        growth.advance(later(START, 600.0), &mut records);
        let straight = grown(Shop::Busy, 100.0, 1);
        for route in Route::ALL {
            assert_eq!(records.len(route), straight.len(route));
        }
    }
}
