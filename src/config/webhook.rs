//! Reads the keys of a sink of type `webhook`: address, signing secrets, headers.
//!
//! The address and the values of headers are secrets: no message repeats them. The files named here
//! are read with the configuration, so that a reload reads them again.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use toml::de::DeValue;

use super::address;
use super::key::read_secret_file;
use super::problem::{Quote, shown};
use super::secret_text;
use super::section::{Found, Section};
use super::{Base, shape};
use crate::shape::Format;

/// Bounds of the time that one delivery may take, for every type of sink.
pub(super) const TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);
const SECRETS_MAX: usize = 4;
const HEADERS_MAX: usize = 32;
const CONCURRENCY_MAX: u32 = 64;

/// Headers that shopmirror or HTTP itself sets. They cannot be configured.
pub const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// `type = "webhook"`
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Where to post. A secret, because such addresses often contain a token.
    pub url: SecretString,
    /// Signing secrets, `whsec_…`, newest first. Each adds a signature; empty means unsigned.
    pub secrets: Vec<SecretString>,
    /// The shape of the body.
    pub format: Format,
    /// Further fixed headers.
    pub headers: BTreeMap<String, SecretString>,
    /// The longest time that one attempt may take.
    pub timeout: Duration,
    /// How many changes may be in flight at the same time.
    pub concurrency: usize,
}

impl PartialEq for WebhookSettings {
    /// Compares the secrets as well, so that a file with a new secret is a change.
    fn eq(&self, other: &Self) -> bool {
        let exposed = |secrets: &[SecretString]| -> Vec<String> {
            secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect()
        };
        let headers = |webhook: &Self| -> Vec<(String, String)> {
            let all = webhook.headers.iter();
            all.map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect()
        };
        self.url.expose_secret() == other.url.expose_secret()
            && exposed(&self.secrets) == exposed(&other.secrets)
            && headers(self) == headers(other)
            && self.format == other.format
            && self.timeout == other.timeout
            && self.concurrency == other.concurrency
    }
}

/// The webhook; `None` only if a problem was noted.
pub(super) fn read(
    section: &mut Section<'_>,
    base: &Base,
    workspace: &str,
) -> Option<WebhookSettings> {
    let url = url(section, base);
    let secrets = secrets(section, base);
    let format = shape::read(section, base, workspace);
    let headers = headers(section);
    let timeout = section.duration("timeout", &TIMEOUT);
    let concurrency = section.integer("concurrency", &(1..=CONCURRENCY_MAX));
    Some(WebhookSettings {
        url: url?,
        secrets,
        format: format.unwrap_or(Format::Standard),
        headers,
        timeout: timeout.map_or(Duration::from_secs(20), |found| found.value),
        concurrency: concurrency.map_or(4, |found| found.value as usize),
    })
}

fn url(section: &mut Section<'_>, base: &Base) -> Option<SecretString> {
    let held = (section.holds("url"), section.holds("url_file"));
    let direct = section.secret_text("url");
    let file = secret_text::file(section, base, "url_file");
    match held {
        (false, false) => section.missing(
            "url",
            "the address to post to; or write it into a file and name the file with url_file",
        ),
        (true, true) => {
            section.note("give `url` or `url_file`, not both");
        }
        _ => {}
    }
    if let Some(Found { value, place }) = direct {
        return usable(section, "url", value, &place);
    }
    let Found { value, place } = file?;
    let path = base.dir.join(value);
    let content = read_secret_file(&path)
        .map_err(|error| section.findings.note(&place, format!("`url_file`: {error}")))
        .ok()?;
    usable(section, "url_file", content.expose_secret().trim(), &place)
}

fn usable(
    section: &Section<'_>,
    key: &str,
    text: &str,
    place: &Range<usize>,
) -> Option<SecretString> {
    match address::called(text) {
        Ok(_) => Some(SecretString::from(text)),
        Err(why) => {
            section.findings.note_secret(place, format!("`{key}` {why}"));
            None
        }
    }
}

fn secrets(section: &mut Section<'_>, base: &Base) -> Vec<SecretString> {
    let Some(Found { value, place }) = secret_text::file(section, base, "secret_file") else {
        return Vec::new();
    };
    let note = |message: String| section.findings.note(&place, message);
    let content = match read_secret_file(&base.dir.join(value)) {
        Ok(content) => content,
        Err(error) => {
            note(format!("`secret_file`: {error}"));
            return Vec::new();
        }
    };
    let mut secrets = Vec::new();
    for (number, line) in lines(&content).enumerate() {
        if is_signing_secret(line) {
            secrets.push(SecretString::from(line));
        } else {
            note(format!(
                "`secret_file`: secret {} is not whsec_ and the base64 of 24 to 64 bytes; \
                 make one with: echo whsec_$(openssl rand -base64 32)",
                number + 1
            ));
        }
    }
    if lines(&content).next().is_none() {
        note("`secret_file` is empty: remove the key to send unsigned".to_owned());
    }
    if secrets.len() > SECRETS_MAX {
        note(format!("`secret_file` holds more than {SECRETS_MAX} secrets: keep the newest"));
    }
    secrets
}

/// Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes.
fn is_signing_secret(line: &str) -> bool {
    line.strip_prefix("whsec_")
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .is_some_and(|bytes| (24..=64).contains(&bytes.len()))
}

fn headers(section: &mut Section<'_>) -> BTreeMap<String, SecretString> {
    let Some(found) = section.value("headers") else { return BTreeMap::new() };
    let findings = section.findings;
    let DeValue::Table(table) = found.value else {
        let wanted = "a table, for example { Authorization = \"Bearer example\" }";
        section.wrong_type("headers", wanted, found.value, &found.place, Quote::Masked);
        return BTreeMap::new();
    };
    let mut headers: BTreeMap<String, SecretString> = BTreeMap::new();
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let lower = name.to_ascii_lowercase();
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            // The name may be a secret, if name and value were swapped.
            let message =
                "a name in `headers` is not the name of a header: use letters, digits, - _ .";
            findings.note_secret(&key.span(), message);
            continue;
        } else if OWN_HEADERS.contains(&lower.as_str()) {
            findings
                .note(&key.span(), format!("the header {name} is set by shopmirror: remove it"));
        }
        let name = shown(name);
        if headers.contains_key(&lower) {
            findings.note(&key.span(), format!("the header {name} is given twice"));
        }
        match value.get_ref() {
            DeValue::String(text) if text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) => {
                headers.insert(lower, SecretString::from(text.as_ref()));
            }
            DeValue::String(_) => {
                let message = format!("the header {name} may hold visible ASCII characters only");
                findings.note_secret(&value.span(), message);
            }
            other => {
                let key = format!("headers.{name}");
                let wanted = "a string in quotes";
                section.wrong_type(&key, wanted, other, &value.span(), Quote::Masked);
            }
        }
    }
    if headers.len() > HEADERS_MAX {
        let message = format!("`headers` holds more than {HEADERS_MAX}");
        findings.note_secret(&found.place, message);
    }
    headers
}

/// The lines of a secret that are not blank.
fn lines(content: &SecretString) -> impl Iterator<Item = &str> {
    content.expose_secret().lines().map(str::trim).filter(|line| !line.is_empty())
}
