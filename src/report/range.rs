//! The days that have a name, seen from today: what Home and the pages of reports offer. Pure.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::period::Period;
use crate::config::CountedBy;

/// Days with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Range {
    /// Today so far.
    Today,
    /// From Monday until now.
    Week,
    /// From the first of the month until now.
    Month,
    /// The calendar month before.
    LastMonth,
    /// From the first of January until now.
    Year,
    /// This month and the eleven before it.
    TwelveMonths,
}

impl Range {
    /// Every range.
    pub const ALL: [Self; 6] =
        [Self::Today, Self::Week, Self::Month, Self::LastMonth, Self::Year, Self::TwelveMonths];
    /// Those of Home.
    pub const HOME: [Self; 4] = [Self::Today, Self::Week, Self::Month, Self::LastMonth];

    /// Its name in addresses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Week => "week",
            Self::Month => "month",
            Self::LastMonth => "last-month",
            Self::Year => "year",
            Self::TwelveMonths => "12-months",
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Today => "Today",
            Self::Week => "This week",
            Self::Month => "This month",
            Self::LastMonth => "Last month",
            Self::Year => "This year",
            Self::TwelveMonths => "12 months",
        }
    }

    /// In what its days are counted.
    #[must_use]
    pub fn by(self) -> CountedBy {
        match self {
            Self::Year | Self::TwelveMonths => CountedBy::Month,
            Self::Today | Self::Week | Self::Month | Self::LastMonth => CountedBy::Day,
        }
    }

    /// Its days.
    #[must_use]
    pub fn days(self, today: Date) -> Period {
        let first = today.first_of_month();
        let (from, to) = match self {
            Self::Today => (today, today),
            Self::Week => (monday_of(today), today),
            Self::Month => (first, today),
            Self::LastMonth => (first.saturating_sub(1.month()), first.saturating_sub(1.day())),
            Self::Year => (today.first_of_year(), today),
            Self::TwelveMonths => (first.saturating_sub(11.months()), today),
        };
        Period { from, to }
    }
}

/// The Monday of a day's week.
pub(super) fn monday_of(day: Date) -> Date {
    day.saturating_sub(i64::from(day.weekday().since(Weekday::Monday)).days())
}
