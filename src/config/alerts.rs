//! `[alerts]`: who is notified of problems, and the heartbeat that another service watches.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Value;
use url::Url;

use super::address;
use super::secret::Secret;
use super::sinks::{Sinks, check_notified};
use super::table::Table;
use super::value::{DAY_MS, lasting, seconds};

/// `[alerts]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlertsSettings {
    /// The sinks that get alerts; empty if none does.
    pub sinks: Vec<String>,
    /// The heartbeat; `None` sends none.
    pub heartbeat: Option<HeartbeatSettings>,
}

/// Requests that show a service on another machine that this program works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatSettings {
    /// The address that is requested while the program works.
    pub url: HeartbeatUrl,
    /// The address that is requested while health is failing; `None` requests none then.
    pub fail_url: Option<HeartbeatUrl>,
    /// The time between two requests.
    pub every: Duration,
}

/// An address that holds a token, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct HeartbeatUrl(Url);

impl HeartbeatUrl {
    /// The address.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl std::fmt::Debug for HeartbeatUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeartbeatUrl")
    }
}

#[derive(Deserialize)]
struct RawAlerts {
    #[serde(default, deserialize_with = "names")]
    sink: Vec<String>,
    heartbeat_url_file: Option<PathBuf>,
    fail_url_file: Option<PathBuf>,
    #[serde(
        default = "seconds::<60>",
        deserialize_with = "lasting::<5000, DAY_MS, _, _>"
    )]
    every: Duration,
}

/// The section; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, sinks: &Sinks) -> Option<AlertsSettings> {
    let raw: RawAlerts = table.read(&[])?;
    for name in &raw.sink {
        check_notified(sinks, table, name);
    }
    let Some(file) = &raw.heartbeat_url_file else {
        for key in ["fail_url_file", "every"] {
            if table.has(key) {
                table.note(key, "is for a heartbeat: add heartbeat_url_file");
            }
        }
        return Some(AlertsSettings {
            sinks: raw.sink,
            heartbeat: None,
        });
    };
    let url = address_in(file, "heartbeat_url_file", table);
    let mut fail_url = None;
    if let Some(file) = &raw.fail_url_file {
        fail_url = Some(address_in(file, "fail_url_file", table)?);
    }
    Some(AlertsSettings {
        sinks: raw.sink,
        heartbeat: Some(HeartbeatSettings {
            url: url?,
            fail_url,
            every: raw.every,
        }),
    })
}

/// The address in the file that a key names; `None` if a problem was noted. Without TLS it may lead
/// to the local network, where such services run too.
fn address_in(file: &std::path::Path, key: &str, table: &Table<'_>) -> Option<HeartbeatUrl> {
    let url = Secret::in_file(file).and_then(|text| address::webhook(text.expose_secret(), true));
    match url {
        Ok(url) => Some(HeartbeatUrl(url)),
        Err(why) => {
            table.note(key, why);
            None
        }
    }
}

/// One name, or a list of names.
fn names<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(d)? {
        Value::String(name) => Ok(vec![name]),
        list => list
            .try_into()
            .map_err(|_| D::Error::custom("must be the name of a sink, or a list of names")),
    }
}
