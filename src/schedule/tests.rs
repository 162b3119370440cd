use jiff::Timestamp;

use super::*;

fn at(seconds: f64) -> Moment {
    let elapsed = Duration::from_secs_f64(seconds);
    Moment { elapsed, wall: Timestamp::from_second(1_760_000_000).unwrap() + elapsed }
}

fn settings() -> PollerSettings {
    PollerSettings {
        limit: 100,
        min_interval: Duration::from_secs(2),
        max_interval: Duration::from_secs(60),
        every: None,
        weight: 1.0,
    }
}

fn first_page() -> Observation {
    Observation { records: 100, new: 100, overlap: 0, contiguous: true, window: None }
}

fn page(new: u32) -> Outcome {
    Outcome::Page(Observation {
        records: 100,
        new,
        overlap: 100 - new,
        contiguous: new < 100,
        window: None,
    })
}

/// Drives the schedule with a slot every `slot` seconds; gives who was polled when.
fn drive(
    schedule: &mut Schedule,
    from: f64,
    to: f64,
    slot: f64,
    mut outcome: impl FnMut(usize, f64) -> Outcome,
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

#[test]
fn the_first_round_is_staggered_and_reaches_every_poller() {
    let mut schedule = Schedule::new(vec![settings(); 6], 30.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 11.9, 0.0, |_, _| Outcome::Unchanged);
    let order: Vec<usize> = polls.iter().map(|(_, poller)| *poller).collect();
    assert!(order.starts_with(&[0, 1, 2]), "{order:?}");
    assert!((0..6).all(|poller| count(&polls, poller) > 0), "{order:?}");
}

#[test]
fn what_nobody_knows_to_be_a_quiet_hour_gets_the_whole_pace() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let mut read = [false; 6];
    let first = Observation { window: Some(Duration::from_secs(1_000_000)), ..first_page() };
    let polls = drive(&mut schedule, 0.0, 600.0, 60.0 / 45.0, |poller, _| {
        if std::mem::replace(&mut read[poller], true) {
            Outcome::Unchanged
        } else {
            Outcome::Page(first.clone())
        }
    });
    assert!(polls.len() >= 430, "{} of 450 in the first ten minutes", polls.len());
}

#[test]
fn quiet_pollers_are_asked_at_their_longest_interval_when_the_pace_is_short() {
    let mut schedule = Schedule::new(vec![settings(); 6], 6.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 36_000.0, 10.0, |_, _| Outcome::Unchanged);
    for poller in 0..6 {
        let polls = count(&polls, poller);
        assert!((540..=660).contains(&polls), "{polls} polls in ten hours");
    }
}

#[test]
fn more_pollers_than_the_pace_allows_share_it_fairly() {
    let mut schedule = Schedule::new(vec![settings(); 120], 45.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 7200.0, 60.0 / 45.0, |_, _| Outcome::Unchanged);
    for poller in 0..120 {
        let polls = count(&polls, poller);
        assert!((35..=55).contains(&polls), "{polls} polls for one, fair are 45");
    }
}

#[test]
fn the_busy_are_asked_more_often_by_the_square_root() {
    let mut schedule = Schedule::new(vec![settings(); 2], 10.0, at(0.0));
    let mut last = [0.0; 2];
    let polls = drive(&mut schedule, 0.0, 36_000.0, 6.0, |poller, now| {
        let rate = if poller == 0 { 0.09 } else { 0.01 };
        let arrived = ((now * rate) as u32) - ((last[poller] * rate) as u32);
        last[poller] = now;
        if arrived > 0 { page(arrived) } else { Outcome::Unchanged }
    });
    let ratio = count(&polls, 0) as f64 / count(&polls, 1) as f64;
    assert!((2.4..3.6).contains(&ratio), "{ratio}, the square root of nine is three");
}

