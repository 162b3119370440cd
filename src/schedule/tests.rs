use jiff::Timestamp;

use super::*;

mod bad_input;
mod changes;
mod guarantees;
mod property;

fn at(seconds: f64) -> Moment {
    let elapsed = Duration::from_secs_f64(seconds);
    Moment { elapsed, wall: Timestamp::from_second(1_760_000_000).unwrap() + elapsed }
}

fn settings() -> PollerSettings {
    PollerSettings {
        limit: 100,
        min_interval: Duration::from_secs(2),
        max_interval: Duration::from_secs(90),
        weight: 1.0,
        thrift: false,
    }
}

/// The settings of a route that is polled `every` so many seconds.
fn fixed(every: u64) -> PollerSettings {
    let every = Duration::from_secs(every);
    PollerSettings { min_interval: every, max_interval: every, ..settings() }
}

/// A page with `new` records whose ages are given, youngest first.
fn aged(new: u32, ages: Vec<Duration>) -> PollResult {
    PollResult::Page(Observation { records: 100, new: new.min(100), contiguous: new < 100, ages })
}

fn page(new: u32) -> PollResult {
    if new == 0 { PollResult::Unchanged } else { aged(new, Vec::new()) }
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
                assert!(until.as_secs_f64() > now, "told to wait until {until:?} at {now}");
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
    let times: Vec<f64> = polls.iter().filter(|poll| poll.1 == poller).map(|poll| poll.0).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

/// Records that a steady stream brings between two times.
fn steady(rate: f64, from: f64, to: f64) -> u32 {
    (to * rate) as u32 - (from * rate) as u32
}

#[test]
fn the_first_round_reaches_every_poller_in_turn() {
    let mut schedule = Schedule::new(vec![settings(); 6], 30.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 12.0, 60.5 / 30.0, |_, _| PollResult::Unchanged);
    let order: Vec<usize> = polls.iter().map(|(_, poller)| *poller).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn quiet_hours_use_the_whole_budget_unless_thrift_is_on() {
    let polls = |thrift| {
        let settings = PollerSettings { thrift, ..settings() };
        let mut schedule = Schedule::new(vec![settings; 6], 45.0, at(0.0));
        let busy = |now: f64| (now / 3600.0) as u64 % 24 < 8;
        let mut last = [0.0; 6];
        let all = drive(&mut schedule, 0.0, 3.0 * 86_400.0, 60.5 / 45.0, |poller, now| {
            let from = std::mem::replace(&mut last[poller], now);
            if busy(now) { page(steady(0.05, from, now)) } else { PollResult::Unchanged }
        });
        let night = |time: f64| time > 2.0 * 86_400.0 && !busy(time) && !busy(time - 3600.0);
        let guarantee = (0..6).map(|poller| schedule.guarantee(poller)).fold(0.0, f64::max);
        (all.iter().filter(|poll| night(poll.0)).count(), guarantee, longest(&all, 0))
    };
    let whole = (15.0 * 3600.0 / (60.5 / 45.0)) as usize;
    let (all, ..) = polls(false);
    assert!(all >= whole - 10, "{all} of {whole} by night");
    let (saved, guarantee, waited) = polls(true);
    assert!(saved < whole * 8 / 10, "{saved} of {whole} by night with thrift");
    assert!(waited <= guarantee + 0.01, "{waited} beside the guarantee of {guarantee}");
}

#[test]
fn the_busy_are_polled_more_often_by_the_square_root() {
    let mut schedule = Schedule::new(vec![settings(); 2], 10.0, at(0.0));
    let mut last = [0.0; 2];
    let polls = drive(&mut schedule, 0.0, 10.0 * 86_400.0, 6.05, |poller, now| {
        let rate = if poller == 0 { 0.09 } else { 0.01 };
        page(steady(rate, std::mem::replace(&mut last[poller], now), now))
    });
    let late: Vec<_> = polls.into_iter().filter(|poll| poll.0 > 8.0 * 86_400.0).collect();
    let ratio = count(&late, 0) as f64 / count(&late, 1) as f64;
    assert!((2.4..3.6).contains(&ratio), "{ratio}, the square root of nine is three");
}

#[test]
fn more_pollers_than_the_budget_allows_share_it_evenly() {
    let mut schedule = Schedule::new(vec![settings(); 120], 45.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 7200.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
    for poller in 0..120 {
        let polls = count(&polls, poller);
        assert!((42..=46).contains(&polls), "{polls} polls for one, even are 44");
    }
}

#[test]
fn the_guarantee_grows_with_calm_and_shrinks_at_once_when_a_page_fills_fast() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let turn = 6.0 * 60.5 / 45.0;
    assert!(schedule.guarantee(0) < 1.3 * turn, "{}", schedule.guarantee(0));
    drive(&mut schedule, 0.0, 8.0 * 86_400.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
    let calm = schedule.guarantee(0);
    assert!((3.9 * turn..=4.01 * turn).contains(&calm), "{calm} after a week");
    let now = 8.0 * 86_400.0 + 100.0;
    schedule.started(0, at(now));
    let ages = (0..98).map(|age| Duration::from_secs_f64(f64::from(age) / 10.0)).collect();
    schedule.observe(0, &aged(98, ages), at(now));
    // Requests that were kept meanwhile count as two slots more.
    assert!(schedule.guarantee(0) <= turn * 8.0 / 6.0 + 0.01, "{}", schedule.guarantee(0));
    assert!(schedule.guarantee(1) >= calm, "the others keep theirs");
}

#[test]
fn max_interval_is_kept_exactly_while_an_import_runs_elsewhere() {
    let mut schedule = Schedule::new(vec![settings(); 6], 10.0, at(0.0));
    drive(&mut schedule, 0.0, 9.0 * 86_400.0, 6.05, |_, _| PollResult::Unchanged);
    let mut last = 9.0 * 86_400.0;
    let polls = drive(&mut schedule, last, last + 3600.0, 6.05, |poller, now| {
        if poller != 3 {
            return PollResult::Unchanged;
        }
        let new = steady(4.0, std::mem::replace(&mut last, now), now).min(100);
        aged(new, (0..new).map(|k| Duration::from_secs_f64(f64::from(k) / 4.0)).collect())
    });
    for poller in 0..6 {
        let waited = longest(&polls, poller);
        assert!(waited <= 90.0, "poller {poller} waited {waited}");
    }
    assert!(count(&polls, 3) > 200, "{} polls of the import", count(&polls, 3));
}

#[test]
fn an_import_is_followed_while_it_runs_and_no_longer() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let start = 8.0 * 86_400.0;
    let mut seen = [0.0; 6];
    let mut background = |poller: usize, now: f64| {
        page(steady(0.01, std::mem::replace(&mut seen[poller], now), now))
    };
    drive(&mut schedule, 0.0, start, 60.5 / 45.0, &mut background);
    let import = |now: f64| (start..start + 60.0).contains(&now);
    let mut last = start;
    let polls = drive(&mut schedule, start, start + 300.0, 60.5 / 45.0, |poller, now| {
        if poller != 2 || !(import(now) || import(last)) {
            return background(poller, now);
        }
        let from = std::mem::replace(&mut last, now);
        let until = now.min(start + 60.0);
        let new = steady(4.0, from, until);
        let ages = (0..new).map(|k| Duration::from_secs_f64(now - until + f64::from(k) / 4.0));
        if new == 0 { PollResult::Unchanged } else { aged(new, ages.collect()) }
    });
    let during: Vec<_> = polls.iter().copied().filter(|poll| import(poll.0)).collect();
    let after: Vec<_> = polls.iter().copied().filter(|poll| poll.0 > start + 80.0).collect();
    let others = count(&during, 1);
    assert!(count(&during, 2) > 2 * others, "{} beside {others}", count(&during, 2));
    assert!(count(&after, 2) * 10 < after.len() * 3, "{} of {}", count(&after, 2), after.len());
}

#[test]
fn routes_that_were_polled_in_the_same_instant_are_pulled_apart() {
    let slot = 60.5 / 30.0;
    let mut schedule = Schedule::new(vec![settings(); 6], 30.0, at(0.0));
    for poller in 0..6 {
        schedule.started(poller, at(0.0));
        schedule.observe(poller, &PollResult::Unchanged, at(0.0));
        let mut learned: serde_json::Value =
            serde_json::from_str(&schedule.learned(poller)).unwrap();
        learned["calm"] = (7.0 * 86_400.0).into();
        schedule.restore(poller, &learned.to_string(), at(0.0));
    }
    let mut last = [0.0; 6];
    // All are overdue by then, so that they are polled one after the other.
    let polls = drive(&mut schedule, 100.0, 3600.0, slot, |poller, now| {
        let rate = if poller == 0 { 0.3 } else { 0.0003 };
        page(steady(rate, std::mem::replace(&mut last[poller], now), now))
    });
    let late: Vec<_> = polls.into_iter().filter(|poll| poll.0 > 1800.0).collect();
    assert!(longest(&late, 1) > 20.0 * slot, "the quiet wait {}", longest(&late, 1));
    assert!(longest(&late, 0) < 2.1 * slot, "the busy route waited {}", longest(&late, 0));
}

#[test]
fn the_first_page_is_no_import() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    for (place, hours) in [(0, 5), (1, 50)] {
        schedule.started(place, at(1.0));
        let ages = (1..=100).map(|k| Duration::from_secs(3600 * hours * k / 100)).collect();
        let page = Observation { records: 100, new: 100, contiguous: true, ages };
        schedule.observe(place, &PollResult::Page(page), at(1.2));
    }
    let views = [0, 1, 2].map(|place| schedule.view(place, at(2.0)));
    assert!(views.iter().all(|view| !view.at_risk && view.overflows_seen == 0), "{views:?}");
    assert!(schedule.forecast().feasible && schedule.needed_per_minute() < 1.0);
}

#[test]
fn a_batch_larger_than_a_page_is_not_chased() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 7200.0, 60.5 / 45.0, |poller, now| {
        if poller == 1 && (now as u64 % 600) < 8 && now > 60.0 {
            aged(100, (0..100).map(|k| Duration::from_millis(4000 + 10 * k)).collect())
        } else {
            PollResult::Unchanged
        }
    });
    let share = count(&polls, 1) as f64 / polls.len() as f64;
    // Two of seven are what the guarantees of the others leave to any route.
    assert!((0.12..0.29).contains(&share), "{share} of the polls");
    assert!(longest(&polls, 0) < 15.0, "another route waited {}", longest(&polls, 0));
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
            let times: Vec<f64> = polls.iter().filter(|p| p.1 == others).map(|p| p.0).collect();
            // The first after a pause can come soon before an own slot.
            for pair in times.windows(2).skip(1) {
                let off = (pair[1] - pair[0] - every as f64).abs();
                assert!(off <= 0.51 * slot, "{} of {every} beside {others}", pair[1] - pair[0]);
            }
        }
    }
}

