//! The reader of instants: ISO 8601 with any offset, with a space or without a zone (UTC), RFC 2822,
//! seconds and milliseconds since 1970. A date alone is a day of the shop: its first moment.

use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ZonedDateTime};

use super::text::JsonValue;
use super::{InstantReading, ReadAs};

/// Seconds since 1970 that are a time: from the year 2001 to 2286.
const SECONDS: std::ops::Range<i64> = 1_000_000_000..10_000_000_000;
/// Milliseconds since 1970 that are a time, of the same years.
const MILLISECONDS: std::ops::Range<i64> = 1_000_000_000_000..10_000_000_000_000;

/// Reads an instant from its JSON text; `None` is a field that was not sent. A date alone is a day
/// in `zone`.
#[must_use]
pub fn read_instant(json: Option<&str>, zone: &TimeZone) -> InstantReading {
    let found = match JsonValue::of(json) {
        JsonValue::Absent => return ReadAs::ABSENT,
        JsonValue::Number(number) => epoch(number),
        JsonValue::Text(text) => of_text(&text, zone),
        JsonValue::Other => None,
    };
    match found {
        Some(at) if at.to_zoned_datetime(TimeZone::UTC).year() > 0 => ReadAs::certain(at),
        _ => ReadAs::UNREADABLE,
    }
}

fn of_text(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    match written(text)? {
        Written::Date(date) => Some(date.to_zoned_datetime(zone.clone()).ok()?.timestamp()),
        Written::Local(at) => Offset::UTC.to_timestamp(at).ok(),
        Written::Zoned(_, at) => Some(at),
    }
}

/// What a text says: a date, a time of an unknown clock, or a moment.
pub(super) enum Written {
    Date(Date),
    Local(DateTime),
    /// The local time as written, and the moment.
    Zoned(DateTime, Timestamp),
}

/// Reads a date or a time in one of the forms that leave no doubt.
pub(super) fn written(text: &str) -> Option<Written> {
    if text.bytes().all(|c| c.is_ascii_digit() || c == b'.') {
        let at = epoch(text)?;
        return Some(Written::Zoned(in_utc(at), at));
    }
    if text.len() == "2026-11-27".len() {
        return text.parse().ok().map(Written::Date);
    }
    // Programs write `2026-11-27 10:00:00 UTC` and `2026-11-27 10:00:00 +0100` as well.
    let plain = match text.strip_suffix(" UTC").or(text.strip_suffix(" GMT")) {
        Some(time) => format!("{time}Z"),
        None => text.replace(" +", "+").replace(" -", "-"),
    };
    // First, because a local time would be read from a text with an offset as well.
    if let Ok(at) = plain.parse::<Timestamp>() {
        return Some(Written::Zoned(as_written(&plain)?, at));
    }
    if let Ok(at) = plain.parse() {
        return Some(Written::Local(at));
    }
    let zoned: ZonedDateTime = rfc2822::parse(text).ok()?;
    Some(Written::Zoned(zoned.datetime(), zoned.timestamp()))
}

/// The local time in a text that ends with an offset.
fn as_written(text: &str) -> Option<DateTime> {
    let time = text.find(['T', 't', ' '])?;
    let offset = text[time..].find(['Z', 'z', '+', '-'])?;
    text[..time + offset].parse().ok()
}

/// A number of seconds or milliseconds since 1970.
pub(super) fn epoch(number: &str) -> Option<Timestamp> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i64 = whole.parse().ok()?;
    if MILLISECONDS.contains(&whole) {
        return Timestamp::from_millisecond(whole).ok();
    }
    if !SECONDS.contains(&whole) || !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let nanoseconds: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    Timestamp::new(whole, nanoseconds.parse().ok()?).ok()
}

pub(super) fn in_utc(at: Timestamp) -> DateTime {
    Offset::UTC.to_datetime(at)
}
