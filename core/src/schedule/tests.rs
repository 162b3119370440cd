use jiff::Timestamp;

use super::*;

mod bad_input;
mod changes;
mod guarantees;
mod property;
mod rival;

fn at(seconds: f64) -> Moment {
    let elapsed = Duration::from_secs_f64(seconds);
    Moment {
        elapsed,
        wall: Timestamp::from_second(1_760_000_000).unwrap() + elapsed,
    }
}

fn settings() -> PollerSettings {
    PollerSettings {
        limit: 100,
        min_interval: Duration::from_secs(2),
        max_interval: Duration::from_secs(90),
    }
}

/// The settings of a route that is polled `every` so many seconds.
fn fixed(every: u64) -> PollerSettings {
    let every = Duration::from_secs(every);
    PollerSettings {
        min_interval: every,
        max_interval: every,
        ..settings()
    }
}

/// How many events in which a page filled dangerously fast are remembered.
fn overflow_events(schedule: &Schedule, poller: usize) -> usize {
    schedule.pollers[poller].memory.fills.len()
}

/// A page with `new` records whose ages are given, youngest first.
fn aged(new: u32, ages: Vec<Duration>) -> PollResult {
    PollResult::Page(Observation {
        records: 100,
        new: new.min(100),
        contiguous: new < 100,
        ages,
    })
}

fn page(new: u32) -> PollResult {
    if new == 0 {
        PollResult::Unchanged
    } else {
        aged(new, Vec::new())
    }
}

/// Drives the schedule with a slot every `slot` seconds; gives who was polled when.
fn drive(
    schedule: &mut Schedule,
    from: f64,
    to: f64,
    slot: f64,
    mut outcome: impl FnMut(usize, f64) -> PollResult,
) -> Vec<(f64, usize)> {
    let (mut now, mut free, mut polls) = (from, from, Vec::new());
    while now < to {
        match schedule.next(at(now)) {
            Next::Poll(poller) if now + 1e-9 >= free => {
                schedule.started(poller, at(now));
                let outcome = outcome(poller, now);
                schedule.observe(poller, &outcome, at(now));
                polls.push((now, poller));
                free = now + slot;
            }
            Next::Poll(_) => now = free,
            Next::WaitUntil(until) => {
                assert!(
                    until.as_secs_f64() > now,
                    "told to wait until {until:?} at {now}"
                );
                now = until.as_secs_f64();
            }
            Next::Idle => break,
        }
    }
    polls
}

fn count(polls: &[(f64, usize)], poller: usize) -> usize {
    polls.iter().filter(|(_, polled)| *polled == poller).count()
}

/// The longest time between two polls of one poller.
fn longest(polls: &[(f64, usize)], poller: usize) -> f64 {
    let times: Vec<f64> = polls
        .iter()
        .filter(|poll| poll.1 == poller)
        .map(|poll| poll.0)
        .collect();
    times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .fold(0.0, f64::max)
}

/// The seeds of a test with random cases; PROPTEST_CASES asks for more or fewer.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|count| count.parse().ok());
    0..asked.unwrap_or(usual)
}

/// Reads the route at this time.
fn read(schedule: &mut Schedule, poller: usize, now: f64, outcome: &PollResult) {
    schedule.started(poller, at(now));
    schedule.observe(poller, outcome, at(now));
}

/// Changes what a route remembers.
fn remember(schedule: &mut Schedule, poller: usize, key: &str, value: serde_json::Value, now: f64) {
    let mut learned: serde_json::Value = serde_json::from_str(&schedule.learned(poller)).unwrap();
    learned[key] = value;
    schedule.restore(poller, &learned.to_string(), at(now));
}

/// Records that a steady stream brings between two times.
fn steady(rate: f64, from: f64, to: f64) -> u32 {
    (to * rate) as u32 - (from * rate) as u32
}

