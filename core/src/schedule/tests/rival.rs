//! What a rival on the key does to the waits: the budget and the schedule together, as the daemon
//! drives them.

use std::collections::VecDeque;

use super::*;
use crate::budget::{Budget, BudgetSettings, KeyReading, Purpose};

/// Arrivals an hour on each route.
const RATES: [f64; 6] = [20.0, 12.0, 30.0, 25.0, 120.0, 2.0];

/// A key that counts a sliding minute or a fixed one.
struct Key {
    is_sliding: bool,
    taken: VecDeque<f64>,
}

impl Key {
    const LIMIT: usize = 60;

    fn take(&mut self, now: f64) -> KeyReading {
        let from = if self.is_sliding {
            now - 60.0
        } else {
            (now / 60.0).floor() * 60.0 - 1e-9
        };
        while self.taken.front().is_some_and(|at| *at <= from) {
            self.taken.pop_front();
        }
        let mut reading = KeyReading {
            limit: Some(Self::LIMIT as u32),
            remaining: Some(0),
            ..KeyReading::default()
        };
        if self.taken.len() >= Self::LIMIT {
            reading.refused = true;
            let until = if self.is_sliding {
                self.taken[0] + 60.0
            } else {
                from + 60.0
            };
            reading.retry_after = Some(Duration::from_secs_f64((until - now).max(0.0).ceil()));
        } else {
            self.taken.push_back(now);
            reading.remaining = Some((Self::LIMIT - self.taken.len()) as u32);
        }
        reading
    }
}

/// What came of a run.
#[derive(Debug)]
struct Waits {
    refused: usize,
    rival_refused: usize,
    per_minute: f64,
    /// Beside those of an even round with as many requests.
    mean: f64,
    longest: f64,
}

/// Two hours beside a rival that sends this number of requests a minute; the first ten minutes are
/// not judged.
fn beside(rival_per_minute: f64, is_sliding: bool, seed: u64) -> Waits {
    let warm = 600.0;
    let end = 7800.0;
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut key = Key {
        is_sliding,
        taken: VecDeque::new(),
    };
    let mut budget = Budget::new(
        BudgetSettings {
            requests_per_minute: 60,
            reserve: 15,
        },
        at(0.0),
    );
    let poller = PollerSettings {
        min_interval: Duration::from_secs(1),
        ..settings()
    };
    let mut schedule = Schedule::new(vec![poller; 6], budget.pace_per_minute(at(0.0)), at(0.0));
    let mut polls: Vec<Vec<f64>> = vec![vec![0.0]; 6];
    let mut now = 0.0;
    let mut rival = 60.0 * chance.f64() / rival_per_minute;
    let mut refused = 0;
    let mut rival_refused = 0;
    while now < end {
        while rival <= now {
            let seen = key.take(rival);
            rival_refused += usize::from(seen.refused && rival > warm);
            rival += 60.0 / rival_per_minute;
        }
        let place = match schedule.next(at(now)) {
            Next::Poll(place) => place,
            Next::WaitUntil(until) => {
                now = until.as_secs_f64();
                continue;
            }
            Next::Idle => unreachable!("nothing is in flight"),
        };
        if let Err(until) = budget.try_take(Purpose::Poll, at(now)) {
            schedule.set_pace(budget.pace_per_minute(at(now)), at(now));
            now = until.as_secs_f64();
            continue;
        }
        schedule.started(place, at(now));
        let seen = key.take(now);
        let sent = now;
        now += 0.05;
        budget.observe(&seen, at(now));
        let outcome = if seen.refused {
            refused += usize::from(sent > warm);
            PollResult::Failed {
                not_before: at(now).elapsed,
            }
        } else {
            let last = *polls[place].last().expect("the start");
            polls[place].push(sent);
            let expected = RATES[place] / 3600.0 * (sent - last);
            let mut new = 0;
            let mut left = -(1.0 - chance.f64()).ln();
            while left < expected {
                new += 1;
                left -= (1.0 - chance.f64()).ln();
            }
            page(new)
        };
        schedule.observe(place, &outcome, at(now));
        budget.set_needed(schedule.needed_per_minute());
        schedule.set_pace(budget.pace_per_minute(at(now)), at(now));
    }
    let mut requests = 0;
    let mut cost = 0.0;
    let mut records = 0.0;
    let mut longest = 0.0_f64;
    for (place, polls) in polls.iter().enumerate() {
        for pair in polls.windows(2) {
            if pair[0] < warm {
                continue;
            }
            let wait = pair[1] - pair[0];
            requests += 1;
            cost += RATES[place] * wait * wait / 2.0;
            records += RATES[place] * wait;
            longest = longest.max(wait);
        }
    }
    let per_minute = f64::from(requests) / (end - warm) * 60.0;
    let round = 6.0 * 60.0 / per_minute;
    Waits {
        refused,
        rival_refused,
        per_minute,
        mean: cost / records / (round / 2.0),
        longest: longest / round,
    }
}

#[test]
fn beside_a_rival_each_route_is_polled_evenly_within_its_max_interval() {
    for rival in [50.0, 55.0] {
        for is_sliding in [true, false] {
            for seed in 0..3 {
                let waits = beside(rival, is_sliding, seed);
                let context = format!("beside {rival}, sliding {is_sliding}, {seed}: {waits:?}");
                assert_eq!((waits.refused, waits.rival_refused), (0, 0), "{context}");
                assert!(waits.mean <= 1.05 && waits.longest <= 2.0, "{context}");
                assert!(waits.per_minute >= 3.9, "{context}");
            }
        }
    }
}

#[test]
fn a_rival_that_wants_the_whole_key_gets_nine_tenths_of_it() {
    for rival in [58.0, 60.0] {
        for is_sliding in [true, false] {
            let waits = beside(rival, is_sliding, 1);
            println!("{rival} {is_sliding} {waits:?}");
            let wanted = 120.0 * rival;
            assert!((waits.rival_refused as f64) < 0.1 * wanted, "{waits:?}");
        }
    }
}
