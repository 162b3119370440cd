//! The period before and after the one of a report, and a period in words. Pure.

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

use crate::report::Period;

impl Period {
    /// The distance to the periods before and after: whole months if the period begins with a
    /// month; a week if it begins with a Monday, although the week may not be over; otherwise its
    /// own number of days.
    fn step(self) -> Span {
        let Self { from, to } = self;
        let years = i64::from(to.year()) - i64::from(from.year());
        let months = years * 12 + i64::from(to.month() - from.month()) + 1;
        let days = i64::from((to - from).get_days()) + 1;
        if from.day() == 1 && (months > 1 || days > 7) {
            months.months()
        } else if from.weekday() == Weekday::Monday && (2..=7).contains(&days) {
            7.days()
        } else {
            days.days()
        }
    }

    /// The period that is `steps` later; if negative, earlier.
    pub(super) fn shifted(self, steps: i64) -> Self {
        let step = self.step();
        let from = self.from.saturating_add(step * steps);
        let mut to = self.to.saturating_add(step * steps);
        if step.get_months() > 0 && self.to == self.to.last_of_month() {
            to = to.last_of_month();
        }
        Self { from, to }
    }

    /// The days in words: `1 November 2026 to 23 November 2026`.
    pub(super) fn in_words(self) -> String {
        if self.from == self.to {
            day_in_words(self.to)
        } else {
            let from = day_in_words(self.from);
            format!("{from} to {}", day_in_words(self.to))
        }
    }
}

fn day_in_words(date: Date) -> String {
    date.strftime("%-d %B %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Range;

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
    fn ranges_are_seen_from_today_and_written_in_words() {
        let today = "2026-11-25".parse().unwrap();
        let in_words = Range::REPORT
            .map(|range| format!("{}: {}", range.as_str(), range.days(today).in_words()));
        assert_eq!(
            in_words,
            [
                "today: 25 November 2026",
                "yesterday: 24 November 2026",
                "last-7-days: 18 November 2026 to 24 November 2026",
                "last-30-days: 27 October 2026 to 25 November 2026",
                "this-week: 23 November 2026 to 25 November 2026",
                "this-month: 1 November 2026 to 25 November 2026",
                "last-month: 1 October 2026 to 31 October 2026",
                "this-year: 1 January 2026 to 25 November 2026",
                "12-months: 1 December 2025 to 25 November 2026",
            ]
        );
    }
}
