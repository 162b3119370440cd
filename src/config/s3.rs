//! The keys of a sink of type `s3`.
//!
//! The access key is read from its file with the configuration, so that a reload reads it again.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use url::Url;

use super::address;
use super::secret::Secret;
use super::table::Table;
use super::value::{SHOP, parsed, seconds, timeout, two_lines, word};

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
    /// The name of the shop in the name of each object.
    #[serde(deserialize_with = "word")]
    pub workspace: String,
    /// The longest time that one request may take.
    #[serde(default = "seconds::<60>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

fn region() -> String {
    "us-east-1".to_owned()
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<S3Settings> {
    table.read(&[
        ("bucket", "the name of the bucket"),
        (
            "access_key_file",
            "a file with two lines, the id of the access key and its secret, mode 0640",
        ),
        SHOP,
    ])
}

fn endpoint<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Url>, D::Error> {
    parsed(d, |text| address::service(text).map(Some))
}
