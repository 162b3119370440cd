//! The shop's week: when it is open, and how busy each hour is.
//!
//! Pure arithmetic over the sandbox's clock. The shop is in the time zone that makes the
//! sandbox start on a Tuesday at half past ten, so that the shop is open whenever the
//! sandbox starts.

use jiff::{SignedDuration, Timestamp};

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
const OPENS: f64 = 9.0 * HOUR;
const CLOSES: f64 = 19.0 * HOUR;
const START_OF_DAY_OFFSET: f64 = 10.5 * HOUR;
/// Days counted from the Tuesday of the start on which the week's Sunday falls.
const SUNDAY: i64 = 5;

/// The shop's opening hours, anchored at the sandbox's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    start: Timestamp,
}

/// `at` and some seconds more.
pub(super) fn later(at: Timestamp, seconds: f64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs_f64(seconds))
        .unwrap_or(Timestamp::MAX)
}

impl Day {
    pub(super) fn new(start: Timestamp) -> Self {
        Self { start }
    }

    fn local(self, at: Timestamp) -> (i64, f64) {
        let seconds = at.duration_since(self.start).as_secs_f64() + START_OF_DAY_OFFSET;
        let day = (seconds / DAY).floor();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a day number of jiff's time span"
        )]
        (day as i64, seconds - day * DAY)
    }

    fn closes_in(self, at: Timestamp) -> Option<f64> {
        let (day, second) = self.local(at);
        let open = day.rem_euclid(7) != SUNDAY && (OPENS..CLOSES).contains(&second);
        open.then_some(CLOSES - second)
    }

    fn next_opening(self, at: Timestamp) -> Timestamp {
        let (day, second) = self.local(at);
        let mut wait = OPENS - second;
        let mut day = day;
        while wait <= 0.0 || day.rem_euclid(7) == SUNDAY {
            wait += DAY;
            day += 1;
        }
        later(at, wait)
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
    fn an_import_is_always_ahead() {
        let day = Day::new(START);
        let first = day.next_import(START);
        assert_eq!(first, later(START, 21.0 * HOUR));
        assert_eq!(day.next_import(first), later(first, DAY));
    }
}