#[test]
fn fixed_intervals_leave_the_rest_of_the_budget_to_the_others() {
    let mut all = vec![settings(); 5];
    all.push(fixed(6));
    let mut schedule = Schedule::new(all, 30.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 3600.0, 60.5 / 30.0, |_, _| PollResult::Unchanged);
    assert!((594..=596).contains(&count(&polls, 5)), "{}", count(&polls, 5));
    assert!(longest(&polls, 5) < 6.06, "{}", longest(&polls, 5));
    assert!(polls.len() >= 1784, "{} of 1785", polls.len());
    let guarantee = schedule.guarantee(0);
    assert!(longest(&polls, 0) <= guarantee + 0.01, "{} of {guarantee}", longest(&polls, 0));
}

#[test]
fn a_fixed_interval_is_kept_beside_a_short_max_interval() {
    let mut all = vec![settings(); 4];
    all.extend([fixed(60), fixed(9)]);
    all[0].max_interval = Duration::from_secs(5);
    let mut schedule = Schedule::new(all, 45.0, at(0.0));
    let slot = 60.5 / 45.0;
    let polls = drive(&mut schedule, 0.0, 7200.0, slot, |_, _| PollResult::Unchanged);
    assert!(longest(&polls, 0) <= 5.0, "{}", longest(&polls, 0));
    assert!(longest(&polls, 4) <= 60.0 + 0.51 * slot, "{}", longest(&polls, 4));
    assert!((118..=122).contains(&count(&polls, 4)), "{} of 120", count(&polls, 4));
    // The distances between own slots are doubled from one number: it is polled sooner.
    assert!(longest(&polls, 5) <= 9.0 + 0.51 * slot, "{}", longest(&polls, 5));
}

