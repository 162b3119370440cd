//! What a change of the pace or of the configuration does to the guarantees and the plan.

use super::*;

const SLOT: f64 = 60.5 / 45.0;

/// The part of the budget that the planned intervals use.
fn planned(schedule: &Schedule, now: f64) -> f64 {
    let views = (0..schedule.pollers.len()).map(|poller| schedule.view(poller, at(now)));
    views.map(|view| schedule.slot_s() / view.interval_s).sum()
}

/// Polls whenever the schedule says so; each poll must keep the guarantee that was shown when it was
/// sent. Gives the number of polls.
fn keeps_what_it_shows(schedule: &mut Schedule, last: &mut [f64], from: f64, to: f64) -> usize {
    let (mut now, mut polls) = (from, 0);
    while now < to {
        match schedule.next(at(now)) {
            Next::Poll(poller) => {
                let (waited, guarantee) = (now - last[poller], schedule.guarantee(poller));
                assert!(
                    waited <= guarantee + 0.01,
                    "{poller} waited {waited} of {guarantee} at {now}"
                );
                schedule.started(poller, at(now));
                schedule.observe(poller, &PollResult::Unchanged, at(now));
                (last[poller], polls) = (now, polls + 1);
            }
            Next::WaitUntil(until) => now = until.as_secs_f64(),
            Next::Idle => unreachable!("nothing is in flight"),
        }
        let part = planned(schedule, now);
        assert!(part <= 1.02, "{part} of the budget are planned at {now}");
    }
    polls
}

#[test]
fn a_pace_that_falls_and_rises_breaks_no_guarantee_and_plans_no_more_than_there_is() {
    for short in [4.0, 5.0, 8.5, 90.0] {
        let mut all = vec![settings(); 6];
        all[3].max_interval = Duration::from_secs_f64(short);
        let mut schedule = Schedule::new(all, 45.0, at(0.0));
        let (mut last, mut polls) = ([0.0; 6], 0);
        for (from, pace) in [(0.0, 45.0), (60.0, 3.0), (160.0, 45.0), (200.0, 11.0), (300.0, 45.0)]
        {
            let shown: Vec<f64> = (0..6).map(|poller| schedule.guarantee(poller)).collect();
            schedule.set_pace(pace, at(from));
            for (poller, shown) in shown.into_iter().enumerate() {
                assert!(
                    schedule.guarantee(poller) >= shown,
                    "{poller} is promised more than {shown}"
                );
            }
            polls += keeps_what_it_shows(&mut schedule, &mut last, from, from + 100.0);
        }
        assert!(polls > 150, "{polls} polls");
    }
}

#[test]
fn a_reload_shows_the_guarantees_of_before() {
    let mut all = vec![settings(); 6];
    all[0].max_interval = Duration::from_secs(4);
    all[3].max_interval = Duration::from_secs(7);
    let mut schedule = Schedule::new(all.clone(), 45.0, at(0.0));
    let mut last = [0.0; 6];
    for round in 0..40 {
        let (from, to) = (7.3 * f64::from(round), 7.3 * f64::from(round + 1));
        keeps_what_it_shows(&mut schedule, &mut last, from, to);
        let same = all.iter().cloned().enumerate().map(|(place, one)| (one, Some(place)));
        schedule = schedule.reconfigured(same, 45.0, at(to));
        assert_eq!([schedule.guarantee(0), schedule.guarantee(3)], [4.0, 7.0], "after {to} s");
    }
}

#[test]
fn routes_that_must_wait_long_are_not_first_polled_in_one_moment() {
    let minute = Duration::from_secs(60);
    for all in [vec![fixed(60); 6], vec![PollerSettings { min_interval: minute, ..settings() }; 6]]
    {
        let mut schedule = Schedule::new(all, 45.0, at(0.0));
        let mut last = [0.0; 6];
        let first = keeps_what_it_shows(&mut schedule, &mut last, 0.0, 30.0);
        let longest = (0..6).map(|poller| schedule.guarantee(poller)).fold(0.0, f64::max);
        assert!(first == 6 && longest < 62.0, "{first} polls, the second {longest} s later");
        let polls = first + keeps_what_it_shows(&mut schedule, &mut last, 30.0, 900.0);
        assert!((84..=92).contains(&polls), "{polls} polls of 90");
    }
}

