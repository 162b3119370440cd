//! The reader of days, which the shop enters in its own format.
//!
//! Without a zone a value is the shop's clock, as written. With an offset it is a date, if it is
//! midnight, or a moment: a fact of its field. `05/11/2026` has two readings as well. The time of day
//! is not used.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::instant::{Written, epoch, in_utc, written};
use super::text::JsonValue;
use super::{DayReading, ReadAs, Reading, Rule};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The format that the configuration names for a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DateFormat {
    /// A time with an offset is the date as written.
    Dates,
    /// A time with an offset is a moment.
    Moments,
    /// A format of strptime. With `%z` a value is a moment.
    Pattern(String),
}

/// Reads a day from its JSON text; `None` is a field that was not sent. `zone` is the shop's.
#[must_use]
pub fn read_day(json: Option<&str>, format: Option<&DateFormat>, zone: &TimeZone) -> DayReading {
    let read = match JsonValue::of(json) {
        JsonValue::Absent => return ReadAs::ABSENT,
        JsonValue::Number(number) => match epoch(number) {
            Some(at) => of_moment(in_utc(at), at, format, zone),
            None => ReadAs::UNREADABLE,
        },
        JsonValue::Text(text) => of_text(&text, format, zone),
        JsonValue::Other => ReadAs::UNREADABLE,
    };
    match read.reading {
        Reading::Certain(day) if day.year() < 1 => ReadAs::UNREADABLE,
        _ => read,
    }
}

fn of_text(text: &str, format: Option<&DateFormat>, zone: &TimeZone) -> DayReading {
    if let Some(DateFormat::Pattern(pattern)) = format
        && let Some(day) = by_pattern(pattern, text, zone)
    {
        return ReadAs::certain(day);
    }
    match written(text) {
        Some(Written::Date(day)) => ReadAs::certain(day),
        Some(Written::Local(at)) => ReadAs::certain(at.date()),
        Some(Written::Zoned(local, at)) => of_moment(local, at, format, zone),
        None => of_parts(text),
    }
}

/// A moment is a date if it is midnight of its offset and its field has dates.
fn of_moment(
    local: DateTime,
    at: Timestamp,
    format: Option<&DateFormat>,
    zone: &TimeZone,
) -> DayReading {
    let date = local.date();
    let day = at.to_zoned_datetime(zone.clone()).date();
    match format {
        Some(DateFormat::Dates) => return ReadAs::certain(date),
        Some(DateFormat::Moments) => return ReadAs::certain(day),
        Some(DateFormat::Pattern(_)) | None => {}
    }
    if local.time() != Time::midnight() {
        return ReadAs::evident(day, Rule::Moments);
    }
    let reading = if date == day {
        Reading::Certain(day)
    } else {
        Reading::Ambiguous([(Rule::Dates, date), (Rule::Moments, day)])
    };
    ReadAs {
        reading,
        supports: Some(Rule::Dates),
    }
}

fn by_pattern(pattern: &str, text: &str, zone: &TimeZone) -> Option<Date> {
    let parts = BrokenDownTime::parse(pattern, text).ok()?;
    if parts.offset().is_some() {
        let at = parts.to_timestamp().ok()?;
        return Some(at.to_zoned_datetime(zone.clone()).date());
    }
    parts.to_date().ok()
}

