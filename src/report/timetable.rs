//! When a scheduled report is due, in the shop's time zone. Pure.
//!
//! Each day has one time: one that the change to summer time leaves out is the same distance later, and of
//! two the first counts.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use super::period::{Period, PeriodError};
use super::range::{Range, monday_of};
use crate::config::{Day, ReportPeriod};

/// A time that passed longer ago, while the daemon was off, is left out.
const LATEST: SignedDuration = SignedDuration::from_hours(24);

/// The waits between attempts of one that fails; after the last it is given up.
const WAITS: [SignedDuration; 5] = [
    SignedDuration::from_mins(1),
    SignedDuration::from_mins(5),
    SignedDuration::from_mins(15),
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(3),
];

/// What became of one scheduled report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRun {
    /// The latest time that is settled: the report was made or given up. At first, when it was first
    /// seen in the configuration.
    pub settled_at: Timestamp,
    /// The time for which the last one was made.
    pub made_for: Option<Timestamp>,
    /// How many were made.
    pub made: i64,
    /// The time for which it was tried last without success.
    pub failed_for: Option<Timestamp>,
    /// When it was tried last without success.
    pub failed_at: Option<Timestamp>,
    /// How often it failed for that time.
    pub failures: u32,
    /// Why; kept until one is made.
    pub error: Option<String>,
}

impl ReportRun {
    /// One that is seen for the first time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { settled_at: now, ..Self::default() }
    }
}

/// What to do about a scheduled report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportStep {
    /// Make it for this time.
    Make(Timestamp),
    /// Nothing before this time.
    Wait(Timestamp),
}

/// Notes that a report was made for a time.
pub fn note_made(run: &mut ReportRun, due: Timestamp) {
    *run = ReportRun { made_for: Some(due), made: run.made + 1, ..ReportRun::new(due) };
}

/// Notes that an attempt for a time has failed; returns whether it will be tried again.
pub fn note_failed(run: &mut ReportRun, due: Timestamp, now: Timestamp, why: String) -> bool {
    if run.failed_for != Some(due) {
        run.failures = 0;
    }
    run.failures += 1;
    (run.failed_for, run.failed_at, run.error) = (Some(due), Some(now), Some(why));
    let is_again = run.failures as usize <= WAITS.len();
    if !is_again {
        run.settled_at = due;
    }
    is_again
}

/// The days and the time of a scheduled report.
#[derive(Debug, Clone)]
pub struct Timetable<'a> {
    /// The time of day.
    pub at: Time,
    /// The days of the week; empty for all.
    pub days: &'a [Day],
    /// The shop's time zone.
    pub zone: &'a TimeZone,
}

impl Timetable<'_> {
    /// The first time after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Timestamp {
        self.around(after, -1..=9).find(|due| *due > after).unwrap_or(Timestamp::MAX)
    }

    /// The latest time up to `now` that is after `handled` and less than a day ago: what has to be
    /// made now.
    #[must_use]
    pub fn missed(&self, handled: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let due = self.around(now, -9..=1).filter(|due| *due <= now).last()?;
        (due > handled && now.duration_since(due) < LATEST).then_some(due)
    }

    /// What to do now about a scheduled report.
    #[must_use]
    pub fn step(&self, run: &ReportRun, now: Timestamp) -> ReportStep {
        // A time far ahead was noted while the clock was wrong, and says nothing.
        let is_believed = run.settled_at.duration_since(now) < LATEST;
        let settled = if is_believed { run.settled_at } else { now - LATEST };
        let Some(due) = self.missed(settled, now) else {
            return ReportStep::Wait(self.next(now.max(settled)));
        };
        let failed = run.failed_at.filter(|_| run.failed_for == Some(due));
        let waits = usize::try_from(run.failures).unwrap_or(usize::MAX);
        match failed.zip(waits.checked_sub(1).and_then(|index| WAITS.get(index))) {
            Some((at, wait)) if now < at + *wait && at <= now => ReportStep::Wait(at + *wait),
            _ => ReportStep::Make(due),
        }
    }

    /// The times of the days around a moment, in order.
    fn around(
        &self,
        moment: Timestamp,
        days: std::ops::RangeInclusive<i32>,
    ) -> impl Iterator<Item = Timestamp> {
        let today = moment.to_zoned(self.zone.clone()).date();
        days.filter_map(move |days| {
            let day = today.checked_add(days.days()).ok()?;
            let is_wanted = self.days.is_empty() || self.days.contains(&Day(day.weekday()));
            let at = is_wanted.then(|| day.to_datetime(self.at).to_zoned(self.zone.clone()))?;
            Some(at.ok()?.timestamp())
        })
    }
}

