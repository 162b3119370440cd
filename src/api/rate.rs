//! The rate limit that the headers of a response show (contract, "Limits").
//!
//! A header that is absent, unreadable or out of range is ignored and never stops a poll. No wait
//! is longer than [`retry_after::MAX_WAIT`].

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{AGE, DATE, HeaderMap, HeaderName, RETRY_AFTER};

use super::transport::ApiResponse;
use crate::net::retry_after;

/// A number of requests above this is ignored as a mistake.
const MAX_COUNT: u32 = 1_000_000;

/// The rate limit that one response shows, and whose response it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateHeaders {
    /// `X-RateLimit-Limit`: requests a minute for all clients of the key.
    pub limit: Option<u32>,
    /// `X-RateLimit-Remaining`: requests left to all clients of the key.
    pub remaining: Option<u32>,
    /// `Retry-After`, from the time of the response; a time in the past is zero.
    pub retry_after: Option<Duration>,
    /// The workspace refused the request because of the key's rate limit (429).
    pub refused: bool,
    /// `X-Business`: the response's business, if it is an integer as the contract shows.
    pub business: Option<i64>,
    /// The server's clock, from `Date`; absent if the response may come from a cache.
    pub server_time: Option<Timestamp>,
    /// How old a cache says that the response is (`Age`).
    pub age: Duration,
    /// The number of the key that was sent; see [`Client::key_number`](super::Client::key_number).
    pub key: u64,
}

impl RateHeaders {
    /// What counts of an answer that is not the workspace's, or that a cache repeats: only the wait.
    pub(crate) fn of_somebody_between(self) -> Self {
        Self {
            retry_after: self.retry_after,
            key: self.key,
            ..Self::default()
        }
    }

    /// Reads a response's headers; `now` is used if the server sends no `Date`.
    pub(super) fn read(response: &ApiResponse, now: Timestamp) -> Self {
        let headers = &response.headers;
        let retry_after = match text(headers, RETRY_AFTER) {
            Some(wait) => retry_after::parse(wait, text(headers, DATE), now),
            None => None,
        };
        let business = match text(headers, HeaderName::from_static("x-business")) {
            Some(text) => text.parse().ok(),
            None => None,
        };
        Self {
            limit: count(headers, "x-ratelimit-limit"),
            remaining: count(headers, "x-ratelimit-remaining"),
            retry_after,
            refused: response.status == 429,
            business,
            server_time: server_time(headers),
            age: age(headers),
            key: 0,
        }
    }
}

fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    // A cache repeats an old `Date`, which `Age` shows.
    if headers.contains_key(AGE) {
        return None;
    }
    let date = httpdate::parse_http_date(text(headers, DATE)?).ok()?;
    Timestamp::try_from(date).ok()
}

fn age(headers: &HeaderMap) -> Duration {
    let Some(age) = text(headers, AGE) else {
        return Duration::ZERO;
    };
    // Digits alone fail to parse only when the number is too large for the type.
    let is_number = !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit());
    match age.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) if is_number => Duration::MAX,
        Err(_) => Duration::ZERO,
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn count(headers: &HeaderMap, name: &'static str) -> Option<u32> {
    let count = text(headers, HeaderName::from_static(name))?.parse().ok()?;
    if count > MAX_COUNT {
        return None;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::header::HeaderValue;

    use super::*;

    const NOW: &str = "2026-03-01T12:00:00Z";

    fn read(status: u16, headers: &[(&'static str, &str)]) -> RateHeaders {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            map.insert(HeaderName::from_static(name), value);
        }
        let response = ApiResponse {
            status,
            headers: map,
            body: Bytes::from_static(b"{}"),
        };
        RateHeaders::read(&response, NOW.parse().unwrap())
    }

    #[test]
    fn a_wait_is_read_and_a_date_is_counted_from_the_servers_own_clock() {
        let date = ("date", "Sun, 01 Mar 2020 08:00:00 GMT");
        let wait = ("retry-after", "Sun, 01 Mar 2020 08:00:45 GMT");
        let rate = read(503, &[wait, date]);
        assert_eq!(rate.retry_after, Some(Duration::from_secs(45)));
        assert_eq!(
            rate.server_time,
            Some("2020-03-01T08:00:00Z".parse().unwrap())
        );
        assert!(!rate.refused);
        let cached = read(503, &[wait, date, ("age", "7")]);
        assert_eq!(cached.server_time, None, "a cache repeats an old date");
        assert_eq!(cached.age, Duration::from_secs(7));
        assert_eq!(read(200, &[("age", "young")]).age, Duration::ZERO);
        let seconds = read(429, &[("retry-after", "17")]);
        assert_eq!(
            (seconds.retry_after, seconds.refused),
            (Some(Duration::from_secs(17)), true)
        );
        assert_eq!(read(429, &[("retry-after", "soon")]).retry_after, None);
    }

    #[test]
    fn counts_that_are_absent_or_absurd_are_ignored() {
        for (text, expected) in [
            ("60", Some(60)),
            (" 7 ", Some(7)),
            ("1000000", Some(1_000_000)),
            ("1000001", None),
            ("-1", None),
            ("many", None),
            ("", None),
            ("59.5", None),
            ("99999999999999999999", None),
        ] {
            let rate = read(
                200,
                &[("x-ratelimit-limit", text), ("x-ratelimit-remaining", text)],
            );
            assert_eq!(
                (rate.limit, rate.remaining),
                (expected, expected),
                "{text:?}"
            );
        }
        let spent = read(
            429,
            &[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")],
        );
        assert_eq!(
            (spent.limit, spent.remaining, spent.refused),
            (Some(0), Some(0), true)
        );
        assert_eq!(read(200, &[]), RateHeaders::default());
    }
}
