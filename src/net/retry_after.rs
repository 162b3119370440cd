//! Reads the header `Retry-After` (RFC 9110 section 10.2.3).
//!
//! Pure. A value that cannot be read counts as absent, and no wait is longer than [`MAX_WAIT`].

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// The longest wait that a server can ask for; longer ones are cut to this.
pub const MAX_WAIT: Duration = Duration::from_secs(3600);

/// A number from here on is no wait but a time, in seconds since 1970: this one is of 2001.
const FIRST_TIME: u64 = 1_000_000_000;

/// Returns the wait that a server asked for: in seconds, as an HTTP date, or as seconds since 1970.
///
/// A time is counted from `date`, the header `Date` of the same response, because the two clocks
/// may differ; from `now` if there is none that can be read. A date in the past is a wait of zero.
#[must_use]
pub fn parse(text: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let until = match seconds(text) {
        Some(wait) if wait < FIRST_TIME => return Some(Duration::from_secs(wait).min(MAX_WAIT)),
        // A number that is no time of this calendar is a very long wait.
        Some(at) => match SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)) {
            Some(until) => until,
            None => return Some(MAX_WAIT),
        },
        None => httpdate::parse_http_date(text).ok()?,
    };
    let sent_at = match date.map(httpdate::parse_http_date) {
        Some(Ok(date)) => date,
        _ => now.try_into().ok()?,
    };
    let wait = until.duration_since(sent_at).unwrap_or_default();
    Some(wait.min(MAX_WAIT))
}

/// A number of seconds; one with a fraction, as some servers write it, is rounded up: never too
/// early.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digit = |byte: u8| byte.is_ascii_digit();
    if text.is_empty() || fraction.is_empty() {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(is_digit) {
        return None;
    }
    // Digits alone fail to parse only when the number is too large for the type.
    let mut seconds: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().unwrap_or(u64::MAX)
    };
    if fraction.bytes().any(|byte| byte != b'0') {
        seconds = seconds.saturating_add(1);
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Option<u64> {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        parse(text, None, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_times_are_read_and_cut_to_an_hour_and_anything_else_counts_as_absent() {
        for (text, seconds) in [
            ("120", Some(120)),
            (" 007 ", Some(7)),
            ("3600", Some(3600)),
            ("3601", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            // 30 s after, an hour after and 28 s before now.
            ("1445412510", Some(30)),
            ("1445422510", Some(3600)),
            ("1445412452", Some(0)),
            ("999999999", Some(3600)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wednesday, 21-Oct-15 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 09:28:30 GMT", Some(3600)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("", None),
            (" ", None),
            ("-1", None),
            ("+3", None),
            ("1.5", Some(2)),
            ("0.2", Some(1)),
            (".2", Some(1)),
            ("3.0", Some(3)),
            ("99999999999999999999999999.5", Some(3600)),
            ("1.", None),
            ("-1.5", None),
            ("1.5.2", None),
            ("17, 18", None),
            ("soon", None),
            ("Wed, 41 Oct 2015 07:28:00 GMT", None),
        ] {
            assert_eq!(wait(text), seconds, "{text:?}");
        }
    }
}
