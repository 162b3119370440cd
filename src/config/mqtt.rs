//! The keys of a sink of type `mqtt`.
//!
//! The address may hold a password, so no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::Deserialize;

use super::address;
use super::sink_url::SinkUrl;
use super::table::Table;
use super::topic::{self, NameForm, NameTemplate};
use super::value::seconds;
use super::webhook::timeout;

const TOPIC: NameForm = NameForm { separator: '/', parts: &["{workspace}", "{route}", "{kind}"] };
const STATE: NameForm = NameForm { separator: '/', parts: &["{workspace}", "{route}", "{record}"] };

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
    /// Where each change is published.
    #[serde(default = "topic")]
    pub topic: NameTemplate,
    /// Where the newest version of each record is kept by the broker.
    pub state_topic: Option<NameTemplate>,
    /// The longest time until the broker acknowledges a batch.
    #[serde(default = "seconds::<20>")]
    pub timeout: Duration,
}

fn topic() -> NameTemplate {
    NameTemplate::of_text("shop/{workspace}/{route}/{kind}".to_owned())
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<MqttSettings> {
    let workspace = topic::workspace(table);
    let url = ("url", "the broker, for example \"mqtts://broker.example.com\"");
    let read: MqttSettings = table.read(&[url])?;
    if let Err(why) = address::mqtt(read.url.expose_secret(), read.allow_plain) {
        table.note("url", why);
    }
    timeout(table, read.timeout);
    let workspace = workspace?;
    let topic = read.topic.filled(table, "topic", &workspace, &TOPIC)?;
    let state_topic = match read.state_topic {
        None => None,
        Some(state) if state.has("{route}") && state.has("{record}") => {
            Some(state.filled(table, "state_topic", &workspace, &STATE)?)
        }
        Some(_) => {
            table.note("state_topic", "needs {route} and {record}: otherwise two records have one topic, for example \"shop/{workspace}/state/{route}/{record}\"");
            return None;
        }
    };
    let url = read.url.of_file(table.url_file.clone());
    Some(MqttSettings { url, topic, state_topic, ..read })
}
