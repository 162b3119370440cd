//! The time a task sees: a monotonic reading for waits, a wall reading for people and files.
//!
//! Logic never asks the system for the time itself, so that one test can run a year of it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since the clock was made; never goes back. Every wait is reckoned in it.
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
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// The system's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self { start: Instant::now() }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment { elapsed: self.start.elapsed(), wall: Timestamp::now() }
    }

    /// The tokio instant at which `elapsed` reads as given; for `sleep_until`.
    #[must_use]
    pub fn instant(&self, elapsed: Duration) -> Instant {
        self.start + elapsed
    }
}
