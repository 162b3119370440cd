//! What the tests of other modules share: a change.

use super::{Change, Kind, Route};

/// The first version of a lead, with this body.
#[must_use]
pub fn change(body: &str) -> Change {
    Change {
        seq: 7,
        event_id: "evt_1".into(),
        route: Route::Leads,
        record_id: Some("12".into()),
        kind: Kind::Created,
        version: 1,
        observed_at: "2026-01-02T03:04:05.000000Z".into(),
        business: None,
        body: body.into(),
        before: None,
        job: None,
    }
}
