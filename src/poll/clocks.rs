//! Compares this machine's clock with the workspace's, from the header `Date` of its responses.
//!
//! A wrong clock makes receivers refuse webhooks, and puts wrong times into the log. It must not
//! delete what is not old, nor delay backups: those follow the workspace's clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use shopmirror_core::clock::Moment;

use crate::text::duration;

/// How far apart the clocks may be without a warning.
const TOLERANCE: Duration = Duration::from_secs(60);

/// By how many seconds this machine's clock is ahead of the server's, negative if it is behind;
/// `None` if they differ by a minute or less.
#[must_use]
pub fn clock_ahead_s(own: Timestamp, server: Timestamp) -> Option<f64> {
    let ahead = own.duration_since(server);
    if ahead.unsigned_abs() > TOLERANCE {
        Some(ahead.as_secs_f64())
    } else {
        None
    }
}

/// What to do about clocks that differ.
#[must_use]
pub fn clock_advice(ahead_s: f64) -> String {
    let side = if ahead_s > 0.0 { "ahead of" } else { "behind" };
    format!(
        "this machine's clock is {} {side} the workspace's: set it right, for example with \
         `timedatectl set-ntp true`, because receivers refuse webhooks whose time is minutes off",
        duration::seconds(ahead_s.abs())
    )
}

/// The last comparison, shared with the tasks that must not trust a wrong clock; none before the
/// first response.
#[derive(Debug, Clone, Default)]
pub struct Clocks(Arc<Mutex<Option<Comparison>>>);

/// The workspace named the time `server` when `elapsed` had passed here. If this machine's clock
/// differed by more than a minute, it was `ahead_s` seconds ahead, or behind if negative.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    server: Timestamp,
    elapsed: Duration,
    ahead_s: Option<f64>,
}

impl Clocks {
    /// Compares with the time that a response names, and logs each time the clocks drift apart.
    pub(crate) fn compare(&self, server: Timestamp, now: Moment) {
        let ahead_s = clock_ahead_s(now.wall, server);
        if let (Some(ahead_s), None) = (ahead_s, self.ahead_s()) {
            tracing::warn!("{}", clock_advice(ahead_s));
        }
        *self.last() = Some(Comparison {
            server,
            elapsed: now.elapsed,
            ahead_s,
        });
    }

    pub(super) fn ahead_s(&self) -> Option<f64> {
        (*self.last())?.ahead_s
    }

    /// The time by the workspace's clock; `None` before the first page. A clock that is set
    /// meanwhile does not move it.
    #[must_use]
    pub fn workspace_time(&self, now: Moment) -> Option<Timestamp> {
        let Comparison {
            server, elapsed, ..
        } = (*self.last())?;
        let passed = now.elapsed.saturating_sub(elapsed);
        let there = server.checked_add(passed).ok()?;
        let differs = clock_ahead_s(now.wall, there).is_some();
        Some(if differs { there } else { now.wall })
    }

    fn last(&self) -> MutexGuard<'_, Option<Comparison>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_workspace_continues_although_this_clock_is_set() {
        let at = |seconds: u64, wall: &str| Moment {
            elapsed: Duration::from_secs(seconds),
            wall: wall.parse().unwrap(),
        };
        let shown = |clocks: &Clocks, now| clocks.workspace_time(now).map(|at| at.to_string());
        let wrong = at(10, "2028-03-01T12:00:00Z");
        let clocks = Clocks::default();
        assert_eq!(shown(&clocks, wrong), None);
        clocks.compare(wrong.wall, wrong);
        assert_eq!(
            shown(&clocks, wrong).unwrap(),
            "2028-03-01T12:00:00Z",
            "it names no time"
        );
        clocks.compare("2026-10-01T12:00:00Z".parse().unwrap(), wrong);
        assert_eq!(shown(&clocks, wrong).unwrap(), "2026-10-01T12:00:00Z");
        let set_right = at(70, "2026-10-01T12:01:03Z");
        assert_eq!(shown(&clocks, set_right).unwrap(), "2026-10-01T12:01:03Z");
        let set_back = at(130, "1970-01-01T00:00:00Z");
        assert_eq!(shown(&clocks, set_back).unwrap(), "2026-10-01T12:02:00Z");
    }
}
