//! `[alerts]`: which sinks are told when something is wrong.

use serde::{Deserialize, Deserializer};

use super::sinks::Sinks;
use super::table::Table;
use super::value::{line, lines};

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
    struct Names;
    impl<'de> serde::de::Visitor<'de> for Names {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the name of a sink, or a list of names")
        }
        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
            use serde::de::IntoDeserializer;
            line::<_, String>(name.into_deserializer()).map(|name| vec![name])
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            lines(serde::de::value::SeqAccessDeserializer::new(list))
        }
    }
    d.deserialize_any(Names)
}
