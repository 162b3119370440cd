mod restarts;

use std::collections::VecDeque;

use jiff::Timestamp;

use super::*;
use crate::clock::MachineTime;

fn at(seconds: f64) -> Moment {
    let elapsed = Duration::from_secs_f64(seconds);
    Moment {
        elapsed,
        wall: Timestamp::UNIX_EPOCH + elapsed,
    }
}

fn settings(requests_per_minute: u32, reserve: u32) -> BudgetSettings {
    BudgetSettings {
        requests_per_minute,
        reserve,
    }
}

fn for_pages(per_minute: f64) -> PollsNeeded {
    PollsNeeded {
        for_pages: per_minute,
        for_intervals: 0.0,
    }
}

/// A key as the server keeps it: a minute that slides or one that is fixed.
struct Key {
    sliding: bool,
    limit: usize,
    taken: VecDeque<f64>,
    refused: usize,
}

impl Key {
    fn new(sliding: bool) -> Self {
        Self {
            sliding,
            limit: 60,
            taken: VecDeque::new(),
            refused: 0,
        }
    }

    fn ask(&mut self, now: f64) -> KeyReading {
        let from = if self.sliding {
            now - 60.0
        } else {
            (now / 60.0).floor() * 60.0 - 1e-9
        };
        while self.taken.front().is_some_and(|at| *at <= from) {
            self.taken.pop_front();
        }
        let limit = Some(self.limit as u32);
        if self.taken.len() >= self.limit {
            self.refused += 1;
            let wait = if self.sliding {
                self.taken[0] + 60.0 - now
            } else {
                from + 60.0 - now
            };
            let retry_after = Some(Duration::from_secs_f64(wait.max(0.0).ceil()));
            return KeyReading {
                limit,
                remaining: Some(0),
                refused: true,
                retry_after,
            };
        }
        self.taken.push_back(now);
        let remaining = Some((self.limit - self.taken.len()) as u32);
        KeyReading {
            limit,
            remaining,
            ..KeyReading::default()
        }
    }
}

/// A client that always wants to poll.
struct Eager {
    budget: Budget,
    next: f64,
    sent: Vec<f64>,
    least_left: u32,
    refused: usize,
}

impl Eager {
    fn new(budget: BudgetSettings, start: f64) -> Self {
        Self {
            budget: Budget::new(budget, at(start)),
            next: start,
            sent: Vec::new(),
            least_left: u32::MAX,
            refused: 0,
        }
    }

    fn turn(&mut self, key: &mut Key) {
        match self.budget.try_take(Purpose::Poll, at(self.next)) {
            Err(until) => {
                let until = until.as_secs_f64();
                assert!(
                    until > self.next,
                    "told to ask again at once at {}",
                    self.next
                );
                self.next = until;
            }
            Ok(()) => {
                self.sent.push(self.next);
                let seen = key.ask(self.next);
                self.refused += usize::from(seen.refused);
                self.least_left = self.least_left.min(seen.remaining.unwrap());
                self.next += 0.1;
                self.budget.observe(&seen, at(self.next));
            }
        }
    }

    fn sent_between(&self, from: f64, to: f64) -> usize {
        self.sent
            .iter()
            .filter(|at| (from..to).contains(*at))
            .count()
    }
}

