//! Whether the mirror is fresh: what `/readyz` returns. Pure.

use crate::duration;
use crate::status::{Health, WorkspaceStatus, is_stale};

/// Why the mirror is not fresh; empty if it is.
///
/// Open gaps and sinks that are behind do not count: what is read is read in time.
pub(super) fn hindrances(status: &WorkspaceStatus) -> Vec<String> {
    let mut found = Vec::new();
    if status.health == Health::Failing {
        found.extend(status.reasons.iter().cloned());
    }
    for poller in &status.pollers {
        if poller.last_success_age_s.is_none() {
            let why = if poller.last_success_unknown {
                "when it was read last is unknown, because the clock was ahead"
            } else {
                "not read yet"
            };
            found.push(format!("{}: {why}", poller.name()));
        } else if is_stale(poller) {
            let age = poller.last_success_age_s.unwrap_or_default();
            found.push(format!(
                "{}: nothing was read for {}",
                poller.name(),
                duration::seconds(age)
            ));
        }
    }
    found
}
