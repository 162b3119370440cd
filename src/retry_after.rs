//! Reads the header `Retry-After` (RFC 9110 section 10.2.3).
//!
//! Pure. A value that cannot be read counts as absent, and no wait is longer than [`LONGEST`].

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// The longest wait that a server can ask for; longer ones are cut to this.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// Returns the wait that a server asked for, in seconds or as an HTTP date.
///
/// A date is counted from `now`; a date in the past is a wait of zero.
#[must_use]
pub fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits alone fail to parse only when the number is too large for the type.
        let wait = text.parse().map_or(LONGEST, Duration::from_secs);
        return Some(wait.min(LONGEST));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let wait = at.duration_since(SystemTime::from(now)).unwrap_or_default();
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Option<u64> {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        parse(text, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_read_and_cut_to_an_hour() {
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait(" 0 "), Some(0));
        assert_eq!(wait("86400"), Some(3600));
        assert_eq!(wait("99999999999999999999999999"), Some(3600));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:30 GMT"), Some(30));
        assert_eq!(wait("Wed, 21 Oct 2015 09:28:30 GMT"), Some(3600));
        assert_eq!(wait("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0));
    }

    #[test]
    fn junk_counts_as_absent() {
        for junk in
            ["", " ", "-1", "1.5", "+3", "soon", "1e3", "17, 18", "Wed, 41 Oct 2015 07:28:00 GMT"]
        {
            assert_eq!(wait(junk), None, "{junk:?}");
        }
    }
}
