//! The budget as `status` and the page show it. Decides nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Budget;
use crate::clock::Moment;

/// From this length on, a rest is longer than the wait until the key has requests again.
pub const LONG_REST: Duration = Duration::from_secs(60);

/// The budget as people and tools see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct BudgetStatus {
    /// Requests a minute the key has for all of its clients.
    pub limit: u32,
    /// Our own requests in the last 60 seconds.
    pub used_last_60s: usize,
    /// `X-RateLimit-Remaining` of a response of the last minute.
    pub remaining_seen: Option<u32>,
    /// True if `X-RateLimit-Remaining` says 0 although requests are left: then it is not believed,
    /// and our own count decides.
    pub remaining_disproved: bool,
    /// What the other clients spend, requests a minute.
    pub others_per_minute: f64,
    /// What polls are granted now, requests a minute.
    pub pace_per_minute: f64,
    /// Seconds until a rest the server asked for ends.
    pub resting_s: Option<f64>,
}

impl BudgetStatus {
    /// Seconds of a rest of a minute or more, in which routes miss polls that the schedule counts
    /// on.
    #[must_use]
    pub fn long_rest_s(&self) -> Option<f64> {
        self.resting_s
            .filter(|rest_s| *rest_s >= LONG_REST.as_secs_f64())
    }
}

impl Budget {
    /// The state as people and tools see it.
    #[must_use]
    pub fn snapshot(&self, now: Moment) -> BudgetStatus {
        let at = now.elapsed.as_secs_f64();
        BudgetStatus {
            limit: self.limit(),
            used_last_60s: self.pace.sent_within(Duration::from_secs(60), now.elapsed),
            remaining_seen: self.others.last(at).map(|last| last.remaining as u32),
            remaining_disproved: self.header.is_disproved(),
            others_per_minute: self.others.mean(at),
            pace_per_minute: self.pace_per_minute(now),
            resting_s: self.resting(now).map(|rest| rest.as_secs_f64()),
        }
    }
}
