//! The keys of a sink of type `nats`.
//!
//! The address may hold a password or a token, so no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::address;
use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{SHOP, seconds, timeout, word};

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
    #[serde(default = "stream", deserialize_with = "word")]
    pub stream: String,
    /// The name of the shop in each subject.
    #[serde(deserialize_with = "word")]
    pub workspace: String,
    /// The longest time until the server acknowledges a batch.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

fn stream() -> String {
    "SHOP".to_owned()
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<NatsSettings> {
    let url = ("url", "the server, for example \"nats://127.0.0.1:4222\"");
    let mut read: NatsSettings = table.read(&[url, SHOP])?;
    table.url(&mut read.url, address::nats);
    Some(read)
}
