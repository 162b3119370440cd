//! Clocks, ages and texts that cannot be true.

use super::*;

#[test]
fn ages_that_cannot_be_true_count_as_none() {
    let hour = Duration::from_secs(3600);
    let none = Vec::new();
    let mut without = None;
    for ages in [none, vec![Duration::ZERO; 100], vec![hour * 9000; 100], vec![Duration::MAX; 100]]
    {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        let mut last = [0.0; 6];
        let polls = drive(&mut schedule, 0.0, 7200.0, 60.5 / 45.0, |poller, now| {
            let from = std::mem::replace(&mut last[poller], now);
            // One route has a burst in each ten minutes, which ages could show as an import.
            let burst = if poller == 2 { 40 * steady(1.0 / 600.0, from, now) } else { 0 };
            let new = steady(0.2, from, now) + burst;
            if new == 0 { PollResult::Unchanged } else { aged(new, ages.clone()) }
        });
        for poller in 0..6 {
            let (guarantee, waited) = (schedule.guarantee(poller), longest(&polls, poller));
            assert!(
                waited <= guarantee.max(10.1),
                "{waited} beside {guarantee} with {:?}",
                ages.first()
            );
        }
        let rate = schedule.view(0, at(7200.0)).rate_per_hour;
        assert!((500.0..1000.0).contains(&rate), "{rate} an hour with {:?}", ages.first());
        // An age of zero can be true. The others change nothing.
        if ages.first().is_none_or(|age| !age.is_zero()) {
            let polls_without = without.get_or_insert_with(|| polls.clone());
            assert!(polls == *polls_without, "polled otherwise with {:?}", ages.first());
        }
    }
}

#[test]
fn a_page_that_fills_fast_is_a_danger_by_its_count_where_ages_cannot_be_true() {
    let hour = Duration::from_secs(3600);
    for ages in [Vec::new(), vec![hour; 50], vec![hour * 9000; 100], vec![Duration::MAX; 100]] {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
        let before = schedule.guarantee(2);
        schedule.started(2, at(121.0));
        schedule.observe(2, &aged(98, ages.clone()), at(121.0));
        let (view, first) = (schedule.view(2, at(121.0)), ages.first());
        assert!(schedule.guarantee(2) < before, "{view:?} with {first:?}");
        assert_eq!(view.overflows_seen, 1, "{view:?} with {first:?}");
        assert!(view.reason.contains("import of about"), "{view:?} with {first:?}");
    }
}

#[test]
fn clock_steps_and_strange_pages_do_no_harm() {
    let mut schedule = Schedule::new(vec![settings(); 2], 30.0, at(0.0));
    let (mut now, mut polls) = (0.0, 0);
    for step in 0..3000 {
        let hours = [0, 24, -24, 400_000][step % 4];
        let wall = at(now).wall + jiff::SignedDuration::from_hours(hours);
        let moment = Moment { wall, ..at(now) };
        match schedule.next(moment) {
            Next::Poll(poller) => {
                polls += 1;
                schedule.started(poller, moment);
                let outcome = PollResult::Page(Observation {
                    records: 100,
                    new: [0, 1, 100, u32::MAX][step % 4],
                    contiguous: step % 3 == 0,
                    ages: vec![[Duration::ZERO, Duration::MAX][step % 2]; step % 120],
                });
                now += 0.5;
                schedule.observe(poller, &outcome, moment);
            }
            Next::WaitUntil(until) => now = until.as_secs_f64(),
            Next::Idle => unreachable!("nothing is in flight"),
        }
        let view = schedule.view(step % 2, moment);
        // At most a page of 100 came in each slot of two seconds.
        assert!(view.rate_per_hour < 180_000.0 && view.interval_s.is_finite(), "{view:?}");
    }
    assert!(polls > 100, "{polls} polls in {now} s");
}

#[test]
fn what_was_learned_survives_a_restart_and_other_text_is_ignored() {
    let mut schedule = Schedule::new(vec![settings()], 30.0, at(0.0));
    drive(&mut schedule, 0.0, 86_400.0, 2.02, |_, now| {
        if now as u64 % 30 < 3 { page(1) } else { PollResult::Unchanged }
    });
    let learned = schedule.learned(0);
    let before = schedule.view(0, at(86_400.0));
    let mut restarted = Schedule::new(vec![settings()], 30.0, at(86_400.0));
    let old =
        r#"{"version":1,"read":1,"slow":[1,2],"fast":[1,2],"burst":[0,0],"mean":[1,2],"hours":[]}"#;
    let negative = learned.replace("\"calm\":", "\"calm\":-");
    assert_ne!(negative, learned);
    for other in ["", "{}", "null", old, "\u{0}", &learned.replace("0.", "1e300"), &negative] {
        let fresh = restarted.learned(0);
        restarted.restore(0, other, at(86_400.0));
        assert_eq!(restarted.learned(0), fresh, "{other}");
    }
    restarted.restore(0, &learned, at(86_400.0));
    let after = restarted.view(0, at(86_400.0));
    assert!((after.rate_per_hour / before.rate_per_hour - 1.0).abs() < 0.1, "{before:?} {after:?}");
    assert!((after.guarantee_s / before.guarantee_s - 1.0).abs() < 0.01, "{before:?} {after:?}");
    assert!((after.watched_s - before.watched_s).abs() < 5.0, "{before:?} {after:?}");
}

#[test]
fn records_that_came_at_once_are_no_import() {
    for new in [7, 8, 20, 60] {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
        let others = schedule.guarantee(0);
        schedule.started(2, at(121.0));
        // An employee marked so many repairs as finished.
        schedule.observe(2, &aged(new, vec![Duration::from_millis(300); new as usize]), at(121.0));
        let view = schedule.view(2, at(121.0));
        assert!(!view.at_risk && !view.reason.contains("import"), "{view:?}");
        drive(&mut schedule, 122.0, 140.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
        let after = schedule.guarantee(0);
        assert!(after < others + 0.1, "{after} in place of {others} for another route");
    }
}

#[test]
fn a_page_that_filled_at_once_and_was_kept_is_no_risk_for_a_week() {
    for (took, at_risk) in [(1.0, false), (8.0, true)] {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
        let age = |place: u32| Duration::from_secs_f64(0.1 + took * f64::from(place) / 97.0);
        schedule.started(2, at(121.0));
        schedule.observe(2, &aged(98, (0..98).map(age).collect()), at(121.0));
        drive(&mut schedule, 122.0, 3600.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
        let view = schedule.view(2, at(3600.0));
        assert!(view.at_risk == at_risk && view.overflows_seen == 1, "{took}: {view:?}");
    }
}

#[test]
fn one_record_is_no_danger_however_few_a_page_holds() {
    for (limit, enough) in [(1, 2), (2, 2), (3, 2), (4, 3), (6, 4), (10, 7), (100, 97)] {
        for (new, dangers) in [(enough - 1, 0), (enough, 1)] {
            let small = PollerSettings { limit, ..settings() };
            let mut schedule = Schedule::new(vec![small; 2], 45.0, at(0.0));
            drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| PollResult::Unchanged);
            for now in 0..new {
                let now = at(121.0 + 3.0 * f64::from(now) / f64::from(enough));
                schedule.started(1, now);
                let ages = vec![Duration::from_millis(300)];
                let page = Observation { records: 1, new: 1, contiguous: true, ages };
                schedule.observe(1, &PollResult::Page(page), now);
            }
            let view = schedule.view(1, at(125.0));
            assert_eq!(view.overflows_seen, dangers, "{new} records, {limit} on a page: {view:?}");
        }
    }
}
