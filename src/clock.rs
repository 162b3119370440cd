//! The time a task sees: a monotonic reading for waits, a wall reading for people and files.
//!
//! Logic never reads the system's time itself. It is given a [`Clock`], so that a test can run
//! hours of work in a moment.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since the clock was made; never goes back. Every wait is measured in it.
    pub elapsed: Duration,
    /// The wall clock, which an administrator may step either way.
    pub wall: Timestamp,
}

impl Moment {
    /// The wall reading as RFC 3339 in UTC with six fraction digits, so that text sorts as time.
    #[must_use]
    pub fn stamp(&self) -> String {
        stamp(self.wall)
    }
}

/// A timestamp as RFC 3339 in UTC with six fraction digits.
#[must_use]
pub fn stamp(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Where moments come from.
///
/// Both readings follow tokio's clock, so a test that pauses it decides how time passes.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    wall: Wall,
}

/// Where the wall reading comes from.
#[derive(Debug, Clone)]
enum Wall {
    /// The machine's own clock, which an administrator may step.
    System,
    /// This time when the clock was made, and from then on as much later as time has passed.
    Virtual(Timestamp),
}

impl Clock {
    /// The system's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self { start: Instant::now(), wall: Wall::System }
    }

    /// A clock whose wall reads `wall` now and then follows tokio's time only. On a paused runtime
    /// the whole program runs on virtual time.
    #[must_use]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self { start: Instant::now(), wall: Wall::Virtual(wall) }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Moment {
        let elapsed = self.start.elapsed();
        let wall = match self.wall {
            Wall::System => Timestamp::now(),
            Wall::Virtual(start) => start.saturating_add(elapsed).unwrap_or(Timestamp::MAX),
        };
        Moment { elapsed, wall }
    }

    /// The tokio instant at which `elapsed` reads as given; for `sleep_until`.
    #[must_use]
    pub fn instant(&self, elapsed: Duration) -> Instant {
        self.start + elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_with_a_given_start_follows_virtual_time() {
        let start: Timestamp = "2026-01-02T23:59:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        assert_eq!(clock.now(), Moment { elapsed: Duration::ZERO, wall: start });
        let hour = Duration::from_secs(3600);
        tokio::time::sleep_until(clock.instant(hour)).await;
        assert_eq!(clock.now(), Moment { elapsed: hour, wall: start + hour });
    }
}
