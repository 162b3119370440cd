//! Whether the mirror is fresh, which means that every poller was read in time: what `/readyz` returns. Pure.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::snapshot::Snapshot;
use super::text::shown;
use crate::duration;
use crate::status::{Health, WorkspaceStatus, is_stale};

/// `fresh`, or 503 with the reasons.
pub(super) fn respond(snapshot: &Snapshot) -> Response {
    let hindrances = hindrances(&snapshot.status);
    if hindrances.is_empty() {
        return "fresh\n".into_response();
    }
    let lines: String = hindrances.iter().map(|why| format!("{}\n", shown(why))).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

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