/// The days that a scheduled report is about, if it is made for `today`.
///
/// # Errors
/// [`PeriodError`] at the ends of the calendar.
pub fn period_of(period: ReportPeriod, today: Date) -> Result<Period, PeriodError> {
    let back = |days: i64| today.saturating_sub(days.days());
    let (from, to) = match period {
        ReportPeriod::Today => (today, today),
        ReportPeriod::Yesterday => (back(1), back(1)),
        ReportPeriod::Last7Days => (back(7), back(1)),
        ReportPeriod::Last30Days => (back(29), today),
        ReportPeriod::LastWeek => {
            let monday = monday_of(back(7));
            (monday, monday.saturating_add(6.days()))
        }
        ReportPeriod::LastMonth => {
            let Period { from, to } = Range::LastMonth.days(today);
            (from, to)
        }
    };
    Period::new(Some(from), Some(to), today)
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
        Timetable { at: time.parse().unwrap(), days, zone: &zone }.next(at(after))
    }

    #[test]
    fn a_report_is_due_at_its_time_on_its_days() {
        let every = |after| next("07:30", &[], after);
        assert_eq!(every("2026-11-20T05:00:00Z"), at("2026-11-20T06:30:00Z"));
        assert_eq!(every("2026-11-20T06:30:00Z"), at("2026-11-21T06:30:00Z"), "strictly after");
        let mondays = [Day(Weekday::Monday)];
        assert_eq!(next("07:30", &mondays, "2026-11-23T06:30:00Z"), at("2026-11-30T06:30:00Z"));
    }

    #[test]
    fn a_time_that_the_clocks_leave_out_or_show_twice_is_due_once() {
        let night = |after| next("02:30", &[], after);
        assert_eq!(night("2026-03-28T12:00:00Z"), at("2026-03-29T01:30:00Z"), "left out");
        assert_eq!(night("2026-03-29T01:30:00Z"), at("2026-03-30T00:30:00Z"));
        assert_eq!(night("2026-10-24T12:00:00Z"), at("2026-10-25T00:30:00Z"), "the first of two");
        assert_eq!(night("2026-10-25T00:30:00Z"), at("2026-10-26T01:30:00Z"), "not the second");
        for zone in ["Europe/Berlin", "Pacific/Apia", "Asia/Beirut"] {
            let zone = TimeZone::get(zone).unwrap();
            let table = Timetable { at: Time::constant(0, 30, 0, 0), days: &[], zone: &zone };
            let mut last = at("2011-12-01T00:00:00Z");
            for _ in 0..6_000 {
                let due = table.next(last);
                assert!((0..=25).contains(&due.duration_since(last).as_hours()), "{last} {zone:?}");
                assert_eq!(table.missed(last, due), Some(due), "{due} {zone:?}");
                last = due;
            }
        }
    }

    #[test]
    fn the_days_of_a_scheduled_report_are_seen_from_its_day() {
        // A Wednesday.
        let today = Date::constant(2026, 3, 4);
        for (period, from, to) in [
            (ReportPeriod::Today, "2026-03-04", "2026-03-04"),
            (ReportPeriod::Yesterday, "2026-03-03", "2026-03-03"),
            (ReportPeriod::Last7Days, "2026-02-25", "2026-03-03"),
            (ReportPeriod::Last30Days, "2026-02-03", "2026-03-04"),
            (ReportPeriod::LastWeek, "2026-02-23", "2026-03-01"),
            (ReportPeriod::LastMonth, "2026-02-01", "2026-02-28"),
        ] {
            let found = period_of(period, today).unwrap();
            assert_eq!((found.from.to_string(), found.to.to_string()), (from.into(), to.into()));
        }
    }
}
