//! The keys of a sink of type `webhook`: address, signing secrets, headers.
//!
//! The address and the values of headers are secrets: no message repeats them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use secrecy::ExposeSecret;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::proxy::Proxy;
use super::secret::Secret;
use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{in_file, number, seconds, timeout, within};
use super::{address, proxy, shape};
use crate::shape::Format;

/// Headers that say where a request begins and ends, and what becomes of its connection: a value of
/// the configuration would cut the body or mix two requests.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// How the headers begin by which a receiver recognises a change and its sender.
const IDENTIFYING: [&str; 2] = ["webhook-", "shopmirror-"];

/// `type = "webhook"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WebhookSettings {
    /// Where to post. A secret, because such addresses often contain a token.
    #[serde(skip)]
    pub url: SinkUrl,
    /// Whether an address of the local network may be without TLS.
    #[serde(default)]
    pub allow_plain: bool,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The proxy through which the address is reached.
    #[serde(skip)]
    pub proxy: Option<Proxy>,
    /// The host that shows the result of a request to which the endpoint answers 302 or 303;
    /// `None`: no redirect is followed.
    pub redirect_host: Option<String>,
    /// Signing secrets, `whsec_…`, newest first. Each adds a signature; empty means unsigned.
    #[serde(rename = "secret_file", default, deserialize_with = "signing_secrets")]
    pub secrets: Vec<Secret>,
    /// The shape of the body.
    #[serde(skip)]
    pub format: Format,
    /// Further fixed headers.
    #[serde(default, deserialize_with = "headers")]
    pub headers: HeaderMap,
    /// The longest time that one attempt may take.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
    /// How many changes may be in flight at the same time.
    #[serde(default = "number::<4, _>", deserialize_with = "within::<1, 64, _, _>")]
    pub concurrency: usize,
}

/// The webhook; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, source: &str) -> Option<WebhookSettings> {
    let format = shape::read(table, source);
    note_own_headers(table);
    let proxy = proxy::read(table);
    let read: WebhookSettings = table.read(&[])?;
    let url = SinkUrl::from_table(table, |text| address::webhook(text, read.allow_plain));
    let url = url?;
    if is_plain(&url) {
        proxy::note_plain(table, proxy.as_ref());
    }
    Some(WebhookSettings {
        format: format?,
        proxy,
        url,
        ..read
    })
}

/// True if an address is reached without TLS.
fn is_plain(url: &SinkUrl) -> bool {
    let Ok(text) = url.read() else {
        return false;
    };
    match Url::parse(text.expose_secret()) {
        Ok(url) => url.scheme() == "http",
        Err(_) => false,
    }
}

/// Notes each header that the program alone may write.
fn note_own_headers(table: &Table<'_>) {
    let Some(headers) = table.entries.get("headers") else {
        return;
    };
    let Some(headers) = headers.get_ref().as_table() else {
        return;
    };
    for key in headers.keys() {
        let name = key.get_ref().to_ascii_lowercase();
        let why = if FRAMING.contains(&name.as_str()) {
            "frames the request, and is written for each"
        } else if IDENTIFYING.iter().any(|start| name.starts_with(start)) {
            "identifies the change and its sender, and is written for each"
        } else {
            continue;
        };
        let message = format!("`headers` cannot have {name}: it {why}; remove it");
        table.note_inside(&["headers", key.get_ref()], message);
    }
}

/// The secrets in a file, one a line. Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes.
fn signing_secrets<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Secret>, D::Error> {
    in_file(d, |text| {
        let mut secrets = Vec::new();
        for word in text.split_whitespace() {
            if !is_signing_secret(word) {
                return Err(no_signing_secret(secrets.len() + 1));
            }
            secrets.push(Secret::from(word));
        }
        if secrets.is_empty() {
            return Err(no_signing_secret(1));
        }
        Ok(secrets)
    })
}

fn is_signing_secret(word: &str) -> bool {
    let Some(encoded) = word.strip_prefix("whsec_") else {
        return false;
    };
    match STANDARD.decode(encoded) {
        Ok(bytes) => (24..=64).contains(&bytes.len()),
        Err(_) => false,
    }
}

fn no_signing_secret(number: usize) -> String {
    format!(
        "names a file whose secret {number} is not whsec_ and the base64 of 24 to 64 bytes; make \
         one with: echo whsec_$(openssl rand -base64 32)"
    )
}

/// Names and values. The name may be a secret, if name and value were swapped.
fn headers<'de, D: Deserializer<'de>>(d: D) -> Result<HeaderMap, D::Error> {
    let texts = HashMap::<String, String>::deserialize(d)?;
    let mut headers: HeaderMap = HeaderMap::try_from(&texts).map_err(|_| {
        D::Error::custom(
            "holds a name that no header can have, or a value with other characters than visible \
             ASCII",
        )
    })?;
    for value in headers.values_mut() {
        value.set_sensitive(true);
    }
    Ok(headers)
}