#[test]
fn weight_counts_as_more_arrivals() {
    let heavy = PollerSettings { weight: 9.0, ..settings() };
    let mut schedule = Schedule::new(vec![heavy, settings()], 10.0, at(0.0));
    let mut last = [0.0; 2];
    let polls = drive(&mut schedule, 0.0, 10.0 * 86_400.0, 6.05, |poller, now| {
        page(steady(0.02, std::mem::replace(&mut last[poller], now), now))
    });
    let late: Vec<_> = polls.into_iter().filter(|poll| poll.0 > 8.0 * 86_400.0).collect();
    let ratio = count(&late, 0) as f64 / count(&late, 1) as f64;
    assert!((2.4..3.6).contains(&ratio), "{ratio}, the square root of nine is three");
}

#[test]
fn a_failed_poll_waits_as_told_and_others_go_on() {
    let mut schedule = Schedule::new(vec![settings(); 2], 60.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 300.0, 1.01, |poller, now| {
        if poller == 0 && now < 100.0 {
            PollResult::Failed { not_before: Duration::from_secs(200) }
        } else {
            PollResult::Unchanged
        }
    });
    let first: Vec<f64> = polls.iter().filter(|poll| poll.1 == 0).map(|poll| poll.0).collect();
    assert!(first[0] < 100.0 && (200.0..203.0).contains(&first[1]), "{first:?}");
    assert!(count(&polls, 1) > 100, "{}", count(&polls, 1));
}

