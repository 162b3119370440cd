//! Reads the keys of a sink of type `s3`.
//!
//! The access key is read from its file with the configuration, so that a reload reads it again.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::key::read_secret_file;
use super::problem::repeated;
use super::secret_text;
use super::section::{Found, Section};
use super::topic::{NameForm, NameTemplate};
use super::webhook::TIMEOUT;
use super::{Base, address, topic};

const BUCKET_LEN: RangeInclusive<usize> = 3..=63;
const EVERY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);
const DEFAULT_PREFIX: &str = "shop/{workspace}";

/// `type = "s3"`
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// The bucket.
    pub bucket: String,
    /// The address of the service; `None` is that of AWS in the region.
    pub endpoint: Option<Url>,
    /// The region.
    pub region: String,
    /// The id of the access key.
    pub key_id: String,
    /// The secret of the access key.
    pub secret: SecretString,
    /// A PEM file with the certificate authorities of the service; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// How the names of objects begin.
    pub prefix: NameTemplate,
    /// How long the oldest change waits for others to share its object.
    pub every: Duration,
    /// The longest time that one request may take.
    pub timeout: Duration,
}

impl PartialEq for S3Settings {
    fn eq(&self, other: &Self) -> bool {
        self.secret.expose_secret() == other.secret.expose_secret()
            && (&self.bucket, &self.endpoint, &self.region, &self.key_id)
                == (&other.bucket, &other.endpoint, &other.region, &other.key_id)
            && (&self.ca_file, &self.prefix, self.every, self.timeout)
                == (&other.ca_file, &other.prefix, other.every, other.timeout)
    }
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(section: &mut Section<'_>, base: &Base) -> Option<S3Settings> {
    let bucket = bucket(section);
    let wants_endpoint = section.holds("endpoint");
    let endpoint = section.text("endpoint").and_then(|Found { value, place }| {
        address::called(value)
            .map_err(|why| section.findings.note_secret(&place, format!("`endpoint` {why}")))
            .ok()
    });
    let region = section.text("region").map_or_else(|| "us-east-1".to_owned(), |r| r.value.into());
    let key = access_key(section, base);
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let workspace = topic::workspace(section);
    let form = NameForm { separator: '/', parts: &["{workspace}"] };
    let prefix = topic::read(section, "prefix", DEFAULT_PREFIX, workspace.as_deref(), &form);
    let every = section.duration("every", &EVERY);
    let timeout = section.duration("timeout", &TIMEOUT);
    let (key_id, secret) = key?;
    Some(S3Settings {
        bucket: bucket?,
        endpoint: if wants_endpoint { Some(endpoint?) } else { None },
        region,
        key_id,
        secret,
        ca_file,
        prefix: prefix?,
        every: every.map_or(Duration::from_secs(60), |found| found.value),
        timeout: timeout.map_or(Duration::from_secs(60), |found| found.value),
    })
}

fn bucket(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("bucket") {
        section.missing("bucket", "the name of the bucket");
    }
    let Found { value, place } = section.text("bucket")?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if !BUCKET_LEN.contains(&value.len()) || !value.chars().all(legal) {
        let message = format!(
            "`bucket` cannot be {}: the name of a bucket has 3 to 63 characters of a-z, 0-9, - and .",
            repeated(value)
        );
        section.findings.note(&place, message);
        return None;
    }
    Some(value.to_owned())
}

/// The id and the secret of the access key.
fn access_key(section: &mut Section<'_>, base: &Base) -> Option<(String, SecretString)> {
    if !section.holds("access_key_file") {
        let advice = "a file with two lines, the id of the access key and its secret, mode 0640";
        section.missing("access_key_file", advice);
    }
    let Found { value, place } = secret_text::file(section, base, "access_key_file")?;
    let content = read_secret_file(&base.dir.join(value))
        .map_err(|error| section.findings.note(&place, format!("`access_key_file`: {error}")))
        .ok()?;
    let lines: Vec<&str> =
        content.expose_secret().lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let [id, secret] = lines[..] else {
        let message =
            "`access_key_file` must hold two lines: the id of the access key and its secret";
        section.findings.note(&place, message);
        return None;
    };
    Some((id.to_owned(), SecretString::from(secret)))
}
