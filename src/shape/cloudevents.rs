//! CloudEvents 1.0: structured mode (one JSON document) and binary mode (attributes in headers).
//!
//! `id` is the event id and `source` the address of the workspace, so that a consumer of several
//! shops can tell equal ids apart. `partitionkey` is the record: its events are in order.

use serde::{Deserialize, Serialize};

use super::{JSON, Shaped, subject};
use crate::record::Change;

/// Where the attributes of an event stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In the body, beside the data.
    Structured,
    /// In headers; the body is the data.
    Binary,
}

/// Writes changes as CloudEvents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvents {
    /// Where the attributes stand.
    pub mode: Mode,
    /// The attribute `source`: a URI reference.
    pub source: String,
}

/// A change as a CloudEvent in structured mode. In binary mode the body is `data`, and the other
/// members are the headers `ce-…`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CloudEvent<'c> {
    /// The event id: the same for every retry, restart and replay of this change.
    id: &'c str,
    /// Always `1.0`.
    specversion: &'static str,
    /// What happened to what, for example `leads.created`.
    #[serde(rename = "type")]
    event_type: String,
    /// The address of the workspace, or what `source` in the configuration says.
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

impl CloudEvent<'_> {
    /// The attributes as headers.
    fn attributes(&self) -> Vec<(&'static str, String)> {
        [
            ("ce-id", self.id),
            ("ce-specversion", self.specversion),
            ("ce-type", &self.event_type),
            ("ce-source", self.source),
            ("ce-subject", &self.subject),
            ("ce-time", self.time),
            ("ce-partitionkey", &self.partitionkey),
            ("ce-sequence", &self.sequence),
        ]
        .map(|(name, value)| (name, header(value)))
        .into()
    }
}

/// The media type of structured mode.
const STRUCTURED: &str = "application/cloudevents+json";

impl CloudEvents {
    pub(super) fn shape(&self, change: &Change) -> Shaped {
        match self.mode {
            Mode::Structured => Shaped {
                body: self.structured(change),
                content_type: STRUCTURED.into(),
                headers: Vec::new(),
            },
            Mode::Binary => Shaped {
                body: change.data_json(),
                content_type: JSON.into(),
                headers: self.event(change).attributes(),
            },
        }
    }

    /// The whole event as one JSON object. It begins with the id.
    pub(super) fn structured(&self, change: &Change) -> String {
        serde_json::to_string(&self.event(change))
            .expect("a change holds valid JSON texts and plain values")
    }

    fn event<'c>(&'c self, change: &'c Change) -> CloudEvent<'c> {
        CloudEvent {
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
        }
    }
}

/// The value of an attribute in a header: everything but visible ASCII, and `"` and `%`, is percent
/// encoded (CloudEvents HTTP binding, 3.1.3.2).
fn header(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_graphic() && byte != b'"' && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_holds_visible_ascii_only() {
        assert_eq!(header("jobs/12"), "jobs/12");
        assert_eq!(header("a b\r\nX: \"é%\""), "a%20b%0D%0AX:%20%22%C3%A9%25%22");
    }
}
