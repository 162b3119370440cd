//! What a value of the mirror is in Excel: a number, a day, a moment or a text. Pure.
//!
//! Excel counts days from the end of 1899, has no time zones, and keeps 15 digits of a number. What
//! does not fit into that stays a text.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time, date};
use jiff::tz::TimeZone;

use crate::report::value::{self, shown};
use crate::store::SqlValue;
use crate::text::document;
use crate::text::escape::cut;

/// The most characters of a text; a cell of Excel holds 32,767 units, of which one may need two.
const TEXT_MAX: usize = 16_000;
/// From this number on, Excel does not keep every digit.
const DIGITS_MAX: u64 = 1_000_000_000_000_000;
/// The first day whose number every program agrees on.
const FIRST_DAY: Date = date(1900, 3, 1);
/// The day that has the number 0.
const DAY_ZERO: Date = date(1899, 12, 30);

/// One value as a cell of Excel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExcelCell {
    /// Nothing.
    Empty,
    /// A whole number.
    Whole(f64),
    /// A number with a fraction.
    Fraction(f64),
    /// The number of a day.
    Day(f64),
    /// The number of a day with its time of day, on the clock of the shop.
    Moment(f64),
    /// A text.
    Text(String),
}

impl ExcelCell {
    /// A value of the mirror in a shop of this time zone.
    pub(super) fn of(value: &SqlValue, zone: &TimeZone) -> Self {
        match value {
            SqlValue::Null => Self::Empty,
            SqlValue::Integer(number) if number.unsigned_abs() < DIGITS_MAX => {
                Self::Whole(*number as f64)
            }
            SqlValue::Real(number) if number.is_finite() => Self::Fraction(*number),
            SqlValue::Text(text) => Self::of_text(text, zone),
            other => Self::text(&shown(other, None)),
        }
    }

    /// A text that stays one, whatever it looks like.
    pub(super) fn text(text: &str) -> Self {
        if text.is_empty() {
            return Self::Empty;
        }
        Self::Text(document::lines(&cut(text, TEXT_MAX)))
    }

    /// A text: a day and a moment in the forms of the mirror and of the workspace become one.
    fn of_text(text: &str, zone: &TimeZone) -> Self {
        if let Some(day) = day_number(text) {
            return Self::Day(day);
        }
        if let Some(moment) = moment_of(text, zone) {
            return Self::Moment(moment);
        }
        Self::text(text)
    }

    /// The number, if it is one that can be added up.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) | Self::Fraction(number) => Some(*number),
            _ => None,
        }
    }
}

/// The number of a day that is written as `2026-03-01`.
fn day_number(text: &str) -> Option<f64> {
    serial(value::day_of(text)?.to_datetime(Time::midnight()))
}

/// The number of a moment that is written as `2026-03-01 08:00:00`, on the clock of the shop, or
/// as `2026-03-01T08:00:00Z`.
fn moment_of(text: &str, zone: &TimeZone) -> Option<f64> {
    let bytes = text.as_bytes();
    if bytes.len() < "2026-03-01 08:00".len() || bytes[4] != b'-' || bytes[13] != b':' {
        return None;
    }
    if bytes[10] == b' ' {
        return serial(text.parse().ok()?);
    }
    let at: Timestamp = text.parse().ok()?;
    serial(at.to_zoned_datetime(zone.clone()).datetime())
}

/// The number by which Excel knows a moment.
fn serial(moment: DateTime) -> Option<f64> {
    if moment.date() < FIRST_DAY {
        return None;
    }
    let day_zero = DAY_ZERO.to_datetime(Time::midnight());
    let passed = moment.duration_since(day_zero);
    Some(passed.as_secs_f64() / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_moments_are_numbers_and_every_other_text_stays() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let of = |text: &str| ExcelCell::of(&text.to_owned().into(), &berlin);
        assert_eq!(of("2026-03-01"), ExcelCell::Day(46_082.0));
        assert_eq!(of("2026-03-01 06:00:00"), ExcelCell::Moment(46_082.25));
        // An hour later on the clock of the shop.
        for text in [
            "2026-03-01T05:00:00Z",
            "2026-03-01T05:00:00.000000Z",
            "2026-03-01T06:00:00+01:00",
        ] {
            assert_eq!(of(text), ExcelCell::Moment(46_082.25), "{text}");
        }
        for text in [
            "00123",
            "20260301",
            "2026-03",
            "2026-02-30",
            "1899-12-31",
            "+49 30 1",
            "=1+1",
            "JOB-1:2026-03-01",
            "2026-03-01T08:00:00",
        ] {
            assert_eq!(of(text), ExcelCell::Text(text.to_owned()), "{text}");
        }
        assert_eq!(of(""), ExcelCell::Empty);
    }

    #[test]
    fn a_number_that_excel_would_round_is_a_text() {
        let of = |value: SqlValue| ExcelCell::of(&value, &TimeZone::UTC);
        assert_eq!(of(7.into()), ExcelCell::Whole(7.0));
        assert_eq!(of(1.5.into()), ExcelCell::Fraction(1.5));
        let id = 1_234_567_890_123_456_789_i64;
        assert_eq!(of(id.into()), ExcelCell::Text(id.to_string()));
        assert_eq!(of(f64::INFINITY.into()), ExcelCell::Text("inf".to_owned()));
    }
}