#[test]
fn the_first_round_reaches_every_poller_in_turn() {
    let mut schedule = Schedule::new(vec![settings(); 6], 30.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 12.0, 60.5 / 30.0, |_, _| {
        PollResult::Unchanged
    });
    let order: Vec<usize> = polls.iter().map(|(_, poller)| *poller).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn polls_are_shared_by_the_square_root_of_arrivals() {
    let mut schedule = Schedule::new(vec![settings(); 2], 10.0, at(0.0));
    let mut last = [0.0; 2];
    let polls = drive(&mut schedule, 0.0, 3.0 * 86_400.0, 6.05, |poller, now| {
        let rate = if poller == 0 { 0.09 } else { 0.01 };
        page(steady(rate, std::mem::replace(&mut last[poller], now), now))
    });
    let late: Vec<_> = polls
        .into_iter()
        .filter(|poll| poll.0 > 2.0 * 86_400.0)
        .collect();
    let ratio = count(&late, 0) as f64 / count(&late, 1) as f64;
    assert!(
        (2.4..3.6).contains(&ratio),
        "{ratio}, the square root of nine is three"
    );
}

#[test]
fn more_pollers_than_the_budget_allows_share_it_evenly() {
    let mut schedule = Schedule::new(vec![settings(); 40], 45.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 2400.0, 60.5 / 45.0, |_, _| {
        PollResult::Unchanged
    });
    for poller in 0..40 {
        let polls = count(&polls, poller);
        assert!(
            (42..=46).contains(&polls),
            "{polls} polls for one, even are 44"
        );
    }
}

#[test]
fn an_import_is_followed_while_it_runs_and_no_longer() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let start = 4.0 * 3600.0;
    let mut seen = [0.0; 6];
    let mut background = |poller: usize, now: f64| {
        page(steady(0.01, std::mem::replace(&mut seen[poller], now), now))
    };
    drive(&mut schedule, 0.0, start, 60.5 / 45.0, &mut background);
    (0..6).for_each(|poller| remember(&mut schedule, poller, "quiet_time", 7e5.into(), start));
    let import = |now: f64| (start..start + 60.0).contains(&now);
    let mut last = start;
    let polls = drive(
        &mut schedule,
        start,
        start + 300.0,
        60.5 / 45.0,
        |poller, now| {
            if poller != 2 || !(import(now) || import(last)) {
                return background(poller, now);
            }
            let from = std::mem::replace(&mut last, now);
            let until = now.min(start + 60.0);
            let new = steady(4.0, from, until);
            let ages = (0..new).map(|k| Duration::from_secs_f64(now - until + f64::from(k) / 4.0));
            if new == 0 {
                PollResult::Unchanged
            } else {
                aged(new, ages.collect())
            }
        },
    );
    let during: Vec<_> = polls
        .iter()
        .copied()
        .filter(|poll| import(poll.0))
        .collect();
    let after: Vec<_> = polls
        .iter()
        .copied()
        .filter(|poll| poll.0 > start + 80.0)
        .collect();
    let others = count(&during, 1);
    assert!(
        count(&during, 2) > 2 * others,
        "{} beside {others}",
        count(&during, 2)
    );
    assert!(
        count(&after, 2) * 10 < after.len() * 3,
        "{} of {}",
        count(&after, 2),
        after.len()
    );
}

#[test]
fn the_first_page_is_no_import() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    for (place, hours) in [(0, 5), (1, 50)] {
        schedule.started(place, at(1.0));
        let ages = (1..=100)
            .map(|k| Duration::from_secs(3600 * hours * k / 100))
            .collect();
        let page = Observation {
            records: 100,
            new: 100,
            contiguous: true,
            ages,
        };
        schedule.observe(place, &PollResult::Page(page), at(1.2));
    }
    let views = [0, 1, 2].map(|place| schedule.status(place, at(2.0)));
    assert!(views.iter().all(|view| !view.at_risk), "{views:?}");
    assert!((0..3).all(|place| overflow_events(&schedule, place) == 0));
    assert!(schedule.needed_per_minute().for_pages < 1.0);
}

#[test]
fn a_batch_larger_than_a_page_is_not_chased() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 7200.0, 60.5 / 45.0, |poller, now| {
        if poller == 1 && (now as u64 % 600) < 8 && now > 60.0 {
            aged(
                100,
                (0..100)
                    .map(|k| Duration::from_millis(4000 + 10 * k))
                    .collect(),
            )
        } else {
            PollResult::Unchanged
        }
    });
    let share = count(&polls, 1) as f64 / polls.len() as f64;
    // Two of seven are what the guarantees of the others leave to any route.
    assert!((0.12..0.29).contains(&share), "{share} of the polls");
    assert!(
        longest(&polls, 0) < 15.0,
        "another route waited {}",
        longest(&polls, 0)
    );
}

