//! The days that have a name, seen from today: what Home, the pages of reports and scheduled
//! reports offer. Pure.

use jiff::ToSpan;
use jiff::civil::Date;

use super::period::{Period, monday_of};
use crate::config::{CountedBy, Range};
use crate::text::first_upper;

impl Range {
    /// Those of Home.
    pub const HOME: [Self; 4] = [
        Self::Today,
        Self::ThisWeek,
        Self::ThisMonth,
        Self::LastMonth,
    ];
    /// Those of the page of a report.
    pub const REPORT: [Self; 9] = [
        Self::Today,
        Self::Yesterday,
        Self::Last7Days,
        Self::Last30Days,
        Self::ThisWeek,
        Self::ThisMonth,
        Self::LastMonth,
        Self::ThisYear,
        Self::TwelveMonths,
    ];

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> String {
        first_upper(&self.as_str().replace('-', " "))
    }

    /// The grouping of its days: day or month.
    #[must_use]
    pub fn by(self) -> CountedBy {
        match self {
            Self::ThisYear | Self::TwelveMonths => CountedBy::Month,
            _ => CountedBy::Day,
        }
    }

    /// Its days.
    #[must_use]
    pub fn days(self, today: Date) -> Period {
        let (monday, first) = (monday_of(today), today.first_of_month());
        let back = |days: i64| today.saturating_sub(days.days());
        let (from, to) = match self {
            Self::Today => (today, today),
            Self::Yesterday => (back(1), back(1)),
            Self::Last7Days => (back(7), back(1)),
            Self::Last30Days => (back(29), today),
            Self::ThisWeek => (monday, today),
            Self::LastWeek => (
                monday.saturating_sub(7.days()),
                monday.saturating_sub(1.day()),
            ),
            Self::ThisMonth => (first, today),
            Self::LastMonth => (
                first.saturating_sub(1.month()),
                first.saturating_sub(1.day()),
            ),
            Self::ThisYear => (today.first_of_year(), today),
            Self::TwelveMonths => (first.saturating_sub(11.months()), today),
        };
        Period { from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_of_a_range_are_seen_from_today() {
        // A Wednesday.
        let today = Date::constant(2026, 3, 4);
        for (range, from, to) in [
            (Range::Today, "2026-03-04", "2026-03-04"),
            (Range::Yesterday, "2026-03-03", "2026-03-03"),
            (Range::Last7Days, "2026-02-25", "2026-03-03"),
            (Range::Last30Days, "2026-02-03", "2026-03-04"),
            (Range::LastWeek, "2026-02-23", "2026-03-01"),
            (Range::LastMonth, "2026-02-01", "2026-02-28"),
        ] {
            let Period {
                from: first,
                to: last,
            } = range.days(today);
            assert_eq!(
                (first.to_string(), last.to_string()),
                (from.into(), to.into())
            );
        }
        let named = [Range::Last7Days, Range::Last30Days, Range::TwelveMonths].map(Range::as_str);
        assert_eq!(named, ["last-7-days", "last-30-days", "12-months"]);
    }
}