/// `27/11/2026`, `27.11.2026 10:30`, `2026/11/27`, `27 Nov 2026`, `Nov 27, 2026`.
fn of_parts(text: &str) -> DayReading {
    let (date, time) = match text.find(':') {
        Some(colon) => {
            let hour = text[..colon].trim_end_matches(|c: char| c.is_ascii_digit());
            let (date, time) = text.split_at(hour.len());
            (date.trim_end_matches(['T', ',', ' ']), time)
        }
        None => (text, ""),
    };
    if !time.is_empty() && !is_time(time) {
        return ReadAs::UNREADABLE;
    }
    for separator in ['/', '.', '-'] {
        let parts: Vec<&str> = date.split(separator).collect();
        if let [first, second, third] = parts[..] {
            return of_numbers(first, second, third);
        }
    }
    let words = date.replace(',', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let day = match words[..] {
        [first, second, year] => match (month_of(first), month_of(second)) {
            (None, Some(month)) => date_of(year, month, first.trim_end_matches('.')),
            (Some(month), None) => date_of(year, month, second),
            _ => None,
        },
        _ => None,
    };
    day.map_or(ReadAs::UNREADABLE, ReadAs::certain)
}

/// Three numbers, of which the year has four digits.
fn of_numbers(first: &str, second: &str, third: &str) -> DayReading {
    if first.len() == 4 {
        let day = number(second).and_then(|month| date_of(first, month, third));
        return day.map_or(ReadAs::UNREADABLE, ReadAs::certain);
    }
    let by_day = number(second).and_then(|month| date_of(third, month, first));
    let by_month = number(first).and_then(|month| date_of(third, month, second));
    match (by_day, by_month) {
        (Some(by_day), Some(by_month)) if by_day == by_month => ReadAs::certain(by_day),
        (Some(by_day), Some(by_month)) => ReadAs::plain(Reading::Ambiguous([
            (Rule::DayFirst, by_day),
            (Rule::MonthFirst, by_month),
        ])),
        (Some(day), None) => ReadAs::evident(day, Rule::DayFirst),
        (None, Some(day)) => ReadAs::evident(day, Rule::MonthFirst),
        (None, None) => ReadAs::UNREADABLE,
    }
}

fn date_of(year: &str, month: i8, day: &str) -> Option<Date> {
    if year.len() != 4 || !year.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    Date::new(year.parse().ok()?, month, number(day)?).ok()
}

/// A number of one or two digits.
fn number(text: &str) -> Option<i8> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    if !is_number {
        return None;
    }
    text.parse().ok()
}

/// A month by its English name or the first three letters of it.
fn month_of(word: &str) -> Option<i8> {
    let word = word.trim_end_matches('.').to_ascii_lowercase();
    let place = MONTHS
        .iter()
        .position(|month| *month == word || month[..3] == word)?;
    i8::try_from(place + 1).ok()
}

/// `10:30`, `10:30:00.000`, `10:30 PM`.
fn is_time(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .trim_end_matches("am")
        .trim_end_matches("pm")
        .trim_end();
    for (place, part) in digits.split(':').enumerate() {
        let (whole, fraction) = part.split_once('.').unwrap_or((part, ""));
        let is_number = number(whole).is_some() && fraction.bytes().all(|c| c.is_ascii_digit());
        if place > 2 || !is_number {
            return false;
        }
    }
    true
}

impl FromStr for DateFormat {
    type Err = String;

    /// `dates`, `moments`, or a format of strptime that has a year, a month and a day.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dates" => return Ok(Self::Dates),
            "moments" => return Ok(Self::Moments),
            _ => {}
        }
        // A format that does not read what it writes is none.
        let sample = "2026-11-27T10:30:00+00:00[UTC]";
        let sample: jiff::ZonedDateTime = sample.parse().expect("it is a time");
        let mut shown = Vec::new();
        let is_format = BrokenDownTime::from(&sample)
            .format(text, &mut shown)
            .is_ok();
        let shown = String::from_utf8(shown).unwrap_or_default();
        if is_format && by_pattern(text, &shown, &TimeZone::UTC) == Some(sample.date()) {
            return Ok(Self::Pattern(text.to_owned()));
        }
        Err("must be \"dates\", \"moments\" or a format such as \"%d/%m/%Y %H:%M\"".to_owned())
    }
}

impl DateFormat {
    /// Its text in the configuration.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Dates => "dates",
            Self::Moments => "moments",
            Self::Pattern(pattern) => pattern,
        }
    }
}

impl Serialize for DateFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DateFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
