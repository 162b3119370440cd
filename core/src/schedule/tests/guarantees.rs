//! What a search and an overflow event do to the guarantees, and what `max_interval` promises.

use super::*;

const SLOT: f64 = 60.5 / 45.0;

/// A page that proves an overflow event: nearly a hundred records in ten seconds.
fn overflow_event() -> PollResult {
    aged(
        98,
        (0..98)
            .map(|k| Duration::from_secs_f64(f64::from(k) / 10.0))
            .collect(),
    )
}

#[test]
fn the_example_of_the_sure_slots_is_right() {
    // Slots begin every second. A is ready again at 2 s, B at 1 s, C at once.
    let mut schedule = Schedule::new(vec![settings(); 3], 60.5, at(0.0));
    schedule.started(0, at(0.0));
    schedule.pollers[0].in_flight = None;
    for (poller, last_sent, deadline) in [(1, -1.0, 3.0), (2, -2.0, 5.0)] {
        schedule.pollers[poller].last_sent = last_sent;
        schedule.pollers[poller].guarantee = deadline - last_sent;
    }
    let sure = schedule.sure_slots(0, 0.0);
    assert!((sure.latest - 3.0).abs() < 1e-6, "{sure:?}");
    assert!((sure.after_that - 4.0).abs() < 1e-6, "{sure:?}");
}

#[test]
fn while_a_search_waits_each_guarantee_is_one_slot_longer_within_max_interval() {
    let slot = 60.5 / 20.0;
    let short = PollerSettings {
        max_interval: Duration::from_secs(31),
        ..settings()
    };
    let mut all = vec![settings(); 5];
    all.push(short);
    let mut schedule = Schedule::new(all, 20.0, at(0.0));
    drive(&mut schedule, 0.0, 600.0, slot, |_, _| {
        PollResult::Unchanged
    });
    for (poller, usual, longer) in [(0, 24.0 * slot, 25.0 * slot), (5, 31.0, 31.0)] {
        let now = 600.0 + 60.0 * poller as f64;
        remember(
            &mut schedule,
            poller,
            "quiet_time",
            (8.0 * 86_400.0).into(),
            now,
        );
        read(&mut schedule, poller, now, &PollResult::Unchanged);
        let alone = schedule.guarantee(poller);
        assert!((alone - usual).abs() < 0.05, "{alone} for {poller}");
        schedule.set_background(true);
        read(&mut schedule, poller, now + 30.0, &PollResult::Unchanged);
        let beside = schedule.guarantee(poller);
        assert!(
            (beside - longer).abs() < 0.05,
            "{beside} in place of {alone} for {poller}"
        );
        schedule.set_background(false);
    }
}

#[test]
fn an_overflow_event_sets_the_guarantee_back_to_its_beginning() {
    // Polling in turn takes 8.07 s or 12.1 s; ten seconds are safe enough to begin with. Beside
    // calm routes the beginning is polling in turn: enough is left to follow an import.
    let cases = [
        (45.0, 10.0, 10.0, 0.0),
        (45.0, 10.0, 8.07, 8.0),
        (30.0, 12.1, 12.1, 8.0),
    ];
    for (budget, beginning, later, days) in cases {
        let mut schedule = Schedule::new(vec![settings(); 6], budget, at(0.0));
        let pass = |schedule: &mut Schedule, from: f64, mut events: u32| {
            drive(schedule, from, from + 60.0, 60.5 / budget, |poller, _| {
                let is_event = poller == 2 && std::mem::take(&mut events) > 0;
                if is_event {
                    overflow_event()
                } else {
                    PollResult::Unchanged
                }
            });
            schedule.guarantee(2)
        };
        assert!((pass(&mut schedule, 0.0, 0) - beginning).abs() < 0.01);
        for place in [0, 1, 3, 4, 5] {
            remember(
                &mut schedule,
                place,
                "quiet_time",
                (days * 86_400.0).into(),
                60.0,
            );
        }
        for now in [60.0, 180.0, 300.0] {
            remember(&mut schedule, 2, "quiet_time", (8.0 * 86_400.0).into(), now);
            let calm = pass(&mut schedule, now, 0);
            assert!(calm > 1.3 * beginning, "{calm} at {now}");
            let after = pass(&mut schedule, now + 60.0, 1);
            assert!(
                (after - later).abs() < 0.15,
                "{after} at {now}, not {later}"
            );
        }
    }
}

#[test]
fn after_each_further_overflow_event_the_guarantee_grows_half_as_fast() {
    let mut schedule = Schedule::new(vec![settings(); 6], 30.0, at(0.0));
    drive(&mut schedule, 0.0, 60.0, 60.5 / 30.0, |_, _| {
        PollResult::Unchanged
    });
    let mut now = 100.0;
    for (overflow_events, weeks) in [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0)] {
        for part in [0.25, 0.5, 1.0] {
            now += 100.0;
            remember(
                &mut schedule,
                2,
                "overflow_events",
                overflow_events.into(),
                now,
            );
            remember(
                &mut schedule,
                2,
                "quiet_time",
                (part * weeks * 7.0 * 86_400.0).into(),
                now,
            );
            read(&mut schedule, 2, now, &PollResult::Unchanged);
            let (guarantee, wanted) = (schedule.guarantee(2), 12.1 * (1.0 + 3.0 * part));
            assert!(
                (guarantee - wanted).abs() < 0.01,
                "{guarantee}, not {wanted}, {overflow_events}"
            );
        }
    }
}

#[test]
fn time_whose_records_were_not_all_seen_is_no_quiet_time() {
    for (contiguous, grown) in [(true, true), (false, false)] {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 60.0, SLOT, |_, _| PollResult::Unchanged);
        let learned = schedule.learned(0);
        let week = 60.0 + 7.0 * 86_400.0;
        let mut later = Schedule::new(vec![settings(); 6], 45.0, at(week));
        later.restore(0, &learned, at(week));
        let page = Observation {
            records: 100,
            new: 100,
            contiguous,
            ages: Vec::new(),
        };
        read(&mut later, 0, week + 1.0, &PollResult::Page(page));
        read(&mut later, 0, week + 20.0, &PollResult::Unchanged);
        let guarantee = later.guarantee(0);
        assert_eq!(guarantee > 20.0, grown, "{guarantee} s after a week away");
    }
}