#[test]
fn fixed_intervals_that_the_budget_cannot_keep_are_planned_as_they_are_polled() {
    let mut schedule = Schedule::new(vec![fixed(5); 6], 45.0, at(0.0));
    for poller in 0..6 {
        assert!(
            schedule.view(poller, at(0.0)).guarantee_s > 5.0,
            "{:?}",
            schedule.guarantee(poller)
        );
    }
    let polls = drive(&mut schedule, 0.0, 600.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
    for poller in 0..6 {
        let (view, waited) = (schedule.view(poller, at(600.0)), longest(&polls, poller));
        assert!(waited <= view.guarantee_s + 0.01, "{waited} of {view:?}");
        assert!((view.interval_s - 8.07).abs() < 0.05 && !view.at_risk, "{view:?}");
        assert_eq!(view.unkept_max_interval_s, Some(5.0));
    }
}

#[test]
fn an_import_is_followed_through_changes_of_the_configuration() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    let slot = 60.5 / 45.0;
    let start = 8.0 * 86_400.0;
    drive(&mut schedule, 0.0, start, slot, |_, _| PollResult::Unchanged);
    let (mut last, mut most, mut polls) = (start, 0, 0);
    for round in 0..30 {
        let (from, to) = (start + 9.7 * f64::from(round), start + 9.7 * f64::from(round + 1));
        // Every other time there is a seventh poller before the others.
        let first = round as usize % 2;
        drive(&mut schedule, from, to, slot, |poller, now| {
            if poller != 3 + first {
                return PollResult::Unchanged;
            }
            let new = steady(11.0, std::mem::replace(&mut last, now), now);
            // Until it is noticed, the import brings what it brings.
            (most, polls) = (if polls < 2 { 0 } else { most.max(new) }, polls + 1);
            aged(new, (0..new).map(|age| Duration::from_secs_f64(f64::from(age) / 11.0)).collect())
        });
        let kept = (0..6).map(|place| (settings(), Some(place + first)));
        let seventh = (first == 0).then(|| (settings(), None));
        schedule = schedule.reconfigured(seventh.into_iter().chain(kept), 45.0, at(to));
    }
    assert!(most <= 97 && polls > 25, "{most} records between two of {polls} polls");
}

#[test]
fn hundreds_of_routes_are_planned_at_each_change_of_the_pace() {
    let mut all = vec![settings(); 384];
    all[0].max_interval = Duration::from_secs(5);
    let mut schedule = Schedule::new(all, 45.0, at(0.0));
    for change in 0..200 {
        schedule.set_pace(20.0 + f64::from(change % 40), at(f64::from(change)));
    }
    assert!(schedule.guarantee(0) <= 384.0 * 60.5 / 20.0 + 1.0, "{}", schedule.guarantee(0));
}

#[test]
fn after_a_slow_response_a_route_with_own_slots_gets_the_next_free_one() {
    let mut all = vec![settings(); 6];
    all[0].max_interval = Duration::from_secs(5);
    let mut schedule = Schedule::new(all, 45.0, at(0.0));
    drive(&mut schedule, 0.0, 60.0, SLOT, |_, _| PollResult::Unchanged);
    let (mut now, mut sent, mut worst) = (60.0, None::<f64>, 0.0_f64);
    let mut before = f64::INFINITY;
    while now < 600.0 {
        // The route with own slots answers after 4.1 s, when its next own slot has begun.
        if let Some(began) = sent.filter(|began| now >= began + 4.1) {
            schedule.observe(0, &PollResult::Unchanged, at(began + 4.1));
            sent = None;
        }
        match schedule.next(at(now)) {
            Next::Poll(0) => {
                assert!(now - before <= schedule.guarantee(0) + 0.01, "{}", now - before);
                worst = worst.max(now - before);
                schedule.started(0, at(now));
                (before, sent) = (now, Some(now));
            }
            Next::Poll(poller) => {
                schedule.started(poller, at(now));
                schedule.observe(poller, &PollResult::Unchanged, at(now));
            }
            Next::WaitUntil(until) => now = until.as_secs_f64(),
            Next::Idle => unreachable!("five routes answer at once"),
        }
    }
    assert!(worst < 7.0, "{worst} of 5 s, with 4.1 s for the response");
}

