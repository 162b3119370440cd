//! Reads the keys of a sink of type `nats`.
//!
//! The address may hold a password or a token, so no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::problem::repeated;
use super::section::{Found, Section};
use super::topic::{NameForm, NameTemplate};
use super::webhook::TIMEOUT;
use super::{Base, secret_text, topic};

const STREAM_MAX: usize = 64;
const DEFAULT_SUBJECT: &str = "shop.{workspace}.{route}.{kind}";

/// `type = "nats"`
#[derive(Debug, Clone)]
pub struct NatsSettings {
    /// The server, `nats://` or `tls://`. A secret, because it may contain a password.
    pub url: SecretString,
    /// A file with the credentials of the user, as `nsc` writes it.
    pub credentials_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The stream that takes the changes.
    pub stream: String,
    /// What each change is published as.
    pub subject: NameTemplate,
    /// The longest time until the server acknowledges a batch.
    pub timeout: Duration,
}

impl PartialEq for NatsSettings {
    fn eq(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
            && self.credentials_file == other.credentials_file
            && self.ca_file == other.ca_file
            && self.stream == other.stream
            && self.subject == other.subject
            && self.timeout == other.timeout
    }
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(section: &mut Section<'_>, base: &Base) -> Option<NatsSettings> {
    if !section.holds("url") && !section.holds("url_file") {
        section.missing("url", "the server, for example \"nats://127.0.0.1:4222\"");
    }
    let url =
        secret_text::read(section, base, "url", "url_file").and_then(|secret| {
            match Url::parse(secret.value.expose_secret()) {
                Ok(url) if ["nats", "tls"].contains(&url.scheme()) && url.has_host() => {
                    Some(secret.value)
                }
                _ => {
                    let message = format!(
                        "`{}` must be nats://host:4222, or tls:// for TLS from the first byte",
                        secret.key
                    );
                    section.findings.note_secret(&secret.place, message);
                    None
                }
            }
        });
    let credentials_file =
        secret_text::file(section, base, "credentials_file").map(|file| base.dir.join(file.value));
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let stream = stream(section);
    let workspace = topic::workspace(section);
    let form = NameForm { separator: '.', parts: &["{workspace}", "{route}", "{kind}"] };
    let subject = topic::read(section, "subject", DEFAULT_SUBJECT, workspace.as_deref(), &form);
    let timeout = section.duration("timeout", &TIMEOUT);
    Some(NatsSettings {
        url: url?,
        credentials_file,
        ca_file,
        stream: stream?,
        subject: subject?,
        timeout: timeout.map_or(Duration::from_secs(20), |found| found.value),
    })
}

fn stream(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("stream") {
        return Some("SHOP".to_owned());
    }
    let Found { value, place } = section.text("stream")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if value.len() > STREAM_MAX || !value.chars().all(legal) {
        let message = format!(
            "`stream` cannot be {}: use 1 to {STREAM_MAX} characters of a-z, A-Z, 0-9, _ and -",
            repeated(value)
        );
        section.findings.note(&place, message);
        return None;
    }
    Some(value.to_owned())
}
