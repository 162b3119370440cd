//! CloudEvents 1.0: structured mode (one JSON document) and binary mode (attributes in headers).
//!
//! `id` is the event id and `source` the address of the workspace, so that a consumer of several
//! shops can tell equal ids apart. `partitionkey` is the record: its events are in order.

use serde::{Deserialize, Serialize};

use super::{JSON, Shaped, quoted, subject};
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
                headers: self.attributes(change).map(|(name, value)| (name, header(&value))).into(),
            },
        }
    }

    /// The whole event as one JSON object. It begins with the id.
    pub(super) fn structured(&self, change: &Change) -> String {
        let mut text = String::from("{");
        for (name, value) in self.attributes(change) {
            let name = name.strip_prefix("ce-").unwrap_or(name);
            text.push_str(&format!("\"{name}\":{},", quoted(&value)));
        }
        let data = change.data_json();
        text.push_str(&format!("\"datacontenttype\":\"{JSON}\",\"data\":{data}}}"));
        text
    }

    fn attributes(&self, change: &Change) -> [(&'static str, String); 8] {
        [
            ("ce-id", change.event_id.clone()),
            ("ce-specversion", "1.0".to_owned()),
            ("ce-type", change.event_type()),
            ("ce-source", self.source.clone()),
            ("ce-subject", subject(change)),
            ("ce-time", change.observed_at.clone()),
            ("ce-partitionkey", subject(change)),
            ("ce-sequence", change.seq.to_string()),
        ]
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