#[test]
fn pollers_in_flight_are_passed_over_and_a_wait_after_a_failure_can_be_ended() {
    let mut schedule = Schedule::new(vec![settings(); 2], 60.0, at(0.0));
    schedule.started(0, at(10.0));
    let not_before = Duration::from_secs(9000);
    schedule.observe(0, &PollResult::Failed { not_before }, at(10.0));
    assert_eq!(schedule.next(at(50.0)), Next::Poll(1));
    schedule.started(1, at(50.0));
    assert_eq!(schedule.view(1, at(51.0)).next_poll_s, None);
    // The first slot from then on, not the next one.
    let Next::WaitUntil(until) = schedule.next(at(51.0)) else { panic!("nothing is due") };
    assert!((9000.0..9001.1).contains(&until.as_secs_f64()), "{until:?}");
    assert!(matches!(schedule.next(at(8999.0)), Next::WaitUntil(_)));
    assert_eq!(schedule.next(at(9002.0)), Next::Poll(0));
    schedule.wait_until(0, Duration::from_secs(51));
    assert_eq!(schedule.next(at(51.1)), Next::Poll(0));
    schedule.started(0, at(51.1));
    assert_eq!(schedule.next(at(51.1)), Next::Idle);
}

#[test]
fn a_pace_that_changes_is_used_as_it_changes() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    drive(&mut schedule, 0.0, 600.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
    schedule.set_pace(6.0, at(600.0));
    let few = drive(&mut schedule, 600.0, 1800.0, 60.5 / 6.0, |_, _| PollResult::Unchanged);
    assert!((117..=121).contains(&few.len()), "{} polls of 119", few.len());
    let late: Vec<_> = few.into_iter().filter(|poll| poll.0 > 700.0).collect();
    assert!(longest(&late, 0) <= schedule.guarantee(0) + 0.01, "{}", longest(&late, 0));
    schedule.set_pace(45.0, at(1800.0));
    let all = drive(&mut schedule, 1800.0, 2405.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
    assert!(all.len() >= 447, "{} polls of 450", all.len());
}

#[test]
fn a_busy_route_is_followed_while_the_pace_is_too_low_to_poll_in_turn() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let mut last = [0.0; 6];
    let mut traffic = |poller: usize, now: f64| {
        let rate = if poller == 4 { 1.0 } else { 0.05 };
        page(steady(rate, std::mem::replace(&mut last[poller], now), now).min(100))
    };
    drive(&mut schedule, 0.0, 1800.0, 60.5 / 45.0, &mut traffic);
    // Another client leaves this much. Polling in turn would take 145 s.
    schedule.set_pace(2.5, at(1800.0));
    let guarantee = (0..6).map(|poller| schedule.guarantee(poller)).fold(0.0, f64::max);
    let polls = drive(&mut schedule, 1800.0, 3600.0, 60.5 / 2.5, &mut traffic);
    // In the first turn all routes come to the end of their guarantees at once.
    let after: Vec<_> = polls.iter().copied().filter(|poll| poll.0 > 1945.0).collect();
    assert!(longest(&after, 4) < 97.0, "{} s for 97 records", longest(&after, 4));
    for poller in 0..6 {
        assert!(longest(&polls, poller) <= guarantee + 0.01, "{}", longest(&polls, poller));
    }
}

