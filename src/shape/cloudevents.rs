//! CloudEvents 1.0 in structured mode: one JSON document.
//!
//! `id` is the event id and `source` the address of the workspace, so that a consumer of several
//! shops can tell equal ids apart. `partitionkey` is the record: its events are in order.

use serde::Serialize;
use shopmirror_core::record::Change;

use super::{JSON, Shaped, subject};

/// Writes changes as CloudEvents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvents {
    /// The attribute `source`: a URI reference.
    pub source: String,
}

/// A change as a CloudEvent.
#[derive(Serialize)]
pub(crate) struct CloudEvent<'c> {
    /// The event id: the same for every retry, restart and replay of this change.
    id: &'c str,
    /// Always `1.0`.
    specversion: &'static str,
    /// What happened to what, for example `leads.created`.
    #[serde(rename = "type")]
    event_type: String,
    /// The address of the workspace.
    source: &'c str,
    /// What the change is about: `leads/12`; for a gap, the route.
    subject: String,
    /// When the page that showed the change was read (RFC 3339, UTC, microseconds).
    time: &'c str,
    /// The same as `subject`: events with one key are in order.
    partitionkey: String,
    /// The number of the change in the log, as text.
    sequence: String,
    /// Always `application/json`.
    datacontenttype: &'static str,
    /// The change.
    data: &'c Change,
}

/// The media type of structured mode.
const STRUCTURED: &str = "application/cloudevents+json";

impl CloudEvents {
    pub(super) fn shape(&self, change: &Change) -> Shaped {
        Shaped::new(self.structured(change), STRUCTURED)
    }

    /// The whole event as one JSON object. It begins with the id.
    pub(super) fn structured(&self, change: &Change) -> String {
        let event = CloudEvent {
            id: &change.event_id,
            specversion: "1.0",
            event_type: change.event_type(),
            source: &self.source,
            subject: subject(change),
            time: &change.observed_at,
            partitionkey: subject(change),
            sequence: change.seq.to_string(),
            datacontenttype: JSON,
            data: change,
        };
        serde_json::to_string(&event).expect("a change holds valid JSON texts and plain values")
    }
}
