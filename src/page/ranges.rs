//! The period before and after the one of a report. Pure.

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

use crate::report::Period;

impl Period {
    /// How far the periods before and after are: whole months for days that begin with one; a week
    /// for days from a Monday on, although it may not be over; else as many days as it has.
    fn step(self) -> Span {
        let Self { from, to } = self;
        let months = (i64::from(to.year()) - i64::from(from.year())) * 12
            + i64::from(to.month() - from.month())
            + 1;
        let days = i64::from((to - from).get_days()) + 1;
        match from.day() {
            1 if months > 1 || days > 7 => months.months(),
            _ if from.weekday() == Weekday::Monday && (2..=7).contains(&days) => 7.days(),
            _ => days.days(),
        }
    }

    /// The same days so many months, weeks or lengths later; negative: before.
    pub(super) fn shifted(self, by: i64) -> Self {
        let step = self.step();
        let to = self.to.saturating_add(step * by);
        let is_whole = step.get_months() > 0 && self.to == self.to.last_of_month();
        let to = if is_whole { to.last_of_month() } else { to };
        Self {
            from: self.from.saturating_add(step * by),
            to,
        }
    }

    /// The days in words: `1 November 2026 to 23 November 2026`.
    pub(super) fn said(self) -> String {
        let day = |date: Date| date.strftime("%-d %B %Y").to_string();
        match self.from == self.to {
            true => day(self.to),
            false => format!("{} to {}", day(self.from), day(self.to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Range;
    use crate::store::word;

    fn days(text: &str) -> Period {
        let (from, to) = text.split_once(' ').unwrap();
        Period {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        }
    }

    #[test]
    fn the_period_before_or_after_has_the_same_days() {
        for (period, before, after) in [
            (
                "2026-11-01 2026-11-23",
                "2026-10-01 2026-10-23",
                "2026-12-01 2026-12-23",
            ),
            (
                "2026-11-01 2026-11-30",
                "2026-10-01 2026-10-31",
                "2026-12-01 2026-12-31",
            ),
            (
                "2026-03-01 2026-03-30",
                "2026-02-01 2026-02-28",
                "2026-04-01 2026-04-30",
            ),
            (
                "2025-12-01 2026-11-23",
                "2024-12-01 2025-11-23",
                "2026-12-01 2027-11-23",
            ),
            (
                "2026-11-23 2026-11-25",
                "2026-11-16 2026-11-18",
                "2026-11-30 2026-12-02",
            ),
            (
                "2026-11-24 2026-11-24",
                "2026-11-23 2026-11-23",
                "2026-11-25 2026-11-25",
            ),
            (
                "2026-10-25 2026-11-23",
                "2026-09-25 2026-10-24",
                "2026-11-24 2026-12-23",
            ),
        ] {
            assert_eq!(days(period).shifted(-1), days(before), "{period}");
            assert_eq!(days(period).shifted(1), days(after), "{period}");
        }
    }

    #[test]
    fn ranges_are_seen_from_today_and_said_in_words() {
        let today = "2026-11-25".parse().unwrap();
        let said =
            Range::REPORT.map(|range| format!("{}: {}", word(&range), range.days(today).said()));
        assert_eq!(
            said,
            [
                "today: 25 November 2026",
                "this-week: 23 November 2026 to 25 November 2026",
                "this-month: 1 November 2026 to 25 November 2026",
                "last-month: 1 October 2026 to 31 October 2026",
                "this-year: 1 January 2026 to 25 November 2026",
                "12-months: 1 December 2025 to 25 November 2026",
            ]
        );
    }
}
