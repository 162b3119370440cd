//! When a scheduled report is due, in the shop's time zone. Pure.
//!
//! Each time of a day comes once: one that the change to summer time leaves out is the same distance later,
//! and of two the first counts.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::config::Day;

/// A time that passed longer ago, while the daemon was off, is left out.
const LATEST: SignedDuration = SignedDuration::from_hours(24);

/// The wait between attempts of one that fails.
const RETRY: SignedDuration = SignedDuration::from_mins(10);

/// The last runs of one scheduled report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRun {
    /// The latest time for which it was made. At first, when it was first seen in the
    /// configuration.
    pub settled_at: Timestamp,
    /// How many were made.
    pub made: i64,
    /// When it was tried last, if that failed.
    pub failed_at: Option<Timestamp>,
    /// How often it failed since the last one was made.
    pub failures: u32,
    /// Why.
    pub error: Option<String>,
}

impl ReportRun {
    /// One that is seen for the first time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            settled_at: now,
            ..Self::default()
        }
    }

    /// The time for which the last one was made.
    #[must_use]
    pub fn made_for(&self) -> Option<Timestamp> {
        (self.made > 0).then_some(self.settled_at)
    }

    /// Notes that it was made for a time.
    pub fn note_made(&mut self, due: Timestamp) {
        *self = Self {
            made: self.made + 1,
            ..Self::new(due)
        };
    }

    /// Notes that an attempt has failed.
    pub fn note_failed(&mut self, now: Timestamp, why: String) {
        self.failed_at = Some(now);
        self.error = Some(why);
        self.failures += 1;
    }
}

/// The days and the times of a scheduled report.
#[derive(Debug, Clone)]
pub struct Timetable<'a> {
    /// The times of day.
    pub at: &'a [Time],
    /// The days of the week; empty for all.
    pub days: &'a [Day],
    /// The shop's time zone.
    pub zone: &'a TimeZone,
}

impl Timetable<'_> {
    /// The first time after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Timestamp {
        let today = after.to_zoned_datetime(self.zone.clone()).date();
        for days in -1..=9_i32 {
            let Ok(day) = today.checked_add(days.days()) else {
                continue;
            };
            if let Some(next) = self.times_of(day).into_iter().find(|time| *time > after) {
                return next;
            }
        }
        Timestamp::MAX
    }

    /// The times of one day, the earliest first; none if it is not one of the days.
    fn times_of(&self, day: Date) -> Vec<Timestamp> {
        let mut times = Vec::new();
        if !self.days.is_empty() && !self.days.contains(&Day(day.weekday())) {
            return times;
        }
        for at in self.at {
            let time = day.to_datetime(*at).to_zoned_datetime(self.zone.clone());
            if let Ok(time) = time {
                times.push(time.timestamp());
            }
        }
        // Where clocks change, a later time may come earlier.
        times.sort_unstable();
        times
    }

    /// The time for which one is made next, and when; what is to be made now has a time up to
    /// `now`.
    #[must_use]
    pub fn due(&self, run: &ReportRun, now: Timestamp) -> (Timestamp, Timestamp) {
        // A time far ahead was noted while the clock was wrong, and says nothing.
        let is_believed = run.settled_at.duration_since(now) < LATEST;
        let oldest = now - LATEST;
        let mut due = self.next(if is_believed {
            run.settled_at.max(oldest)
        } else {
            oldest
        });
        // Of several times that passed while the daemon was off, the last one counts.
        while self.next(due) <= now {
            due = self.next(due);
        }
        match run.failed_at {
            Some(at) if due <= now && at <= now => (due, at + RETRY),
            _ => (due, due),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::Weekday;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(time: &str, days: &[Day], after: &str) -> Timestamp {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        Timetable {
            at: &[time.parse().unwrap()],
            days,
            zone: &zone,
        }
        .next(at(after))
    }

    #[test]
    fn a_report_is_due_at_its_time_on_its_days() {
        let every = |after| next("07:30", &[], after);
        assert_eq!(every("2026-11-20T05:00:00Z"), at("2026-11-20T06:30:00Z"));
        assert_eq!(
            every("2026-11-20T06:30:00Z"),
            at("2026-11-21T06:30:00Z"),
            "strictly after"
        );
        let mondays = [Day(Weekday::Monday)];
        assert_eq!(
            next("07:30", &mondays, "2026-11-23T06:30:00Z"),
            at("2026-11-30T06:30:00Z")
        );
    }

    #[test]
    fn a_report_with_several_times_is_due_at_each() {
        let table = Timetable {
            at: &[Time::constant(9, 0, 0, 0), Time::constant(17, 0, 0, 0)],
            days: &[],
            zone: &TimeZone::UTC,
        };
        let mut last = at("2026-11-20T08:00:00Z");
        for due in [
            "2026-11-20T09:00:00Z",
            "2026-11-20T17:00:00Z",
            "2026-11-21T09:00:00Z",
        ] {
            last = table.next(last);
            assert_eq!(last, at(due));
        }
        let run = ReportRun::new(at("2026-11-20T08:00:00Z"));
        let (due, _) = table.due(&run, at("2026-11-20T18:00:00Z"));
        assert_eq!(
            due,
            at("2026-11-20T17:00:00Z"),
            "of two that passed, the last"
        );
    }

    #[test]
    fn a_time_that_the_clocks_leave_out_or_show_twice_is_due_once() {
        let night = |after| next("02:30", &[], after);
        assert_eq!(
            night("2026-03-28T12:00:00Z"),
            at("2026-03-29T01:30:00Z"),
            "left out"
        );
        assert_eq!(night("2026-03-29T01:30:00Z"), at("2026-03-30T00:30:00Z"));
        assert_eq!(
            night("2026-10-24T12:00:00Z"),
            at("2026-10-25T00:30:00Z"),
            "the first of two"
        );
        assert_eq!(
            night("2026-10-25T00:30:00Z"),
            at("2026-10-26T01:30:00Z"),
            "not the second"
        );
        for zone in ["Europe/Berlin", "Pacific/Apia", "Asia/Beirut"] {
            let zone = TimeZone::get(zone).unwrap();
            let table = Timetable {
                at: &[Time::constant(0, 30, 0, 0)],
                days: &[],
                zone: &zone,
            };
            let mut last = at("2011-12-01T00:00:00Z");
            for _ in 0..6_000 {
                let due = table.next(last);
                assert!(
                    (0..=25).contains(&due.duration_since(last).as_hours()),
                    "{last} {zone:?}"
                );
                assert_eq!(table.due(&ReportRun::new(last), due).0, due, "{zone:?}");
                last = due;
            }
        }
    }

    #[test]
    fn one_that_fails_is_tried_again_until_a_day_has_passed() {
        let due = at("2026-11-20T07:30:00Z");
        let table = Timetable {
            at: &[Time::constant(7, 30, 0, 0)],
            days: &[],
            zone: &TimeZone::UTC,
        };
        let mut run = ReportRun::new(at("2026-11-20T07:00:00Z"));
        assert_eq!(table.due(&run, run.settled_at), (due, due));
        run.note_failed(due, "a reason".to_owned());
        assert_eq!(table.due(&run, due), (due, due + RETRY));
        let next = at("2026-11-21T07:30:00Z");
        let (of, when) = table.due(&run, next);
        assert!(
            of == next && when <= next,
            "the next day it is made for that"
        );
        run.note_made(next);
        assert_eq!((run.made_for(), run.failures), (Some(next), 0));
        assert_eq!(table.due(&run, next).0, at("2026-11-22T07:30:00Z"));
    }
}
