//! Compares this machine's clock with the workspace's, from the header `Date` of its responses.
//!
//! A wrong clock makes receivers refuse webhooks, and puts wrong times into the log.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Moment;
use crate::duration;

/// How far apart the clocks may be without a warning.
const TOLERANCE: Duration = Duration::from_secs(60);

/// By how many seconds this machine's clock is ahead of the server's, negative if it is behind;
/// `None` if they differ by a minute or less.
#[must_use]
pub fn clock_ahead_s(own: Timestamp, server: Timestamp) -> Option<f64> {
    let ahead = own.duration_since(server);
    (ahead.unsigned_abs() > TOLERANCE).then(|| ahead.as_secs_f64())
}

/// What to do about clocks that differ.
#[must_use]
pub fn clock_advice(ahead_s: f64) -> String {
    let side = if ahead_s > 0.0 { "ahead of" } else { "behind" };
    format!(
        "this machine's clock is {} {side} the workspace's: set it right, for example with `timedatectl set-ntp true`, because receivers refuse webhooks whose time is minutes off",
        duration::seconds(ahead_s.abs())
    )
}

/// The last comparison; logs each time the clocks drift apart.
#[derive(Default)]
pub(super) struct Clocks {
    ahead_s: Option<f64>,
}

impl Clocks {
    pub(super) fn compare(&mut self, server: Option<Timestamp>, now: Moment) {
        let Some(server) = server else { return };
        let ahead_s = clock_ahead_s(now.wall, server);
        if let (Some(ahead_s), None) = (ahead_s, self.ahead_s) {
            tracing::warn!("{}", clock_advice(ahead_s));
        }
        self.ahead_s = ahead_s;
    }

    pub(super) fn ahead_s(&self) -> Option<f64> {
        self.ahead_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_a_minute() {
        let own: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (server, ahead) in [
            ("2026-03-01T11:59:00Z", None),
            ("2026-03-01T12:01:00Z", None),
            ("2026-03-01T11:58:59Z", Some(61.0)),
            ("2026-03-02T12:00:00Z", Some(-86_400.0)),
        ] {
            assert_eq!(clock_ahead_s(own, server.parse().unwrap()), ahead, "{server}");
        }
        assert!(clock_advice(-86_400.0).contains("clock is 1d behind the workspace's"));
        assert!(clock_advice(300.0).contains("clock is 5m ahead of the workspace's"));
    }
}
