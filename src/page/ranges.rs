//! The ranges of a report, the one before and after, and what a period is compared with. Pure.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::request::Query;
use crate::report::{Period, Range};

/// The range that an address names; a text that says what is wrong with it.
pub(super) fn range_of(query: &Query) -> Result<Option<Range>, String> {
    let range = query.choice("range", &Range::ALL, Range::as_str)?;
    if range.is_some() && (query.get("from").is_some() || query.get("to").is_some()) {
        return Err("Use range, or from and to, but not both.".to_owned());
    }
    Ok(range)
}

impl Period {
    /// How many calendar months it has, if it begins with one.
    fn months(self) -> Option<i64> {
        let months = i64::from(self.to.year() - self.from.year()) * 12
            + i64::from(self.to.month() - self.from.month())
            + 1;
        (self.from.day() == 1 && (months > 1 || self.to.day() > 7)).then_some(months)
    }

    fn length(self) -> i64 {
        i64::from(self.from.until(self.to).map_or(0, |span| span.get_days())) + 1
    }

    /// The same days of the months, the week or the days before: with what they are compared.
    pub(super) fn before(self) -> Self {
        let Some(months) = self.months() else {
            return self.moved(-self.steps());
        };
        let back = |day: Date| day.saturating_sub(months.months());
        let is_whole = self.to == self.to.last_of_month();
        let to = back(self.to);
        Self { from: back(self.from), to: if is_whole { to.last_of_month() } else { to } }
    }

    /// The whole months, week or days before, or after.
    pub(super) fn neighbour(self, direction: i64) -> Self {
        match self.months() {
            Some(months) => {
                let from = self.from.saturating_add((months * direction).months());
                let last = from.saturating_add((months - 1).months());
                Self { from, to: last.last_of_month() }
            }
            None => {
                let length = self.steps();
                let from = self.from.saturating_add((length * direction).days());
                Self { from, to: from.saturating_add((length - 1).days()) }
            }
        }
    }

    /// By how many days it moves: days from a Monday on are a week, although it may not be over.
    fn steps(self) -> i64 {
        let length = self.length();
        let is_week = self.from.weekday() == Weekday::Monday && (2..=7).contains(&length);
        if is_week { 7 } else { length }
    }

    fn moved(self, days: i64) -> Self {
        let moved = |day: Date| day.saturating_add(days.days());
        Self { from: moved(self.from), to: moved(self.to) }
    }

    /// The days in words: `1 to 23 November 2026`.
    pub(super) fn said(self) -> String {
        let Self { from, to } = self;
        let day = |date: Date, form: &str| date.strftime(form).to_string();
        let until = day(to, "%-d %B %Y");
        if from == to {
            until
        } else if (from.year(), from.month()) == (to.year(), to.month()) {
            format!("{} to {until}", from.day())
        } else if from.year() == to.year() {
            format!("{} to {until}", day(from, "%-d %B"))
        } else {
            format!("{} to {until}", day(from, "%-d %B %Y"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(text: &str) -> Period {
        let (from, to) = text.split_once(' ').unwrap();
        Period { from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    #[test]
    fn a_period_is_compared_with_the_same_days_before() {
        for (period, before) in [
            ("2026-11-01 2026-11-23", "2026-10-01 2026-10-23"),
            ("2026-11-01 2026-11-30", "2026-10-01 2026-10-31"),
            ("2026-03-01 2026-03-30", "2026-02-01 2026-02-28"),
            ("2025-12-01 2026-11-23", "2024-12-01 2025-11-23"),
            ("2026-11-23 2026-11-25", "2026-11-16 2026-11-18"),
            ("2026-11-24 2026-11-24", "2026-11-23 2026-11-23"),
            ("2026-10-25 2026-11-23", "2026-09-25 2026-10-24"),
        ] {
            assert_eq!(days(period).before(), days(before), "{period}");
        }
    }

    #[test]
    fn previous_and_next_are_whole_months_weeks_or_as_many_days() {
        for (period, previous, next) in [
            ("2026-11-01 2026-11-23", "2026-10-01 2026-10-31", "2026-12-01 2026-12-31"),
            ("2026-11-23 2026-11-25", "2026-11-16 2026-11-22", "2026-11-30 2026-12-06"),
            ("2026-11-24 2026-11-24", "2026-11-23 2026-11-23", "2026-11-25 2026-11-25"),
            ("2026-11-03 2026-11-12", "2026-10-24 2026-11-02", "2026-11-13 2026-11-22"),
        ] {
            assert_eq!(days(period).neighbour(-1), days(previous), "{period}");
            assert_eq!(days(period).neighbour(1), days(next), "{period}");
        }
    }

    #[test]
    fn ranges_are_seen_from_today_and_said_in_words() {
        let today = "2026-11-25".parse().unwrap();
        let said =
            Range::ALL.map(|range| format!("{}: {}", range.as_str(), range.days(today).said()));
        assert_eq!(
            said,
            [
                "today: 25 November 2026",
                "week: 23 to 25 November 2026",
                "month: 1 to 25 November 2026",
                "last-month: 1 to 31 October 2026",
                "year: 1 January to 25 November 2026",
                "12-months: 1 December 2025 to 25 November 2026",
            ]
        );
    }
}
