//! `[backup.s3]`: the bucket that gets each backup as well, encrypted.
//!
//! The access key and the passphrase are read from their files with the configuration: a reload
//! reads them again. The secret age key is never on this machine.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use url::Url;

use super::proxy::{self, Proxy};
use super::secret::Secret;
use super::servers::{endpoint, region};
use super::table::Table;
use super::value::{in_file, parsed, two_lines};

/// The longest prefix of the names of objects.
const PREFIX_MAX: usize = 200;
/// A shorter passphrase can be guessed.
#[cfg(feature = "s3")]
const LEAST_PASSPHRASE: usize = 12;

/// `[backup.s3]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsiteSettings {
    /// The address of the service; `None` is that of AWS in the region.
    pub endpoint: Option<Url>,
    /// The region.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// The id of the access key, and its secret.
    pub access_key: (String, Secret),
    /// How the names of the objects begin, without a slash at its end.
    pub prefix: String,
    /// A PEM file with the certificate authorities of the service; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The proxy through which the service is reached.
    pub proxy: Option<Proxy>,
    /// For whom the backups are encrypted.
    pub encryption: Encryption,
    /// The configuration file, which is backed up as well.
    pub config_file: PathBuf,
}

/// For whom a backup is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encryption {
    /// The holder of the secret key of this age recipient, `age1…`.
    Recipient(String),
    /// Whoever knows the passphrase.
    Passphrase(Secret),
}

#[derive(Deserialize)]
struct OffsiteKeys {
    #[serde(default, deserialize_with = "endpoint")]
    endpoint: Option<Url>,
    #[serde(default = "region")]
    region: String,
    bucket: String,
    #[serde(rename = "access_key_file", deserialize_with = "two_lines")]
    access_key: (String, Secret),
    #[serde(deserialize_with = "prefix")]
    prefix: String,
    ca_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "recipient")]
    age_recipient: Option<String>,
    #[serde(rename = "passphrase_file", default, deserialize_with = "passphrase")]
    passphrase: Option<Secret>,
}

/// The section; `None` if it is not there, or a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<OffsiteSettings> {
    // The tests of the reference read every section in every build.
    if cfg!(not(any(feature = "s3", test))) {
        table.note_here(
            "this program was built without off-site backups: use the packaged program, or build \
             it with --all-features",
        );
    }
    let proxy = proxy::read(table);
    let read: Option<OffsiteKeys> = table.read(&["bucket", "access_key_file", "prefix"]);
    let read = read?;
    if let Some(endpoint) = &read.endpoint
        && endpoint.scheme() == "http"
    {
        proxy::note_plain(table, proxy.as_ref());
    }
    let encryption = match (read.age_recipient, read.passphrase) {
        (Some(recipient), None) => Encryption::Recipient(recipient),
        (None, Some(passphrase)) => Encryption::Passphrase(passphrase),
        _ => {
            // One that cannot be used was noted.
            let number =
                usize::from(table.has("age_recipient")) + usize::from(table.has("passphrase_file"));
            if number != 1 {
                table.note_here(
                    "[backup.s3] needs `age_recipient`, the public key for which backups are \
                     encrypted, or `passphrase_file`, and not both",
                );
            }
            return None;
        }
    };
    Some(OffsiteSettings {
        endpoint: read.endpoint,
        region: read.region,
        bucket: read.bucket,
        access_key: read.access_key,
        prefix: read.prefix,
        ca_file: read.ca_file,
        proxy,
        encryption,
        config_file: table.file.base.file.clone(),
    })
}

/// The beginning of names: words with slashes between.
fn prefix<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    parsed(d, |text| {
        let text = text.trim_matches('/');
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if (1..=PREFIX_MAX).contains(&text.len()) && text.chars().all(is_part) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "must be 1 to {PREFIX_MAX} characters of a-z, A-Z, 0-9, - _ . and /, for example the \
             name of the shop"
        ))
    })
}

fn recipient<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    parsed(d, |text| {
        #[cfg(feature = "s3")]
        if text.parse::<age::x25519::Recipient>().is_err() {
            return Err(
                "must be the public key of an age key pair, which begins with age1; the secret \
                 key never belongs on this machine"
                    .to_owned(),
            );
        }
        Ok(Some(text.to_owned()))
    })
}

fn passphrase<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    in_file(d, |text| {
        #[cfg(feature = "s3")]
        if text.chars().count() < LEAST_PASSPHRASE {
            return Err(format!(
                "names a file whose passphrase has less than {LEAST_PASSPHRASE} characters"
            ));
        }
        Ok(Some(text.into()))
    })
}
