//! Warns if this machine's clock and the workspace's differ: receivers refuse webhooks whose time
//! is minutes off.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Moment;

/// How far apart the clocks may be without a warning.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Compares the two clocks and logs each time they drift apart.
#[derive(Default)]
pub(super) struct Clocks {
    are_apart: bool,
}

impl Clocks {
    pub(super) fn compare(&mut self, server: Option<Timestamp>, now: Moment) {
        let Some(server) = server else { return };
        let difference = now.wall.duration_since(server).unsigned_abs();
        let are_apart = difference > TOLERANCE;
        if are_apart && !self.are_apart {
            tracing::warn!(
                seconds = difference.as_secs(),
                "this machine's clock and the workspace's differ: check time synchronisation"
            );
        }
        self.are_apart = are_apart;
    }
}