fn most_in_a_minute(sent: &[f64]) -> usize {
    (0..sent.len())
        .map(|first| {
            sent[first..]
                .iter()
                .take_while(|at| **at < sent[first] + 60.0)
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn no_minute_holds_more_than_the_limit_less_the_reserve() {
    for (limit, reserve, ceiling) in [
        (60, 15, 45),
        (60, 0, 60),
        (600, 15, 585),
        (1, 0, 1),
        (3, 9, 1),
    ] {
        let mut budget = Budget::new(settings(limit, reserve), at(0.0));
        let (mut now, mut sent) = (0.0, Vec::new());
        // Long idle in between must not save up a sprint.
        while now < 400.0 {
            match budget.try_take(Purpose::Poll, at(now)) {
                Ok(()) => sent.push(now),
                Err(until) => now = until.as_secs_f64(),
            }
            if (130.0..131.0).contains(&now) {
                now = 300.0;
            }
        }
        let most = most_in_a_minute(&sent);
        assert!(most <= ceiling, "{most} in a minute of {limit}");
        assert!(
            most * 60 >= ceiling * 58,
            "only {most} in a minute of {limit} less {reserve}"
        );
        let first = sent.iter().take_while(|at| **at < 60.0).count();
        assert!(first <= ceiling, "{first} in the first minute");
    }
}

#[test]
fn alone_on_the_key_the_whole_limit_less_the_reserve_is_used_without_pauses() {
    for (limit, reserve) in [(30, 0), (60, 0), (60, 15)] {
        for sliding in [true, false] {
            let mut key = Key {
                limit: limit as usize,
                ..Key::new(sliding)
            };
            let mut we = Eager::new(settings(limit, reserve), 3.0);
            while we.next < 1203.0 {
                we.turn(&mut key);
            }
            assert!(we.least_left >= reserve, "{} left", we.least_left);
            let rate = we.sent_between(123.0, 1203.0) as f64 / 18.0;
            let part = rate / f64::from(limit - reserve);
            assert!(
                part >= 0.94,
                "sliding {sliding}: {rate} of {limit} less {reserve} a minute"
            );
            assert!(
                reserve > 0 || part >= 0.975,
                "sliding {sliding}: {rate} of {limit} a minute"
            );
            let longest = we
                .sent
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .fold(0.0, f64::max);
            assert!(
                longest < 6.0,
                "sliding {sliding}: no request for {longest} s of {limit}"
            );
            assert_eq!(key.refused, 0);
        }
    }
}

#[test]
fn a_rival_gets_its_fifty_and_afterwards_we_get_ours() {
    for sliding in [true, false] {
        for phase in 0..60 {
            let start = 60.0 + f64::from(phase) * 5.0;
            let mut key = Key::new(sliding);
            let mut we = Eager::new(settings(60, 15), 0.0);
            we.budget.set_needed(for_pages(2.0));
            let (mut rival, mut rival_refused) = (start, 0);
            while we.next < start + 800.0 {
                if rival < we.next && rival < start + 400.0 {
                    rival_refused += usize::from(key.ask(rival).refused);
                    rival += 60.0 / 50.0;
                } else {
                    we.turn(&mut key);
                }
            }
            assert_eq!(rival_refused, 0, "sliding {sliding}, phase {phase}");
            let beside = we.sent_between(start + 60.0, start + 360.0) as f64 / 5.0;
            assert!(beside >= 1.8, "{beside} a minute do not meet the deadlines");
            let again = we.sent_between(start + 520.0, start + 580.0);
            assert!(
                again >= 42,
                "{again} a minute two minutes after the rival left"
            );
        }
    }
}

#[test]
fn two_daemons_on_one_key_come_to_equal_shares() {
    for sliding in [true, false] {
        let mut key = Key::new(sliding);
        let mut first = Eager::new(settings(60, 15), 0.0);
        let mut second = Eager::new(settings(60, 15), 200.3);
        while first.next < 3000.0 {
            if first.next <= second.next {
                first.turn(&mut key);
            } else {
                second.turn(&mut key);
            }
        }
        let (one, two) = (
            first.sent_between(900.0, 3000.0),
            second.sent_between(900.0, 3000.0),
        );
        let share = one as f64 / (one + two) as f64;
        assert!(
            (0.4..0.6).contains(&share),
            "sliding {sliding}: {one} and {two}"
        );
        let together = (one + two) as f64 / 35.0;
        assert!(together > 25.0, "together only {together} a minute");
        assert_eq!(key.refused, 0);
    }
}

#[test]
fn a_refusal_rests_the_key_halves_the_pace_and_is_over_in_two_minutes() {
    let mut budget = Budget::new(settings(60, 15), at(0.0));
    let seen = KeyReading {
        refused: true,
        retry_after: Some(Duration::from_secs(20)),
        ..KeyReading::default()
    };
    budget.observe(&seen, at(10.0));
    assert_eq!(
        budget.try_take(Purpose::Poll, at(10.0)),
        Err(Duration::from_secs(30))
    );
    assert_eq!(
        budget.try_take(Purpose::Background, at(29.0)),
        Err(Duration::from_secs(30))
    );
    assert_eq!(budget.snapshot(at(20.0)).resting_s, Some(10.0));
    assert!(budget.snapshot(at(30.0)).pace_per_minute < 23.0);
    let mut now = 30.0;
    while now < 150.0 {
        match budget.try_take(Purpose::Poll, at(now)) {
            Ok(()) => budget.observe(&KeyReading::default(), at(now)),
            Err(until) => now = until.as_secs_f64(),
        }
    }
    assert!(budget.snapshot(at(150.0)).pace_per_minute > 44.0);
}

#[test]
fn absurd_headers_cause_no_storm_no_stall_and_no_panic() {
    let absurd = [
        KeyReading {
            remaining: Some(u32::MAX),
            limit: Some(u32::MAX),
            ..KeyReading::default()
        },
        KeyReading {
            remaining: Some(61),
            limit: Some(0),
            ..KeyReading::default()
        },
        KeyReading::default(),
        KeyReading {
            remaining: Some(0),
            limit: Some(60),
            ..KeyReading::default()
        },
        KeyReading {
            refused: true,
            retry_after: Some(Duration::MAX),
            ..KeyReading::default()
        },
        KeyReading {
            refused: true,
            retry_after: Some(Duration::ZERO),
            ..KeyReading::default()
        },
        KeyReading {
            refused: true,
            ..KeyReading::default()
        },
    ];
    for seen in absurd {
        let mut budget = Budget::new(settings(60, 15), at(0.0));
        budget.set_needed(for_pages(f64::NAN));
        let (mut now, mut sent) = (0.0, Vec::new());
        while now < 3.0 * 3600.0 {
            match budget.try_take(Purpose::Poll, at(now)) {
                Ok(()) => {
                    sent.push(now);
                    now += 0.1;
                    budget.observe(&seen, at(now));
                    let pace = budget.snapshot(at(now)).pace_per_minute;
                    assert!(pace.is_finite() && pace > 0.0, "{seen:?}: pace {pace}");
                }
                Err(until) => now = until.as_secs_f64(),
            }
        }
        assert!(most_in_a_minute(&sent) <= 45, "{seen:?}");
        // What cannot be true is passed over: the limit of the configuration holds, and is used.
        let is_absurd = !seen.refused && seen.remaining != Some(0);
        let least = if is_absurd { 40 * 180 } else { 3 };
        assert!(
            sent.len() >= least,
            "{seen:?}: only {} requests",
            sent.len()
        );
    }
}

#[test]
fn background_requests_get_a_twentieth_and_what_polls_leave_unused() {
    let mut budget = Budget::new(settings(60, 15), at(0.0));
    // For twenty minutes polls ask for everything, then every ten seconds, then for everything
    // again.
    for (part, polls_every) in [(0, 1), (1, 1000), (2, 1)] {
        let (mut polls, mut background, mut longest) = (0, 0, 0);
        let (begin, mut due) = (part * 121_000, part * 121_000);
        for hundredth in begin..begin + 121_000 {
            let now = at(f64::from(hundredth) / 100.0);
            background += u32::from(budget.try_take(Purpose::Background, now).is_ok());
            if hundredth >= due && budget.try_take(Purpose::Poll, now).is_ok() {
                polls += 1;
                longest = longest.max(hundredth - due);
                due += polls_every;
            }
        }
        if polls_every == 1 {
            assert!((35..=51).contains(&background), "{background} of 900");
            assert!(
                polls + background >= 885,
                "{polls} polls and {background} others of 900"
            );
        } else {
            assert!(background > 600, "{background} of 779");
            assert!(
                longest <= 270,
                "a poll waited {longest} hundredths, a slot is 134"
            );
        }
    }
}

#[test]
fn a_new_limit_takes_effect_and_what_was_sent_stays_counted() {
    let mut budget = Budget::new(settings(60, 0), at(0.0));
    let mut now = 0.0;
    while now < 50.0 {
        match budget.try_take(Purpose::Poll, at(now)) {
            Ok(()) => {}
            Err(until) => now = until.as_secs_f64(),
        }
    }
    budget.reconfigure(settings(30, 0));
    let until = budget
        .try_take(Purpose::Poll, at(now))
        .unwrap_err()
        .as_secs_f64();
    assert!(
        until > 75.0,
        "granted at {until} although the minute holds more than 30 already"
    );
    assert_eq!(budget.snapshot(at(now)).limit, 30);
}

#[test]
fn no_minute_exceeds_the_limit_of_its_end_whatever_changes_in_it() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut budget = Budget::new(settings(random.u32(1..=120), random.u32(..30)), at(0.0));
        budget.start_cycle(random.usize(..10), at(0.0));
        let (mut now, mut sent) = (0.0, Vec::new());
        while now < 1500.0 {
            let seen = KeyReading {
                limit: Some(random.u32(1..=120)),
                remaining: Some(random.u32(..120)),
                refused: random.u32(..10) == 0,
                retry_after: None,
            };
            match random.u32(..40) {
                0 => budget.reconfigure(settings(random.u32(1..=120), random.u32(..30))),
                1 => budget.observe(&seen, at(now)),
                2 => budget.set_needed(for_pages(random.f64() * 100.0)),
                3 => now += random.f64().powi(3) * 90.0,
                _ => {}
            }
            let purpose = if random.bool() {
                Purpose::Poll
            } else {
                Purpose::Background
            };
            match budget.try_take(purpose, at(now)) {
                Ok(()) => {
                    sent.push(now);
                    let in_minute = sent.iter().filter(|at| **at > now - 60.0).count();
                    let ceiling = ceiling(budget.settings, budget.server_limit) as usize;
                    assert!(
                        in_minute <= ceiling,
                        "seed {seed}: {in_minute} of {ceiling}"
                    );
                }
                Err(until) => now = until.as_secs_f64(),
            }
        }
        assert!(sent.len() > 10, "seed {seed}: only {}", sent.len());
    }
}

#[test]
fn neither_a_changed_limit_nor_a_restart_brings_a_burst() {
    let machine = |elapsed| MachineTime::new("boot".into(), elapsed, Timestamp::UNIX_EPOCH);
    let mut budget = Budget::new(settings(60, 0), at(0.0));
    assert_eq!(budget.try_take(Purpose::Poll, at(100.0)), Ok(()));
    for (limit, slot) in [(30, 60.5 / 30.0), (10, 6.05), (600, 60.5 / 600.0)] {
        budget.reconfigure(settings(limit, 0));
        // Seconds as numbers are exact to less than a microsecond.
        let until = budget.try_take(Purpose::Poll, at(100.001)).unwrap_err();
        let wait = until.as_secs_f64() - 100.0;
        assert!((wait - slot).abs() < 1e-6, "{wait} s at {limit} a minute");
    }
    let left = budget.spending("key".into(), true, at(101.0), machine(at(1.0).elapsed));
    let mut later = Budget::new(settings(60, 0), at(0.0));
    later.resume(&left, "key", at(0.0), &machine(at(1.0).elapsed));
    let until = later.try_take(Purpose::Poll, at(0.0)).unwrap_err();
    let slot = 60.5 / 60.0;
    assert!(
        (until.as_secs_f64() - (slot - 1.0)).abs() < 1e-6,
        "after the restart {until:?}"
    );
}

#[test]
fn a_first_cycle_is_bounded_by_the_minute_only() {
    let first_cycle = |already: usize| {
        let mut key = Key::new(true);
        for _ in 0..already {
            key.ask(0.0);
        }
        let mut we = Eager::new(settings(60, 15), 1.0);
        we.budget.start_cycle(6, at(1.0));
        while we.next < 61.0 {
            we.turn(&mut key);
        }
        assert_eq!(key.refused, 0);
        we.sent
    };
    let alone = first_cycle(0);
    assert!(alone[5] < 2.0, "six polls took until {}", alone[5]);
    let pause = alone
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max);
    assert!(pause < 2.5, "a pause of {pause} s after the first cycle");
    assert!(alone.len() <= 45, "{} in the first minute", alone.len());
    // A response says that the key is nearly used up: the cycle is paced as ever.
    let shared = first_cycle(40);
    assert!(
        shared[5] > 5.0,
        "six polls took until {} beside others",
        shared[5]
    );
}

/// As a workspace that sends `X-RateLimit-Remaining: 0` with every response.
#[test]
fn a_remaining_of_zero_with_every_response_stops_nothing_for_longer_than_three_minutes() {
    let limit = Some(60);
    let mut budget = Budget::new(settings(60, 15), at(0.0));
    let mut next = 0.0;
    let mut sent = Vec::new();
    while next < 600.0 {
        match budget.try_take(Purpose::Poll, at(next)) {
            Err(until) => next = until.as_secs_f64(),
            Ok(()) => {
                sent.push(next);
                let seen = KeyReading {
                    limit,
                    remaining: Some(0),
                    ..KeyReading::default()
                };
                budget.observe(&seen, at(next));
            }
        }
    }
    let later = sent
        .iter()
        .filter(|at| (240.0..600.0).contains(*at))
        .count();
    // 45 a minute.
    assert!(later > 250, "{later} requests in six minutes");
    let status = budget.snapshot(at(600.0));
    assert!(status.remaining_disproved, "{status:?}");

    let refused = KeyReading {
        limit,
        remaining: Some(0),
        refused: true,
        retry_after: None,
    };
    budget.observe(&refused, at(600.0));
    assert!(!budget.snapshot(at(600.0)).remaining_disproved);
}
