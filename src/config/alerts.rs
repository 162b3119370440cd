//! `[alerts]`: which sinks are told when something is wrong.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::sinks::Sinks;
use super::table::Table;

/// `[alerts]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct AlertsSettings {
    /// The sinks that are told; empty if none is.
    #[serde(rename = "sink", default, deserialize_with = "names")]
    pub sinks: Vec<String>,
}

/// The section; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, sinks: &Sinks) -> Option<AlertsSettings> {
    let read: AlertsSettings = table.read(&[])?;
    for name in &read.sinks {
        sinks.check_notified(table, name);
    }
    Some(read)
}

/// One name, or a list of names.
fn names<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(d)? {
        Value::String(name) => Ok(vec![name]),
        list => serde_json::from_value(list)
            .map_err(|_| D::Error::custom("must be the name of a sink, or a list of names")),
    }
}
