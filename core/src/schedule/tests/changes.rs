//! What a change of the pace or of the configuration does to the guarantees and the plan.

use super::property::mixed;
use super::*;

const SLOT: f64 = 60.5 / 45.0;

/// The part of the budget that the planned intervals use.
fn planned(schedule: &Schedule, now: f64) -> f64 {
    let views = (0..schedule.pollers.len()).map(|poller| schedule.status(poller, at(now)));
    views
        .map(|view| schedule.slots.length() / view.interval_s)
        .sum()
}

/// Polls whenever the schedule says so; each poll must keep the guarantee that was shown when it
/// was sent. Gives the number of polls.
fn keeps_what_it_shows(schedule: &mut Schedule, last: &mut [f64], from: f64, to: f64) -> usize {
    let (mut now, mut polls) = (from, 0);
    while now < to {
        match schedule.next(at(now)) {
            Next::Poll(poller) => {
                let (waited, guarantee) = (now - last[poller], schedule.guarantee(poller));
                let one = &schedule.pollers[poller];
                // A fixed interval without slots of its own can need that of another poller.
                let waits_for_slot = one.is_fixed() && one.reserved.is_none();
                let slack = if waits_for_slot {
                    schedule.slots.length()
                } else {
                    0.01
                };
                assert!(
                    waited <= guarantee + slack,
                    "{poller} waited {waited} of {guarantee} at {now}"
                );
                read(schedule, poller, now, &PollResult::Unchanged);
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
fn beside_other_clients_no_wait_of_a_tight_configuration_is_longer_than_the_guarantee_shown() {
    for seed in seeds(30) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let a_minute = chance.usize(5..61);
        let (all, _) = mixed(&mut chance, a_minute);
        // No poll before the first one.
        let mut last = vec![f64::INFINITY; all.len()];
        let mut schedule = Schedule::new(all, a_minute as f64, at(0.0));
        let mut now = 0.0;
        for _ in 0..60 {
            let until = now + 60.0 * chance.f64();
            keeps_what_it_shows(&mut schedule, &mut last, now, until);
            let shown: Vec<f64> = (0..last.len())
                .map(|place| schedule.guarantee(place))
                .collect();
            schedule.set_pace(a_minute as f64 * (0.2 + 0.8 * chance.f64()), at(until));
            for (place, shown) in shown.into_iter().enumerate() {
                assert!(
                    schedule.guarantee(place) >= shown,
                    "seed {seed}: {place} at {until}"
                );
            }
            now = until;
        }
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
        let same = all
            .iter()
            .cloned()
            .enumerate()
            .map(|(place, one)| (one, Some(place)));
        schedule = schedule.reconfigured(same, 45.0, at(to));
        assert_eq!(
            [schedule.guarantee(0), schedule.guarantee(3)],
            [4.0, 7.0],
            "after {to} s"
        );
    }
}

#[test]
fn fixed_intervals_that_the_budget_cannot_keep_are_planned_as_they_are_polled() {
    let mut schedule = Schedule::new(vec![fixed(5); 6], 45.0, at(0.0));
    for poller in 0..6 {
        assert!(
            schedule.status(poller, at(0.0)).guarantee_s > 5.0,
            "{:?}",
            schedule.guarantee(poller)
        );
    }
    let polls = drive(&mut schedule, 0.0, 600.0, 60.5 / 45.0, |_, _| {
        PollResult::Unchanged
    });
    for poller in 0..6 {
        let (view, waited) = (schedule.status(poller, at(600.0)), longest(&polls, poller));
        assert!(waited <= view.guarantee_s + 0.01, "{waited} of {view:?}");
        assert!(
            (view.interval_s - 8.07).abs() < 0.05 && !view.at_risk,
            "{view:?}"
        );
        assert!(view.reason.contains("the budget is too small"), "{view:?}");
    }
}

#[test]
fn longer_pages_show_older_records_and_no_import() {
    for is_restart in [false, true] {
        let short = PollerSettings {
            limit: 20,
            ..settings()
        };
        let mut schedule = Schedule::new(vec![short; 2], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 600.0, SLOT, |_, _| {
            PollResult::Unchanged
        });
        let mut longer = if is_restart {
            let mut other = Schedule::new(vec![settings(); 2], 45.0, at(601.0));
            (0..2).for_each(|poller| other.restore(poller, &schedule.learned(poller), at(601.0)));
            other
        } else {
            let same = (0..2).map(|place| (settings(), Some(place)));
            schedule.reconfigured(same, 45.0, at(601.0))
        };
        read(
            &mut longer,
            1,
            602.0,
            &aged(80, vec![Duration::from_secs(9000); 80]),
        );
        let view = longer.status(1, at(602.0));
        assert!(
            overflow_events(&longer, 1) == 0 && view.rate_per_hour < 100.0,
            "{view:?}"
        );
        read(
            &mut longer,
            1,
            605.0,
            &aged(98, vec![Duration::from_secs(1); 98]),
        );
        assert_eq!(overflow_events(&longer, 1), 1, "the next page counts");
    }
}
