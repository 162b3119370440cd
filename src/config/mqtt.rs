//! The keys of a sink of type `mqtt`.
//!
//! The address may hold a password, so no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::address;
use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{SHOP, seconds, timeout, word};

/// `type = "mqtt"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MqttSettings {
    /// The broker, `mqtt://` or `mqtts://`. A secret, because it may contain a password.
    pub url: SinkUrl,
    /// Whether an address of the local network may be without TLS.
    #[serde(default)]
    pub allow_plain: bool,
    /// A PEM file with the certificate authorities of the broker; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The name of the shop in each topic.
    #[serde(deserialize_with = "word")]
    pub workspace: String,
    /// Whether the broker also keeps the newest version of each record.
    #[serde(default)]
    pub keep_states: bool,
    /// The longest time until the broker acknowledges a batch.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<MqttSettings> {
    let url = ("url", "the broker, for example \"mqtts://broker.example.com\"");
    let mut read: MqttSettings = table.read(&[url, SHOP])?;
    table.url(&mut read.url, |text| address::mqtt(text, read.allow_plain));
    Some(read)
}
