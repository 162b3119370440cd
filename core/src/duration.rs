//! Writes a length of time for people: `250ms`, `1.5s`, `12s`, `5m`, `2h 25m`, `1d 3h`. Pure.
//!
//! Every command, message and page uses this form, and the configuration reads it.

use std::time::Duration;

const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
/// A longer time is shown as this.
const MAX_SECONDS: f64 = 1e12;

/// The two largest units, rounded.
#[must_use]
pub fn text(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// As [`text`], from a number of seconds; a negative number counts as zero.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, MAX_SECONDS);
    if seconds < 0.9995 {
        return match (seconds * 1000.0).round() as u64 {
            0 => "0s".to_owned(),
            thousandths => format!("{thousandths}ms"),
        };
    }
    let tenths = (seconds * 10.0).round() as u64;
    if tenths < 100 && !tenths.is_multiple_of(10) {
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    let grain = match seconds.round() as u64 {
        s if s >= 86_400 => 3600,
        s if s >= 3600 => 60,
        _ => 1,
    };
    whole((seconds / grain as f64).round() as u64 * grain)
}

/// All units, nothing rounded: for a value of the configuration.
#[must_use]
pub fn exact(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (0, 0) => "0s".to_owned(),
        (0, thousandths) => format!("{thousandths}ms"),
        (seconds, 0) => whole(seconds),
        (seconds, thousandths) => format!("{} {thousandths}ms", whole(seconds)),
    }
}

fn whole(seconds: u64) -> String {
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, name) in UNITS {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Reads a number per second, minute or hour, such as `10/s`, `100/m` or `1000/h`, as one per
/// second; from 1/h to 1000000/s.
#[must_use]
pub fn rate(text: &str) -> Option<f64> {
    let (number, seconds) = match text.split_once('/') {
        None | Some((_, "s")) => (text.trim_end_matches("/s"), 1.0),
        Some((number, "m")) => (number, 60.0),
        Some((number, "h")) => (number, 3600.0),
        Some(_) => return None,
    };
    let rate = number.parse::<f64>().ok()? / seconds;
    (1.0 / 3600.0..=1_000_000.0).contains(&rate).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_its_two_largest_units() {
        for (time, wanted) in [
            (-1.0, "0s"),
            (0.25, "250ms"),
            (0.9999, "1s"),
            (1.5, "1.5s"),
            (9.97, "10s"),
            (59.6, "1m"),
            (95.0, "1m 35s"),
            (3599.7, "1h"),
            (97_200.0, "1d 3h"),
            (f64::INFINITY, "11574074d 2h"),
        ] {
            assert_eq!(seconds(time), wanted, "{time}");
        }
    }

    #[test]
    fn an_exact_time_is_read_back_as_the_same_time() {
        for thousandths in [0, 1, 999, 1000, 1500, 61_000, 90_061_001, 34_560_000_000] {
            let time = Duration::from_millis(thousandths);
            assert_eq!(
                humantime::parse_duration(&exact(time)),
                Ok(time),
                "{}",
                exact(time)
            );
        }
    }

    #[test]
    fn a_rate_is_per_second_minute_or_hour() {
        for (text, expected) in [
            ("10/s", 10.0),
            ("10", 10.0),
            ("0.5/s", 0.5),
            ("120/m", 2.0),
            ("3600/h", 1.0),
        ] {
            assert_eq!(rate(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "10/d",
            "fast",
            "inf",
            "2000000/s",
            "0.1/h",
            "10/",
            "/s",
        ] {
            assert_eq!(rate(text), None, "{text}");
        }
    }
}
