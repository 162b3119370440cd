//! The keys of a sink of type `nats`.
//!
//! The address may hold a password or a token, so no message repeats it.

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

const FORM: NameForm = NameForm { separator: '.', parts: &["{workspace}", "{route}", "{kind}"] };

/// `type = "nats"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct NatsSettings {
    /// The server, `nats://` or `tls://`. A secret, because it may contain a password.
    pub url: SinkUrl,
    /// A file with the credentials of the user, as `nsc` writes it.
    pub credentials_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The stream that takes the changes.
    #[serde(default = "stream", deserialize_with = "topic::word")]
    pub stream: String,
    /// What each change is published as.
    #[serde(default = "subject")]
    pub subject: NameTemplate,
    /// The longest time until the server acknowledges a batch.
    #[serde(default = "seconds::<20>")]
    pub timeout: Duration,
}

fn stream() -> String {
    "SHOP".to_owned()
}

fn subject() -> NameTemplate {
    NameTemplate::of_text("shop.{workspace}.{route}.{kind}".to_owned())
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<NatsSettings> {
    let workspace = topic::workspace(table);
    let url = ("url", "the server, for example \"nats://127.0.0.1:4222\"");
    let read: NatsSettings = table.read(&[url])?;
    if let Err(why) = address::nats(read.url.expose_secret()) {
        table.note("url", why);
    }
    timeout(table, read.timeout);
    let subject = read.subject.filled(table, "subject", &workspace?, &FORM)?;
    let url = read.url.of_file(table.url_file.clone());
    Some(NatsSettings { url, subject, ..read })
}
