//! Times in commands: printed in the time of the shop on a terminal and in UTC elsewhere. A place
//! in the log is read as a number, an age or a timestamp.

use std::io::IsTerminal;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::stamp;

use crate::store::{Reader, StoreError};

/// The time zone of the shop, once the configuration was read.
static SHOP_ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Shows times in the zone of the shop from now on.
pub(super) fn use_zone(zone: &TimeZone) {
    // Every configuration that one command reads is the same one.
    let _ = SHOP_ZONE.set(zone.clone());
}

/// A time of the store, to the second: in the zone of the shop on a terminal, otherwise in UTC.
pub(super) fn shown(stamp: &str) -> String {
    if !std::io::stdout().is_terminal() {
        return in_zone(stamp, None);
    }
    let zone = SHOP_ZONE.get().cloned().unwrap_or_else(TimeZone::system);
    in_zone(stamp, Some(zone))
}

/// A time of the store in a time zone; in UTC, marked with `Z`, without one.
fn in_zone(stamp: &str, zone: Option<TimeZone>) -> String {
    match (stamp.parse::<Timestamp>(), zone) {
        (Ok(at), Some(zone)) => at
            .to_zoned_datetime(zone)
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        (Ok(at), None) => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        (Err(_), _) => stamp.to_owned(),
    }
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// This row.
    Row(i64),
    /// The first row of this time or later.
    Time(Timestamp),
}

impl Place {
    /// The last row before the place.
    pub(super) fn before(self, reader: &Reader) -> Result<i64, StoreError> {
        match self {
            Self::Row(row) => Ok(row.saturating_sub(1).max(0)),
            Self::Time(at) => reader.position_at(&stamp(at)),
        }
    }
}

/// Reads a place in the log: a number, an age such as `2h`, or a timestamp with its offset.
pub(super) fn place(text: &str) -> Result<Place, String> {
    if let Ok(row) = text.parse() {
        return Ok(Place::Row(row));
    }
    let at = since_from(text, Timestamp::now())?;
    Ok(Place::Time(at))
}

fn since_from(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(age) = humantime::parse_duration(text)
        && let Ok(at) = now.checked_sub(age)
    {
        return Ok(at);
    }
    Err(
        "write a number of the log, an age such as 2h, or a time such as 2026-03-01T08:00:00Z"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_utc_unless_a_zone_is_given() {
        let stamp = "2026-03-01T23:30:15.123456Z";
        assert_eq!(in_zone(stamp, None), "2026-03-01T23:30:15Z");
        let tokyo = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(in_zone(stamp, Some(tokyo)), "2026-03-02 08:30:15");
        assert_eq!(in_zone("soon", None), "soon");
    }

    #[test]
    fn since_is_an_age_or_a_time() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(
            since_from("2h", now),
            Ok("2026-03-01T10:00:00Z".parse().unwrap())
        );
        let at = "2026-02-01T08:00:00+01:00";
        assert_eq!(
            since_from(at, now),
            Ok("2026-02-01T07:00:00Z".parse().unwrap())
        );
        for text in ["yesterday", "2026-02-01T08:00:00", "", "999999999years"] {
            assert!(since_from(text, now).is_err(), "{text}");
        }
    }
}
