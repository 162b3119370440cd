//! The shop's week: when it is open, and how busy each hour is.
//!
//! Pure arithmetic over the sandbox's clock. Unless a time zone is named, the shop is in the one
//! that makes the sandbox start on a Tuesday at half past ten, so that it is open then. A shop in a
//! named zone is open from the start on, also at night.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
const OPENS: f64 = 9.0 * HOUR;
const CLOSES: f64 = 19.0 * HOUR;
/// The shortest wait: a shorter one may be rounded to none, and the shop would never open.
const MOMENT: f64 = 1e-6;
/// The hour of the start, unless a zone is named.
const START_HOUR: f64 = 10.5 * HOUR;
/// The days from the start, a Tuesday unless a zone is named, until Sunday.
const UNTIL_SUNDAY: i64 = 5;

/// The shop's opening hours, anchored at the sandbox's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    start: Timestamp,
    /// The second of the day at the start.
    start_second: f64,
    /// The days from the start until Sunday.
    until_sunday: i64,
    /// Whether the shop never closes after the start.
    stays_open: bool,
}

/// `at` and some seconds more.
pub(super) fn later(at: Timestamp, seconds: f64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs_f64(seconds))
        .unwrap_or(Timestamp::MAX)
}

impl Day {
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            start,
            start_second: START_HOUR,
            until_sunday: UNTIL_SUNDAY,
            stays_open: false,
        }
    }

    /// The hours of a shop in this zone, which stays open from the start on.
    pub(super) fn in_zone(start: Timestamp, zone: &TimeZone) -> Self {
        let local = start.to_zoned_datetime(zone.clone());
        let midnight = local.start_of_day().map_or(start, |day| day.timestamp());
        let weekday = i64::from(local.weekday().to_monday_zero_offset());
        Self {
            start,
            start_second: start.duration_since(midnight).as_secs_f64(),
            until_sunday: 6 - weekday,
            stays_open: true,
        }
    }

    fn local(self, at: Timestamp) -> (i64, f64) {
        let seconds = at.duration_since(self.start).as_secs_f64() + self.start_second;
        let day = (seconds / DAY).floor();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a day number of jiff's time span"
        )]
        (day as i64, seconds - day * DAY)
    }

    fn is_sunday(self, day: i64) -> bool {
        (day - self.until_sunday).rem_euclid(7) == 0
    }

    fn closes_in(self, at: Timestamp) -> Option<f64> {
        if self.stays_open && at >= self.start {
            return Some(f64::INFINITY);
        }
        let (day, second) = self.local(at);
        let open = !self.is_sunday(day) && (OPENS..CLOSES).contains(&second);
        open.then_some(CLOSES - second)
    }

    fn next_opening(self, at: Timestamp) -> Timestamp {
        let (day, second) = self.local(at);
        let mut wait = OPENS - second;
        let mut day = day;
        while wait <= 0.0 || self.is_sunday(day) {
            wait += DAY;
            day += 1;
        }
        let opening = later(at, wait.max(MOMENT));
        if self.stays_open && at < self.start {
            return opening.min(self.start);
        }
        opening
    }

    /// The time after this many seconds of opening time.
    pub(super) fn after(self, at: Timestamp, open_seconds: f64) -> Timestamp {
        let mut at = at;
        let mut left = open_seconds;
        loop {
            match self.closes_in(at) {
                Some(until) if left < until => return later(at, left),
                Some(until) => {
                    left -= until;
                    at = self.next_opening(later(at, until));
                }
                None => at = self.next_opening(at),
            }
        }
    }

    /// How many customers come at this hour, relative to the mean.
    pub(super) fn rush(self, at: Timestamp) -> f64 {
        let (_, second) = self.local(at);
        match second / HOUR {
            hour if (12.0..14.0).contains(&hour) => 1.6,
            hour if (17.0..18.5).contains(&hour) => 2.0,
            _ => 1.0,
        }
    }

    /// The next half past seven in the morning, when the night's list is imported.
    pub(super) fn next_import(self, at: Timestamp) -> Timestamp {
        let (_, second) = self.local(at);
        let wait = 7.5 * HOUR - second;
        later(at, if wait > 0.0 { wait } else { wait + DAY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn work_left_at_closing_time_goes_on_in_the_morning() {
        let day = Day::new(START);
        assert_eq!(day.after(START, 60.0), later(START, 60.0));
        let ten_hours = day.after(START, 10.0 * HOUR);
        assert_eq!(
            ten_hours,
            later(START, 24.0 * HOUR),
            "half past ten the next day"
        );
    }

    #[test]
    fn on_sunday_no_one_works() {
        let day = Day::new(START);
        let saturday_close = later(START, 4.0 * DAY + 8.5 * HOUR);
        let opening = later(START, 6.0 * DAY - 1.5 * HOUR);
        assert_eq!(day.after(saturday_close, 1.0), later(opening, 1.0));
    }

    #[test]
    fn a_shop_in_a_zone_has_its_hours_there_until_the_start_and_is_open_then() {
        let night = "2026-03-01T23:30:00Z".parse().unwrap();
        let day = Day::in_zone(night, &TimeZone::get("Europe/Berlin").unwrap());
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        // The Friday before, from 18 o'clock in Berlin: closed at 19, and again on Sunday.
        let evening = at("2026-02-27T17:00:00Z");
        assert_eq!(day.after(evening, 2.0 * HOUR), at("2026-02-28T09:00:00Z"));
        let saturday = at("2026-02-28T17:30:00Z");
        assert_eq!(day.after(saturday, HOUR), later(night, 0.5 * HOUR));
        assert_eq!(day.after(night, 60.0), later(night, 60.0));
    }

    #[test]
    fn the_shop_opens_in_the_morning_however_the_start_is_rounded() {
        for nanosecond in (0..1_000_000_000).step_by(1_234_567) {
            let start = Timestamp::new(1_795_000_000, nanosecond).unwrap();
            let day = Day::in_zone(start, &TimeZone::UTC);
            let past = later(start, -6e6);
            assert!(day.after(past, 9e5) > past);
        }
    }

    #[test]
    fn an_import_is_always_ahead() {
        let day = Day::new(START);
        let first = day.next_import(START);
        assert_eq!(first, later(START, 21.0 * HOUR));
        assert_eq!(day.next_import(first), later(first, DAY));
    }
}
