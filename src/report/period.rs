//! The days that a report is about, in the shop's time zone.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::error::ReportError;
use crate::config::CountedBy;
use crate::store::ReportDay;

/// The most days of one report: a hundred years.
const DAYS_MAX: i32 = 36_600;
/// How many days a report is about if it is not told: today and the days before it.
const USUAL_DAYS: i64 = 30;

/// Days, the first and the last included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
}

impl Period {
    /// The period from one day to another; a missing end is today, a missing start 29 days before
    /// the end.
    ///
    /// # Errors
    /// [`ReportError::Refused`] if it ends before it begins or is too long.
    pub fn new(from: Option<Date>, to: Option<Date>, today: Date) -> Result<Self, ReportError> {
        let to = to.unwrap_or_else(|| from.map_or(today, |from| today.max(from)));
        let from = from.unwrap_or_else(|| to.saturating_sub((USUAL_DAYS - 1).days()));
        let refused = |why: String| Err(ReportError::Refused(why));
        if to < from {
            return refused(format!(
                "the period ends ({to}) before it begins ({from}): exchange --from and --to"
            ));
        }
        if (to - from).get_days() >= DAYS_MAX {
            return refused(format!(
                "the period is longer than {DAYS_MAX} days: choose a later --from"
            ));
        }
        Ok(Self { from, to })
    }

    /// Each day with its bounds in UTC; a day may have 23 or 25 hours.
    pub(super) fn days(self, zone: &TimeZone, by: CountedBy) -> Vec<ReportDay> {
        let days = self.from.series(1.day()).take_while(|day| *day <= self.to);
        let row = |day: Date| ReportDay {
            day: day.to_string(),
            period: name_of(day, by),
            from: start_of(day, zone),
            to: end_of(day, zone),
        };
        days.map(row).collect()
    }
}

/// The name of the period in which a day is counted: the day, the Monday of its week, or the month.
fn name_of(day: Date, by: CountedBy) -> String {
    match by {
        CountedBy::Day => day.to_string(),
        CountedBy::Week => monday_of(day).to_string(),
        CountedBy::Month => day.strftime("%Y-%m").to_string(),
    }
}

/// The Monday of a day's week.
pub(super) fn monday_of(day: Date) -> Date {
    day.saturating_sub(i64::from(day.weekday().since(Weekday::Monday)).days())
}

/// The first moment of a day.
pub(super) fn start_of(day: Date, zone: &TimeZone) -> Timestamp {
    moment_of(day, Time::midnight(), zone)
}

/// The first moment after a day.
pub(super) fn end_of(day: Date, zone: &TimeZone) -> Timestamp {
    start_of(day.saturating_add(1.day()), zone)
}

/// A moment of a day.
pub(super) fn moment_of(day: Date, time: Time, zone: &TimeZone) -> Timestamp {
    day.to_datetime(time)
        .to_zoned_datetime(zone.clone())
        .map_or(Timestamp::MAX, |moment| moment.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shopmirror_core::clock::second;

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    fn bounds(zone: &str, from: &str, to: &str) -> Vec<(String, String)> {
        let period = Period {
            from: date(from),
            to: date(to),
        };
        let days = period.days(&TimeZone::get(zone).unwrap(), CountedBy::Day);
        days.into_iter()
            .map(|day| (second(day.from), second(day.to)))
            .collect()
    }

    #[test]
    fn days_have_the_bounds_of_the_zone_also_when_clocks_change() {
        let berlin = bounds("Europe/Berlin", "2026-03-28", "2026-03-30");
        assert_eq!(
            berlin[0],
            ("2026-03-27T23:00:00".into(), "2026-03-28T23:00:00".into())
        );
        assert_eq!(
            berlin[1],
            ("2026-03-28T23:00:00".into(), "2026-03-29T22:00:00".into())
        );
        assert_eq!(
            berlin[2],
            ("2026-03-29T22:00:00".into(), "2026-03-30T22:00:00".into())
        );
        let york = bounds("America/New_York", "2026-11-01", "2026-11-01");
        assert_eq!(
            york,
            [("2026-11-01T04:00:00".into(), "2026-11-02T05:00:00".into())]
        );
        // Here the clock is put forward at midnight: the day begins at one o'clock.
        let beirut = bounds("Asia/Beirut", "2026-03-29", "2026-03-29");
        assert_eq!(
            beirut,
            [("2026-03-28T22:00:00".into(), "2026-03-29T21:00:00".into())]
        );
    }

    #[test]
    fn no_moment_is_left_out_and_none_is_counted_twice() {
        for zone in [
            "UTC",
            "Europe/Berlin",
            "America/Havana",
            "Asia/Kolkata",
            "Pacific/Apia",
        ] {
            let days = bounds(zone, "2011-01-01", "2027-12-31");
            assert!(days.windows(2).all(|pair| pair[0].1 == pair[1].0), "{zone}");
            assert!(days.iter().all(|(from, to)| from <= to), "{zone}");
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_months_have_their_name() {
        assert_eq!(name_of(date("2026-03-01"), CountedBy::Week), "2026-02-23");
        assert_eq!(name_of(date("2026-03-02"), CountedBy::Week), "2026-03-02");
        assert_eq!(name_of(date("2026-03-31"), CountedBy::Month), "2026-03");
    }

    #[test]
    fn a_period_is_thirty_days_until_today_unless_told() {
        let today = date("2026-03-31");
        let period = |from: Option<&str>, to: Option<&str>| {
            Period::new(from.map(date), to.map(date), today)
                .map(|p| (p.from, p.to))
                .ok()
        };
        assert_eq!(period(None, None), Some((date("2026-03-02"), today)));
        assert_eq!(
            period(Some("2026-03-30"), None),
            Some((date("2026-03-30"), today))
        );
        assert_eq!(
            period(None, Some("2026-02-28")),
            Some((date("2026-01-30"), date("2026-02-28")))
        );
        assert!(period(Some("2026-03-02"), Some("2026-03-01")).is_none());
        assert!(
            period(Some("0026-03-01"), None).is_none(),
            "a typing error of the year"
        );
    }
}