#[test]
fn a_pace_that_grows_by_small_steps_is_used_as_it_grows() {
    let mut schedule = Schedule::new(vec![settings(); 6], 4.0, at(0.0));
    drive(&mut schedule, 0.0, 130.0, 15.0, |_, _| Outcome::Unchanged);
    let mut pace = 4.0;
    for second in 130..190 {
        pace = f64::min(pace * 1.045, 45.0);
        schedule.set_pace(pace);
        let from = f64::from(second);
        drive(&mut schedule, from, from + 1.0, 1.0, |_, _| Outcome::Unchanged);
    }
    let polls = drive(&mut schedule, 190.0, 250.0, 60.0 / 45.0, |_, _| Outcome::Unchanged);
    assert!(polls.len() >= 42, "{} of 45 a minute", polls.len());
}

#[test]
fn a_page_with_thin_overlap_is_asked_for_again_at_once() {
    let mut schedule = Schedule::new(vec![settings(); 3], 60.0, at(0.0));
    let end = drive(&mut schedule, 0.0, 600.0, 1.0, |_, _| Outcome::Unchanged).last().unwrap().0;
    let now = end + 10.0;
    schedule.started(1, at(now));
    schedule.observe(1, &page(80), at(now));
    assert_eq!(schedule.next(at(now + 2.0)), Next::Poll(1));
    assert!(schedule.view(1, at(now)).reason.contains("at once"));
    schedule.started(1, at(now + 2.0));
    schedule.observe(1, &page(1), at(now + 2.0));
    assert_ne!(schedule.view(1, at(now)).reason, schedule.view(0, at(now)).reason);
}

#[test]
fn a_fixed_interval_keeps_its_grid_and_skips_what_it_missed() {
    let every = Some(Duration::from_secs(30));
    let mut schedule = Schedule::new(vec![PollerSettings { every, ..settings() }], 60.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 95.0, 1.0, |_, _| page(1));
    let times: Vec<f64> = polls.iter().map(|(now, _)| now.round()).collect();
    assert_eq!(times, [0.0, 30.0, 60.0, 90.0]);
    let polls = drive(&mut schedule, 200.0, 245.0, 1.0, |_, _| page(1));
    let times: Vec<f64> = polls.iter().map(|(now, _)| now.round()).collect();
    assert_eq!(times, [200.0, 210.0, 240.0]);
}

#[test]
fn a_failed_poll_waits_as_told_and_others_go_on() {
    let mut schedule = Schedule::new(vec![settings(); 2], 60.0, at(0.0));
    let polls = drive(&mut schedule, 0.0, 300.0, 1.0, |poller, now| {
        if poller == 0 && now < 100.0 {
            Outcome::Failed { not_before: Duration::from_secs(200) }
        } else {
            Outcome::Unchanged
        }
    });
    let first: Vec<f64> = polls.iter().filter(|poll| poll.1 == 0).map(|poll| poll.0).collect();
    assert!(first[0] < 100.0 && first[1] >= 200.0, "{first:?}");
    assert!(count(&polls, 1) > 20);
}

#[test]
fn pollers_in_flight_are_passed_over_and_a_wait_after_a_failure_can_be_ended() {
    let mut schedule = Schedule::new(vec![settings(); 2], 60.0, at(0.0));
    schedule.started(0, at(10.0));
    let not_before = Duration::from_secs(9000);
    schedule.observe(0, &Outcome::Failed { not_before }, at(10.0));
    assert_eq!(schedule.next(at(50.0)), Next::Poll(1));
    schedule.started(1, at(50.0));
    assert_eq!(schedule.view(1, at(51.0)).next_poll_s, None);
    assert_eq!(schedule.next(at(51.0)), Next::WaitUntil(not_before));
    schedule.resume(0, at(51.0));
    assert_eq!(schedule.next(at(51.0)), Next::Poll(0));
    schedule.started(0, at(51.0));
    assert_eq!(schedule.next(at(51.0)), Next::Idle);
}