#[test]
fn a_fixed_interval_is_kept_to_half_a_slot_and_skips_what_it_missed() {
    for (every, others) in [(30, 0), (30, 5), (3, 5)] {
        let mut all = vec![settings(); others];
        all.push(fixed(every));
        let slot = 60.5 / 60.0;
        let mut schedule = Schedule::new(all, 60.0, at(0.0));
        for from in [0.0, 700.0] {
            let polls = drive(&mut schedule, from, from + 600.0, slot, |_, _| page(1));
            let times: Vec<f64> = polls
                .iter()
                .filter(|p| p.1 == others)
                .map(|p| p.0)
                .collect();
            // The first after a pause can come soon before an own slot.
            for pair in times.windows(2).skip(1) {
                let off = (pair[1] - pair[0] - every as f64).abs();
                assert!(
                    off <= 0.51 * slot,
                    "{} of {every} beside {others}",
                    pair[1] - pair[0]
                );
            }
        }
    }
}

#[test]
fn pollers_in_flight_are_passed_over_and_a_wait_after_a_failure_can_be_ended() {
    let mut schedule = Schedule::new(vec![settings(); 2], 60.0, at(0.0));
    schedule.started(0, at(10.0));
    let not_before = Duration::from_secs(9000);
    schedule.observe(0, &PollResult::Failed { not_before }, at(10.0));
    assert_eq!(schedule.next(at(50.0)), Next::Poll(1));
    schedule.started(1, at(50.0));
    assert_eq!(schedule.status(1, at(51.0)).next_poll_s, None);
    // The first slot from then on, not the next one.
    let Next::WaitUntil(until) = schedule.next(at(51.0)) else {
        panic!("nothing is due")
    };
    assert!((9000.0..9001.1).contains(&until.as_secs_f64()), "{until:?}");
    assert!(matches!(schedule.next(at(8999.0)), Next::WaitUntil(_)));
    assert_eq!(schedule.next(at(9002.0)), Next::Poll(0));
    schedule.wait_until(0, Duration::from_secs(51));
    assert_eq!(schedule.next(at(51.1)), Next::Poll(0));
    schedule.started(0, at(51.1));
    assert_eq!(schedule.next(at(51.1)), Next::Idle);
}

#[test]
fn an_import_too_fast_for_the_budget_is_told_while_it_runs_and_before_the_next() {
    let mut schedule = Schedule::new(vec![settings(); 6], 10.0, at(0.0));
    drive(&mut schedule, 0.0, 7200.0, 6.05, |_, _| {
        PollResult::Unchanged
    });
    let is_at_risk = |schedule: &Schedule, now| -> Vec<bool> {
        (0..6)
            .map(|p| schedule.status(p, at(now)).at_risk)
            .collect()
    };
    let (none, one) = (
        vec![false; 6],
        vec![false, false, false, false, true, false],
    );
    let now = 7230.0;
    assert_eq!(is_at_risk(&schedule, now), none);
    let ages = (0..30).map(|k| Duration::from_millis(40 * k)).collect();
    read(&mut schedule, 4, now, &aged(30, ages));
    assert_eq!(is_at_risk(&schedule, now), one);
    assert!(
        schedule
            .status(4, at(now))
            .reason
            .contains("import of about")
    );
    let later = now + 6.0;
    let ages = (0..98).map(|k| Duration::from_millis(40 * k)).collect();
    read(&mut schedule, 4, later, &aged(98, ages));
    drive(
        &mut schedule,
        later + 80_000.0,
        later + 86_400.0,
        6.05,
        |_, _| PollResult::Unchanged,
    );
    assert_eq!(is_at_risk(&schedule, later + 86_400.0), one);
    assert_eq!(overflow_events(&schedule, 4), 1);
    let week = later + 8.0 * 86_400.0;
    drive(&mut schedule, week, week + 3600.0, 6.05, |_, _| {
        PollResult::Unchanged
    });
    assert_eq!(is_at_risk(&schedule, week + 3600.0), none, "a week later");
}
