//! Reads the keys of a sink of type `mqtt`.
//!
//! The address may hold a password, so no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::section::Section;
use super::topic::{NameForm, NameTemplate};
use super::webhook::TIMEOUT;
use super::{Base, secret_text, topic};

const DEFAULT_TOPIC: &str = "shop/{workspace}/{route}/{kind}";

/// `type = "mqtt"`
#[derive(Debug, Clone)]
pub struct MqttSettings {
    /// The broker, `mqtt://` or `mqtts://`. A secret, because it may contain a password.
    pub url: SecretString,
    /// A PEM file with the certificate authorities of the broker; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// Where each change is published.
    pub topic: NameTemplate,
    /// Where the newest version of each record is kept by the broker.
    pub state_topic: Option<NameTemplate>,
    /// The longest time until the broker acknowledges a batch.
    pub timeout: Duration,
}

impl PartialEq for MqttSettings {
    fn eq(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
            && self.ca_file == other.ca_file
            && self.topic == other.topic
            && self.state_topic == other.state_topic
            && self.timeout == other.timeout
    }
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(section: &mut Section<'_>, base: &Base) -> Option<MqttSettings> {
    if !section.holds("url") && !section.holds("url_file") {
        section.missing("url", "the broker, for example \"mqtts://broker.example.com\"");
    }
    let url = secret_text::read(section, base, "url", "url_file").and_then(|secret| {
        let problem = match Url::parse(secret.value.expose_secret()) {
            Ok(url) if url.scheme() == "mqtts" && url.has_host() => None,
            Ok(url) if url.scheme() == "mqtt" && url.has_host() => (!is_near(&url)).then_some(
                "must begin with mqtts://; mqtt:// is only for this machine, because records and \
                 password would cross the network in clear text",
            ),
            _ => Some("must be mqtts://user:password@host, or mqtt://127.0.0.1 on this machine"),
        };
        if let Some(problem) = problem {
            section.findings.note_secret(&secret.place, format!("`{}` {problem}", secret.key));
            return None;
        }
        Some(secret.value)
    });
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let workspace = topic::workspace(section);
    let form = NameForm { separator: '/', parts: &["{workspace}", "{route}", "{kind}"] };
    let topic = topic::read(section, "topic", DEFAULT_TOPIC, workspace.as_deref(), &form);
    let form = NameForm { separator: '/', parts: &["{workspace}", "{route}", "{record}"] };
    let wants_state = section.holds("state_topic");
    let state = topic::read(section, "state_topic", "{record}", workspace.as_deref(), &form);
    let timeout = section.duration("timeout", &TIMEOUT);
    Some(MqttSettings {
        url: url?,
        ca_file,
        topic: topic?,
        state_topic: state.filter(|_| wants_state),
        timeout: timeout.map_or(Duration::from_secs(20), |found| found.value),
    })
}

fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