#[test]
fn what_was_learned_survives_a_restart_and_garbage_is_ignored() {
    let mut schedule = Schedule::new(vec![settings()], 30.0, at(0.0));
    drive(&mut schedule, 0.0, 7200.0, 2.0, |_, now| {
        if now as u64 % 30 < 3 { page(1) } else { Outcome::Unchanged }
    });
    let learned = schedule.learned(0);
    let before = schedule.view(0, at(7200.0));
    let mut restarted = Schedule::new(vec![settings()], 30.0, at(7200.0));
    for garbage in ["", "{}", "null", "{\"version\":1}", "\u{0}", &learned.replace("0.", "1e300")] {
        restarted.restore(0, garbage, at(7200.0));
    }
    assert!(restarted.view(0, at(7200.0)).rate_per_hour.is_finite());
    restarted.restore(0, &learned, at(7200.0));
    let after = restarted.view(0, at(7200.0));
    assert!(
        (after.rate_per_hour / before.rate_per_hour - 1.0).abs() < 0.1,
        "{before:?} then {after:?}"
    );
}

#[test]
fn a_restart_in_an_unusual_hour_does_not_count_the_hour_twice() {
    let mut schedule = Schedule::new(vec![settings()], 30.0, at(0.0));
    // Ten records a minute, twenty times what is expected of a shop never seen.
    drive(&mut schedule, 0.0, 900.0, 2.0, |_, now| {
        if now as u64 % 30 < 2 { page(5) } else { Outcome::Unchanged }
    });
    let before = schedule.view(0, at(900.0)).rate_per_hour;
    let mut restarted = Schedule::new(vec![settings()], 30.0, at(900.0));
    restarted.restore(0, &schedule.learned(0), at(900.0));
    let after = restarted.view(0, at(900.0)).rate_per_hour;
    assert!((after / before - 1.0).abs() < 0.1, "{before} an hour, then {after}");
}

#[test]
fn clock_steps_and_strange_pages_do_no_harm() {
    let mut schedule = Schedule::new(vec![settings(); 2], 30.0, at(0.0));
    let mut now = 0.0;
    let mut polls = 0;
    for step in 0..3000 {
        let moment = Moment {
            wall: at(now).wall + jiff::SignedDuration::from_hours([0, 24, -24, 400_000][step % 4]),
            ..at(now)
        };
        match schedule.next(moment) {
            Next::Poll(poller) => {
                polls += 1;
                schedule.started(poller, moment);
                let outcome = Outcome::Page(Observation {
                    records: 100,
                    new: [0, 1, 100, u32::MAX][step % 4],
                    overlap: 0,
                    contiguous: step % 3 == 0,
                    window: [None, Some(Duration::ZERO), Some(Duration::MAX)][step % 3],
                });
                now += 0.5;
                schedule.observe(poller, &outcome, moment);
            }
            Next::WaitUntil(until) => now = until.as_secs_f64(),
            Next::Idle => unreachable!("nothing is in flight"),
        }
        let view = schedule.view(step % 2, moment);
        assert!(view.rate_per_hour.is_finite() && view.interval_s.is_finite(), "{view:?}");
    }
    assert!(polls > 100 && now / f64::from(polls) >= 0.5, "{polls} polls in {now} s");
}

#[test]
fn a_forecast_names_the_first_route_to_fail_before_anything_is_lost() {
    let mut schedule = Schedule::new(vec![settings(); 2], 30.0, at(0.0));
    let mut last = [0.0; 2];
    drive(&mut schedule, 0.0, 7200.0, 2.0, |poller, now| {
        let rate = if poller == 1 { 5.0 } else { 0.01 };
        let arrived = ((now * rate) as u32) - ((last[poller] * rate) as u32);
        last[poller] = now;
        page(arrived)
    });
    let enough = schedule.forecast(30.0, at(7200.0));
    assert!(enough.feasible && enough.first_to_fail.is_none(), "{enough:?}");
    let short = schedule.forecast(4.0, at(7200.0));
    assert!(!short.feasible && short.load > 1.0, "{short:?}");
    assert_eq!(short.first_to_fail, Some(1));
    let needed = schedule.needed_per_minute();
    assert!((4.0..12.0).contains(&needed), "{needed} a minute");
}
