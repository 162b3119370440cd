//! Simulated shops: some weeks of a workspace on virtual time, and each number of each report
//! compared with the truth, which is counted from the simulated records alone.
//!
//! Every shop follows from its seed, so a wrong number can be made again: `cargo test --test it
//! shops:: -- --ignored --nocapture` simulates each ugly thing alone and prints all figures.

mod ask;
mod judge;
mod known;
mod life;
mod mirror;
mod records;
mod told;
mod truth;
mod world;

use fastrand::Rng;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use shopmirror::report;
use strum::VariantArray;

use ask::Asking;
use judge::{Tally, Verdict};
use known::unexplained;
use life::{Life, Ugly};
use mirror::Mirror;
use world::ListOrder;

/// A shop to simulate.
#[derive(Debug, Clone)]
struct Plan {
    days: i64,
    seed: u64,
    order: ListOrder,
    uglies: Vec<Ugly>,
}

const ZONES: [&str; 3] = ["Europe/Berlin", "America/New_York", "Asia/Kolkata"];

/// A Thursday; clocks change in Berlin on the Sunday three days later, in New York a week after.
const START: Date = Date::constant(2026, 10, 22);

/// The local times at which every report is asked for, on one day each.
const ASKED_AT: [Time; 2] = [Time::constant(12, 40, 0, 0), Time::constant(23, 50, 0, 0)];

impl Plan {
    /// Simulates the shop and compares every number.
    async fn simulate(&self) -> Tally {
        let zone = TimeZone::get(ZONES[self.seed as usize % ZONES.len()]).unwrap();
        let opened = at(START, Time::midnight(), &zone);
        let days_before = if self.uglies.contains(&Ugly::History) {
            20
        } else {
            1
        };
        let start = opened - SignedDuration::from_hours(24 * days_before);
        let mut life = Life::new(start, zone.clone(), self.order, &self.uglies, self.seed);
        life.go_on_until(opened);
        let mut mirror = Mirror::new(&life.world, &zone, self.seed).await;
        mirror.read_all(&mut life.world).await;

        let reports = report::built_in();
        let mut tally = Tally::default();
        let mut outages = Outages::new(life.is(Ugly::Outages), self.seed);
        let minutes = if life.is(Ugly::Rival) { 20 } else { 5 };
        let step = SignedDuration::from_mins(minutes);
        for day in 0..self.days {
            let date = START.saturating_add(day.days());
            let asked_at = at(date, ASKED_AT[day as usize % ASKED_AT.len()], &zone);
            while life.world.now + step < asked_at {
                life.go_on_until(life.world.now + step);
                poll(&mut mirror, &mut life, &mut outages, false).await;
            }
            life.go_on_until(asked_at);
            poll(&mut mirror, &mut life, &mut outages, true).await;
            let mut asking = Asking::new(&mirror, &life, &reports, self.seed);
            asking.every_report(&mut tally, day as usize);
            asking.home(&mut tally);
        }
        tally
    }
}

fn at(day: Date, time: Time, zone: &TimeZone) -> Timestamp {
    let local = day.to_datetime(time);
    local.to_zoned_datetime(zone.clone()).unwrap().timestamp()
}

/// One round of polls, unless there is an outage.
async fn poll(mirror: &mut Mirror, life: &mut Life, outages: &mut Outages, is_whole: bool) {
    let now = life.world.now;
    if outages.is_out(now) {
        return;
    }
    if outages.has_ended(now) {
        mirror.restart().await;
    }
    if is_whole || outages.begins(now) {
        mirror.read_all(&mut life.world).await;
    } else {
        mirror.read_some(&mut life.world).await;
    }
}

/// When nothing is read: the workspace does not answer, or the daemon does not run.
struct Outages {
    are_on: bool,
    rng: Rng,
    until: Option<Timestamp>,
}

impl Outages {
    fn new(are_on: bool, seed: u64) -> Self {
        Self {
            are_on,
            rng: Rng::with_seed(seed ^ 0x6f75),
            until: None,
        }
    }

    fn is_out(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn has_ended(&mut self, now: Timestamp) -> bool {
        self.until.take_if(|until| now >= *until).is_some()
    }

    /// Whether the next round of polls is the last one before an outage.
    fn begins(&mut self, now: Timestamp) -> bool {
        // About one in two days.
        if !self.are_on || self.rng.u32(..576) > 0 {
            return false;
        }
        let hours = [1, 4, 20, 60][self.rng.usize(..4)];
        self.until = Some(now + SignedDuration::from_hours(hours));
        true
    }
}

/// A number from the environment.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[tokio::test]
async fn every_number_of_an_ordinary_shop_is_exact() {
    for (seed, order) in [(0, ListOrder::ByCreation), (1, ListOrder::ByChange)] {
        let plan = Plan {
            days: 3,
            seed,
            order,
            uglies: Vec::new(),
        };
        let tally = plan.simulate().await;
        assert!(tally.all() > 5_000, "{tally}");
        assert_eq!(tally.total(Verdict::Right), tally.all(), "{tally}");
    }
}

/// Simulates a shop with all ugly things; returns what no known fault explains.
async fn ugly_shop(days: u64, seed: u64, order: ListOrder) -> Vec<String> {
    let plan = Plan {
        days: days as i64,
        seed,
        order,
        uglies: Ugly::VARIANTS.to_vec(),
    };
    let tally = plan.simulate().await;
    println!("{plan:?}\n{tally}");
    assert!(tally.all() > 1_000 * days as usize);
    unexplained(&plan, &tally)
}

#[tokio::test]
async fn no_number_of_a_shop_by_creation_is_wrong_without_a_mark() {
    let unexplained = ugly_shop(14, 0, ListOrder::ByCreation).await;
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

#[tokio::test]
async fn no_number_of_a_shop_by_change_is_wrong_without_a_mark() {
    let unexplained = ugly_shop(14, 1, ListOrder::ByChange).await;
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

#[tokio::test]
#[ignore = "it takes minutes: .ci/long shops"]
async fn numbers_of_three_shops() {
    let days = setting("SHOPMIRROR_DAYS", 14);
    let mut all = Vec::new();
    for (seed, order) in [
        (1, ListOrder::ByCreation),
        (2, ListOrder::ByChange),
        (3, ListOrder::ByCreation),
    ] {
        all.extend(ugly_shop(days, seed, order).await);
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[tokio::test]
#[ignore = "it prints the figures of each ugly thing alone"]
async fn figures_of_each_ugly_thing() {
    let only = std::env::var("SHOPMIRROR_UGLY").unwrap_or_default();
    for ugly in Ugly::VARIANTS {
        if !only.is_empty() && !only.split(',').any(|name| name == ugly.to_string()) {
            continue;
        }
        for order in [ListOrder::ByCreation, ListOrder::ByChange] {
            let plan = Plan {
                days: setting("SHOPMIRROR_DAYS", 10) as i64,
                seed: setting("SHOPMIRROR_SEED", 1),
                order,
                uglies: vec![*ugly],
            };
            println!("== {ugly}, {order:?}\n{}", plan.simulate().await);
        }
    }
}