#[test]
fn a_reload_during_a_request_promises_no_longer_wait_for_a_route_that_fails() {
    let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
    drive(&mut schedule, 0.0, 7200.0, SLOT, |poller, now| match poller {
        3 => PollResult::Failed { not_before: Duration::from_secs_f64(now + 60.0) },
        _ => PollResult::Unchanged,
    });
    assert!(schedule.forecast().feasible, "{:?}", schedule.forecast());
    schedule.started(3, at(7300.0));
    let same = (0..6).map(|place| (settings(), Some(place)));
    let schedule = schedule.reconfigured(same, 45.0, at(7301.0));
    assert!(schedule.guarantee(3) < 180.0, "{}", schedule.guarantee(3));
    assert!(schedule.forecast().feasible, "{:?}", schedule.forecast());
}

#[test]
fn longer_pages_show_older_records_and_no_import() {
    for is_restart in [false, true] {
        let short = PollerSettings { limit: 20, ..settings() };
        let mut schedule = Schedule::new(vec![short; 2], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 600.0, SLOT, |_, _| PollResult::Unchanged);
        let mut longer = if is_restart {
            let mut other = Schedule::new(vec![settings(); 2], 45.0, at(601.0));
            (0..2).for_each(|poller| other.restore(poller, &schedule.learned(poller), at(601.0)));
            other
        } else {
            let same = (0..2).map(|place| (settings(), Some(place)));
            schedule.reconfigured(same, 45.0, at(601.0))
        };
        longer.started(1, at(602.0));
        longer.observe(1, &aged(80, vec![Duration::from_secs(9000); 80]), at(602.0));
        let view = longer.view(1, at(602.0));
        assert!(view.overflows_seen == 0 && view.rate_per_hour < 100.0, "{view:?}");
        longer.started(1, at(605.0));
        longer.observe(1, &aged(98, vec![Duration::from_secs(1); 98]), at(605.0));
        assert_eq!(longer.view(1, at(605.0)).overflows_seen, 1, "the next page counts");
    }
}

#[test]
fn hundreds_of_routes_with_a_long_fixed_interval_are_polled_so_seldom() {
    let schedule = Schedule::new(vec![fixed(86_400); 600], 45.0, at(0.0));
    let guarantees: Vec<f64> = (0..600).map(|poller| schedule.guarantee(poller)).collect();
    assert!(guarantees.iter().all(|guarantee| *guarantee >= 86_400.0), "{guarantees:?}");
    assert!(schedule.pollers.iter().all(|poller| poller.reserved.is_none()));
}

#[test]
fn a_short_max_interval_is_kept_while_another_client_makes_the_pace_vary() {
    let mut all = vec![settings(); 6];
    all[0].max_interval = Duration::from_secs(5);
    let mut schedule = Schedule::new(all, 45.0, at(0.0));
    let mut chance = fastrand::Rng::with_seed(1);
    let (mut now, mut before, mut polls) = (0.0, 0.0, 0);
    while now < 7200.0 {
        match schedule.next(at(now)) {
            Next::Poll(poller) => {
                if poller == 0 {
                    assert!(now - before <= 5.01, "{} after {now}", now - before);
                    (before, polls) = (now, polls + 1);
                }
                schedule.started(poller, at(now));
                schedule.observe(poller, &PollResult::Unchanged, at(now));
            }
            Next::WaitUntil(until) => now = until.as_secs_f64(),
            Next::Idle => unreachable!("nothing is in flight"),
        }
        schedule.set_pace(36.5 + 8.0 * chance.f64(), at(now));
    }
    assert!(polls > 1440, "{polls} polls");
}
