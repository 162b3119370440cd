//! `[workspace]`: the address, the key, the branches and the time zone of the shop.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::address;
use super::key::KeySource;
use super::secret::Secret;
use super::table::Table;
use super::value::{businesses, parsed};

/// `[workspace]`
#[derive(Debug, Clone, Deserialize)]
pub struct WorkspaceSettings {
    /// The address ending in `/api`, without a trailing slash.
    #[serde(deserialize_with = "base_url")]
    pub base_url: Url,
    /// Where the key is read from; it is read again after SIGHUP and after a 401.
    #[serde(rename = "api_key_file", default)]
    pub key: KeySource,
    /// How the key is sent.
    #[serde(default)]
    pub auth: Auth,
    /// The businesses (branches) to poll; empty means the workspace's default only.
    #[serde(default, deserialize_with = "businesses")]
    pub businesses: Vec<String>,
    /// An HTTP proxy. The environment is never read for one.
    #[serde(default, deserialize_with = "proxy")]
    pub proxy: Option<Url>,
    /// A file of additional certificate authorities in PEM.
    pub ca_file: Option<PathBuf>,
    /// The zone of the shop's dates in reports.
    #[serde(default = "utc", deserialize_with = "time_zone")]
    pub time_zone: TimeZone,
}

impl WorkspaceSettings {
    /// The businesses to poll: the ids, or one `None` for the workspace's default.
    #[must_use]
    pub fn polled_businesses(&self) -> Vec<Option<String>> {
        match self.businesses.as_slice() {
            [] => vec![None],
            named => named.iter().cloned().map(Some).collect(),
        }
    }
}

/// How the key is sent (contract, "Authentication" 2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// `Authorization: Bearer`
    #[default]
    Bearer,
    /// `X-API-Key`
    XApiKey,
}

/// The section; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<WorkspaceSettings> {
    let needed = (
        "base_url",
        "the shop's address, for example base_url = \"https://myshop.example.com/api\"",
    );
    let mut read: WorkspaceSettings = table.read(&[needed])?;
    let base = table.report.base;
    if let (false, Some(zone)) = (table.has("time_zone"), &base.time_zone) {
        read.time_zone = zone.clone();
    }
    if read.key == KeySource::Absent {
        let credential = base.credentials_dir.as_ref().map(|dir| dir.join("api-key"));
        let environment = || Some(KeySource::Environment(Secret::from(base.env_key.clone()?)));
        let found = credential.filter(|path| path.is_file()).map(KeySource::File);
        read.key = found.or_else(environment).unwrap_or_default();
    }
    Some(read)
}

/// The address of a workspace.
pub(super) fn base_url<'de, D: Deserializer<'de>>(d: D) -> Result<Url, D::Error> {
    parsed(d, address::workspace)
}

fn proxy<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Url>, D::Error> {
    parsed(d, address::proxy).map(Some)
}

fn utc() -> TimeZone {
    TimeZone::UTC
}

fn time_zone<'de, D: Deserializer<'de>>(d: D) -> Result<TimeZone, D::Error> {
    parsed(d, |name| {
        TimeZone::get(name).map_err(|_| {
            "must be the IANA name of a time zone, for example \"Europe/Berlin\"; if it is one, \
             install the package tzdata on this machine"
                .to_owned()
        })
    })
}
