//! The keys of the sinks that write to a server: `postgres`, `nats`, `mqtt` and `s3`.
//!
//! An address may hold a password, so that no message repeats it. The access key of `s3` is read
//! from its file with the configuration: a reload reads it again.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
#[cfg(feature = "postgres")]
use tokio_postgres::config::{Host, SslMode};
use url::Url;

use super::address;
use super::proxy::{self, Proxy};
use super::secret::Secret;
use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{parsed, seconds, timeout, two_lines, word};

/// `type = "postgres"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PostgresSettings {
    /// The connection string, as a URL or as pairs. A secret, because it contains a password.
    #[serde(skip)]
    pub url: SinkUrl,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The schema of the tables.
    #[serde(default = "schema")]
    pub schema: String,
    /// The value of the column `workspace` in every row: it distinguishes the rows of several
    /// shops.
    #[serde(deserialize_with = "word")]
    pub workspace: String,
    /// The longest time that one transaction may take.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn postgres(table: &Table<'_>) -> Option<PostgresSettings> {
    #[cfg(feature = "postgres")]
    let check = postgres_target;
    #[cfg(not(feature = "postgres"))]
    let check = |_: &str| Ok(());
    let url = SinkUrl::from_table(table, check);
    let read: Option<PostgresSettings> = table.read(&["workspace"]);
    Some(PostgresSettings { url: url?, ..read? })
}

fn schema() -> String {
    "shopmirror".to_owned()
}

/// The server, database and user that a connection string names.
///
/// # Errors
/// What is wrong with it, without repeating it.
#[cfg(feature = "postgres")]
pub fn postgres_target(text: &str) -> Result<tokio_postgres::Config, String> {
    // The certificate is always verified, so these words of other clients mean the same here.
    let text = text
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require");
    let target: tokio_postgres::Config = text.parse().map_err(|_| {
        "cannot be read: write it as postgresql://user:password@host/database, with %40 for an @ \
         in the password; for a certificate authority use `ca_file`"
            .to_owned()
    })?;
    if target.get_ssl_mode() == SslMode::Disable && !is_on_this_machine(&target) {
        return Err(
            "asks for no encryption: remove sslmode=disable, because records and password \
             would cross the network in clear text"
                .into(),
        );
    }
    Ok(target)
}

/// True if every connection to this target stays on this machine.
#[cfg(feature = "postgres")]
#[must_use]
pub fn is_on_this_machine(target: &tokio_postgres::Config) -> bool {
    let addresses = target.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(std::net::IpAddr::is_loopback);
    }
    target.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => address::is_this_machine(name),
    })
}

/// `type = "nats"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct NatsSettings {
    /// The server, `nats://` or `tls://`. A secret, because it may contain a password.
    #[serde(skip)]
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
pub(super) fn nats(table: &Table<'_>) -> Option<NatsSettings> {
    let url = SinkUrl::from_table(table, address::nats);
    let read: Option<NatsSettings> = table.read(&["workspace"]);
    Some(NatsSettings { url: url?, ..read? })
}

/// `type = "mqtt"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MqttSettings {
    /// The broker, `mqtt://` or `mqtts://`. A secret, because it may contain a password.
    #[serde(skip)]
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
pub(super) fn mqtt(table: &Table<'_>) -> Option<MqttSettings> {
    let read: Option<MqttSettings> = table.read(&["workspace"]);
    let allow_plain = match &read {
        Some(read) => read.allow_plain,
        None => false,
    };
    let url = SinkUrl::from_table(table, |text| address::mqtt(text, allow_plain));
    Some(MqttSettings { url: url?, ..read? })
}

/// `type = "s3"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The address of the service; `None` is that of AWS in the region.
    #[serde(default, deserialize_with = "endpoint")]
    pub endpoint: Option<Url>,
    /// The region.
    #[serde(default = "region")]
    pub region: String,
    /// The id of the access key, and its secret.
    #[serde(rename = "access_key_file", deserialize_with = "two_lines")]
    pub access_key: (String, Secret),
    /// A PEM file with the certificate authorities of the service; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The proxy through which the service is reached.
    #[serde(skip)]
    pub proxy: Option<Proxy>,
    /// The name of the shop in the name of each object.
    #[serde(deserialize_with = "word")]
    pub workspace: String,
    /// The longest time that one request may take.
    #[serde(default = "seconds::<60>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

pub(super) fn region() -> String {
    "us-east-1".to_owned()
}

/// The sink; `None` only if a problem was noted.
pub(super) fn s3(table: &Table<'_>) -> Option<S3Settings> {
    let proxy = proxy::read(table);
    let mut read: S3Settings = table.read(&["bucket", "access_key_file", "workspace"])?;
    if let Some(endpoint) = &read.endpoint
        && endpoint.scheme() == "http"
    {
        proxy::note_plain(table, proxy.as_ref());
    }
    read.proxy = proxy;
    Some(read)
}

/// The address of a service that speaks S3.
pub(super) fn endpoint<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Url>, D::Error> {
    parsed(d, |text| address::service(text).map(Some))
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_without_encryption() {
        for (text, local) in [
            ("host=/run/postgresql user=u dbname=d", true),
            ("postgresql://u@127.0.0.1/d", true),
            ("postgresql://u@[::1]/d", true),
            ("postgresql://u@localhost/d", true),
            ("postgresql://u@localhost,db.example.com/d", false),
            ("postgresql://u@localhost.example.com/d", false),
            ("host=localhost hostaddr=10.0.0.1 user=u dbname=d", false),
        ] {
            assert_eq!(
                is_on_this_machine(&postgres_target(text).unwrap()),
                local,
                "{text}"
            );
        }
    }
}