#[test]
fn planned_intervals_add_up_to_the_budget() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let mut last = [0.0; 6];
    for day in 0..9 {
        let from = f64::from(day) * 86_400.0;
        drive(&mut schedule, from, from + 7200.0, 60.5 / 45.0, |poller, now| {
            let rate = [0.2, 0.01, 0.0, 0.001, 0.05, 0.0][poller];
            let new = steady(rate, std::mem::replace(&mut last[poller], now), now);
            page(new.min(99))
        });
        let now = at(from + 7200.0);
        let planned: f64 = (0..6).map(|poller| 60.5 / schedule.view(poller, now).interval_s).sum();
        assert!((44.5..=45.01).contains(&planned), "{planned} a minute on day {day}");
    }
}

#[test]
fn an_import_too_fast_for_the_budget_is_told_while_it_runs_and_before_the_next() {
    let mut schedule = Schedule::new(vec![settings(); 6], 10.0, at(0.0));
    drive(&mut schedule, 0.0, 7200.0, 6.05, |_, _| PollResult::Unchanged);
    assert!(schedule.forecast().feasible);
    let now = 7230.0;
    schedule.started(4, at(now));
    let ages = (0..30).map(|k| Duration::from_millis(40 * k)).collect();
    schedule.observe(4, &aged(30, ages), at(now));
    let forecast = schedule.forecast();
    assert!(!forecast.feasible && forecast.first_to_fail == Some(4), "{forecast:?}");
    assert!(schedule.view(4, at(now)).reason.contains("import of about"));
    let later = now + 6.0;
    schedule.started(4, at(later));
    let ages = (0..98).map(|k| Duration::from_millis(40 * k)).collect();
    schedule.observe(4, &aged(98, ages), at(later));
    drive(&mut schedule, later + 1.0, later + 86_400.0, 6.05, |_, _| PollResult::Unchanged);
    assert_eq!(schedule.forecast().first_to_fail, Some(4));
    let view = schedule.view(4, at(later + 86_400.0));
    assert!(view.at_risk && view.overflows_seen == 1, "{view:?}");
    drive(&mut schedule, later + 86_400.0, later + 9.0 * 86_400.0, 6.05, |_, _| {
        PollResult::Unchanged
    });
    assert!(schedule.forecast().feasible, "a week later");
}

#[test]
fn a_rate_that_the_budget_cannot_follow_is_at_risk() {
    let mut schedule = Schedule::new(vec![settings(); 2], 4.0, at(0.0));
    let mut last = [0.0; 2];
    drive(&mut schedule, 0.0, 7200.0, 60.5 / 4.0, |poller, now| {
        let rate = if poller == 1 { 5.0 } else { 0.01 };
        let new = steady(rate, std::mem::replace(&mut last[poller], now), now);
        page(new.min(100))
    });
    let forecast = schedule.forecast();
    assert!(!forecast.feasible && forecast.load > 0.5, "{forecast:?}");
    assert_eq!(forecast.first_to_fail, Some(1));
}
