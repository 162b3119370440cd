//! A status for tests of what is shown.

use serde_json::{from_value, json};

use super::WorkspaceStatus;

/// A running daemon with one poller, whose figures all differ.
pub(crate) fn with_leads() -> WorkspaceStatus {
    let plan = json!({
        "rate_per_hour": 20.0, "rate_low": 15.0, "rate_high": 26.0, "interval_s": 9.0,
        "kept_interval_s": 10.0, "longest_kept_s": 11.0, "guarantee_s": 24.0, "next_poll_s": 4.0,
        "import_per_minute": 242.0, "watched_s": 86_400.0, "overflows_seen": 1,
        "overflow_chance": 0.125, "at_risk": true, "reason": "its share", "horizon_s": 17_647.0,
    });
    let leads = json!({
        "route": "leads", "business": null, "state": "ok", "last_success_age_s": 6.0,
        "interval_s": 10.0, "next_poll_s": 4.0, "rate_per_hour": 20.0, "plan": plan, "gaps": 0,
        "failures": 0, "refused_pages": 0, "last_error": null, "last_error_text": null,
    });
    let status = json!({
        "health": "at_risk", "reasons": [], "running": true, "pid": 1, "reload_refused": null,
        "page": null, "at": "2026-03-01T12:00:00Z", "pollers": [leads], "last_run": null,
        "budget": null, "forecast": null, "sinks": [], "records": {}, "emptied": [], "last_seq": 0,
    });
    from_value(status).expect("it is a status")
}
