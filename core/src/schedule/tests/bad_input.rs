//! Ages and texts that cannot be true, and what is an overflow event.

use super::*;

#[test]
fn a_page_that_fills_fast_is_an_overflow_event_and_records_that_came_at_once_are_none() {
    let hour = Duration::from_secs(3600);
    // An employee marked so many repairs as finished.
    let at_once = |new: usize| vec![Duration::from_millis(300); new];
    let within = |seconds: f64| -> Vec<Duration> {
        (0..98)
            .map(|k| Duration::from_secs_f64(0.1 + seconds * f64::from(k) / 97.0))
            .collect()
    };
    for (new, ages, is_overflow_event, is_at_risk) in [
        // By their count, where ages cannot be true.
        (98, Vec::new(), true, true),
        (98, vec![hour; 50], true, true),
        (98, vec![hour * 9000; 100], true, true),
        (98, vec![Duration::MAX; 100], true, true),
        (98, within(8.0), true, true),
        // It was kept although it filled at once.
        (98, within(1.0), true, false),
        (60, at_once(60), false, false),
        (20, at_once(20), false, false),
        (8, at_once(8), false, false),
        (7, at_once(7), false, false),
    ] {
        let mut schedule = Schedule::new(vec![settings(); 6], 45.0, at(0.0));
        drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| {
            PollResult::Unchanged
        });
        let [before, other] = [2, 0].map(|poller| schedule.guarantee(poller));
        let first = ages.first().copied();
        read(&mut schedule, 2, 121.0, &aged(new, ages));
        let view = schedule.status(2, at(121.0));
        assert_eq!(
            overflow_events(&schedule, 2),
            usize::from(is_overflow_event),
            "{new} of {first:?}: {view:?}"
        );
        if is_at_risk {
            assert!(
                schedule.guarantee(2) < before,
                "{new} of {first:?}: {view:?}"
            );
            assert!(
                view.reason.contains("import of about"),
                "{new} of {first:?}: {view:?}"
            );
        } else if !is_overflow_event {
            assert!(
                !view.reason.contains("import"),
                "{new} of {first:?}: {view:?}"
            );
        }
        drive(&mut schedule, 122.0, 140.0, 60.5 / 45.0, |_, _| {
            PollResult::Unchanged
        });
        let after = schedule.guarantee(0);
        assert!(
            is_overflow_event || after < other + 0.1,
            "{after} in place of {other} for another route"
        );
        drive(&mut schedule, 140.0, 3600.0, 60.5 / 45.0, |_, _| {
            PollResult::Unchanged
        });
        let view = schedule.status(2, at(3600.0));
        assert_eq!(
            view.at_risk, is_at_risk,
            "{new} of {first:?} an hour later: {view:?}"
        );
    }
}

#[test]
fn what_was_learned_survives_a_restart_and_other_text_is_ignored() {
    let mut schedule = Schedule::new(vec![settings()], 30.0, at(0.0));
    drive(&mut schedule, 0.0, 86_400.0, 2.02, |_, now| {
        if now as u64 % 30 < 3 {
            page(1)
        } else {
            PollResult::Unchanged
        }
    });
    let learned = schedule.learned(0);
    let before = schedule.status(0, at(86_400.0));
    let mut restarted = Schedule::new(vec![settings()], 30.0, at(86_400.0));
    let old =
        r#"{"version":1,"read":1,"slow":[1,2],"fast":[1,2],"burst":[0,0],"mean":[1,2],"hours":[]}"#;
    for other in ["", "{}", "null", old, "\u{0}"] {
        let fresh = restarted.learned(0);
        restarted.restore(0, other, at(86_400.0));
        assert_eq!(restarted.learned(0), fresh, "{other}");
    }
    restarted.restore(0, &learned, at(86_400.0));
    let after = restarted.status(0, at(86_400.0));
    assert!(
        (after.rate_per_hour / before.rate_per_hour - 1.0).abs() < 0.1,
        "{before:?} {after:?}"
    );
    assert!(
        (after.guarantee_s / before.guarantee_s - 1.0).abs() < 0.01,
        "{before:?} {after:?}"
    );
}

#[test]
fn one_record_is_no_overflow_event_however_few_a_page_holds() {
    for (limit, enough) in [(1, 2), (2, 2), (3, 2), (4, 3), (6, 4), (10, 7), (100, 97)] {
        for (new, expected) in [(enough - 1, 0), (enough, 1)] {
            let small = PollerSettings {
                limit,
                ..settings()
            };
            let mut schedule = Schedule::new(vec![small; 2], 45.0, at(0.0));
            drive(&mut schedule, 0.0, 120.0, 60.5 / 45.0, |_, _| {
                PollResult::Unchanged
            });
            for now in 0..new {
                let now = 121.0 + 3.0 * f64::from(now) / f64::from(enough);
                let ages = vec![Duration::from_millis(300)];
                let page = Observation {
                    records: 1,
                    new: 1,
                    contiguous: true,
                    ages,
                };
                read(&mut schedule, 1, now, &PollResult::Page(page));
            }
            assert_eq!(
                overflow_events(&schedule, 1),
                expected,
                "{new} records, {limit} on a page"
            );
        }
    }
}
