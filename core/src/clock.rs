//! The time a task sees: a monotonic reading for waits, a wall reading for people and files.
//!
//! Logic never reads the system's time itself. It is given a [`Clock`], so that a test can run
//! hours of work in a moment.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A minute of a key, and half a second for what the network delays: a server that counts a minute
/// sees no more requests than were sent in this time.
pub const KEY_MINUTE: Duration = Duration::from_millis(60_500);

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

/// A time in UTC to the second without a zone, as texts of the mirror are compared with it.
#[must_use]
pub fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// The boot of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// Another one after each boot; empty if it cannot be read.
    pub id: String,
    /// How long ago it was, with the time in which the machine slept.
    pub age: Duration,
}

/// A reading that another process can measure from: by the clock of the machine's boot, which
/// nobody sets and which continues while the machine sleeps, or across a boot by the wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineTime {
    boot_id: String,
    since_boot: Duration,
    wall: Timestamp,
}

impl MachineTime {
    /// A reading of both clocks of the boot with this id.
    #[must_use]
    pub fn new(boot_id: String, since_boot: Duration, wall: Timestamp) -> Self {
        Self {
            boot_id,
            since_boot,
            wall,
        }
    }

    /// How long ago `earlier` was. Across a boot it is at least the time since that, whatever the
    /// wall clock says; nothing if the boot of one of them is not known.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        if self.boot_id.is_empty() || earlier.boot_id.is_empty() {
            return Duration::ZERO;
        }
        if self.boot_id == earlier.boot_id {
            return self.since_boot.saturating_sub(earlier.since_boot);
        }
        let by_wall = Duration::try_from(self.wall.duration_since(earlier.wall));
        by_wall.unwrap_or_default().max(self.since_boot)
    }

    /// How long ago a process that ran at `earlier` has ended at the least: before the last boot.
    #[must_use]
    pub fn least_since(&self, earlier: &Self) -> Duration {
        let is_unknown = self.boot_id.is_empty() || earlier.boot_id.is_empty();
        if is_unknown || self.boot_id == earlier.boot_id {
            Duration::ZERO
        } else {
            self.since_boot
        }
    }
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
        Self {
            start: Instant::now(),
            wall: Wall::System,
        }
    }

    /// A clock whose wall reads `wall` now and then follows tokio's time only. On a paused runtime
    /// the whole program runs on virtual time.
    #[must_use]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            start: Instant::now(),
            wall: Wall::Virtual(wall),
        }
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

    /// A reading that another process can measure from. `read_boot` reads the machine's boot; on
    /// virtual time it is not called.
    #[must_use]
    pub fn machine_time(&self, read_boot: impl FnOnce() -> Boot) -> MachineTime {
        let Moment { elapsed, wall } = self.now();
        match self.wall {
            Wall::System => {
                let boot = read_boot();
                MachineTime::new(boot.id, boot.age, wall)
            }
            Wall::Virtual(_) => MachineTime::new("virtual".to_owned(), elapsed, wall),
        }
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

    #[test]
    fn a_wall_clock_that_is_set_moves_nothing_within_one_boot() {
        let at = |boot: &str, since_boot, wall: &str| {
            let since_boot = Duration::from_secs(since_boot);
            MachineTime::new(boot.to_owned(), since_boot, wall.parse().unwrap())
        };
        let noted = at("a", 1000, "2026-03-01T12:00:00Z");
        let since = |now: MachineTime| {
            (
                now.since(&noted).as_secs(),
                now.least_since(&noted).as_secs(),
            )
        };
        assert_eq!(since(at("a", 1040, "2026-03-01T11:00:00Z")), (40, 0));
        assert_eq!(since(at("a", 1040, "2026-03-01T13:00:00Z")), (40, 0));
        assert_eq!(since(at("b", 20, "2026-03-01T12:00:50Z")), (50, 20));
        assert_eq!(since(at("b", 20, "1970-01-01T00:00:20Z")), (20, 20));
        assert_eq!(
            since(at("", 5000, "2026-03-01T14:00:00Z")),
            (0, 0),
            "the boot is not known"
        );
    }
}
