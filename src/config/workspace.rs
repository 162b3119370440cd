//! `[workspace]`: the address, the key, the branches and the time zone of the shop.
//!
//! A message names the place of the key and the rule that it breaks, never its content.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use url::Url;

use super::address;
use super::base::Base;
use super::proxy::{self, Proxy};
use super::secret::{SECRET_MAX, Secret};
use super::table::Table;
use super::value::parsed;
use crate::files::owner::folder_of;
use crate::files::read;
use crate::text::locale::Locale;

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
    pub businesses: BTreeSet<String>,
    /// A PEM file with the certificate authorities of the workspace; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The proxy through which the workspace is reached.
    #[serde(skip)]
    pub proxy: Option<Proxy>,
    /// The zone of the shop's dates in reports.
    #[serde(default = "utc", deserialize_with = "time_zone")]
    pub time_zone: TimeZone,
    /// How the shop's country writes numbers and days; `None`: as who reads them does.
    #[serde(default, deserialize_with = "locale")]
    pub locale: Option<Locale>,
    /// How this machine writes them.
    #[serde(skip)]
    pub machine_locale: Locale,
}

impl WorkspaceSettings {
    /// How numbers and days are written for a reader of whom nothing is known, as in a mail.
    #[must_use]
    pub fn own_locale(&self) -> Locale {
        let machine = &self.machine_locale;
        self.locale.as_ref().unwrap_or(machine).clone()
    }

    /// The businesses to poll: the ids, or one `None` for the workspace's default.
    #[must_use]
    pub fn polled_businesses(&self) -> Vec<Option<String>> {
        if self.businesses.is_empty() {
            return vec![None];
        }
        self.businesses.iter().cloned().map(Some).collect()
    }
}

/// Ids of businesses, as text or as numbers.
fn businesses<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeSet<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "must be a list of ids, for example [\"2\", \"5\"]"
    )]
    enum Id {
        Number(u64),
        Text(String),
    }
    let mut businesses = BTreeSet::new();
    for id in Vec::<Id>::deserialize(d)? {
        businesses.insert(match id {
            Id::Number(number) => number.to_string(),
            Id::Text(text) => text,
        });
    }
    Ok(businesses)
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
    let proxy = proxy::read(table);
    let mut read: WorkspaceSettings = table.read(&["base_url"])?;
    if read.base_url.scheme() == "http" {
        proxy::note_plain(table, proxy.as_ref());
    }
    read.proxy = proxy;
    let base = table.file.base;
    if !table.has("time_zone")
        && let Some(zone) = &base.time_zone
    {
        read.time_zone = zone.clone();
    }
    read.machine_locale = base.locale.clone();
    if read.key == KeySource::Absent {
        read.key = key_of_environment(base);
    }
    Some(read)
}

/// The key that systemd or the environment gives, if there is one.
fn key_of_environment(base: &Base) -> KeySource {
    if let Some(dir) = &base.credentials_dir {
        let credential = dir.join("api-key");
        if credential.is_file() {
            return KeySource::File(credential);
        }
    }
    match &base.env_key {
        Some(key) => KeySource::Environment(Secret::from(key.clone())),
        None => KeySource::Absent,
    }
}

/// The address of a workspace.
pub(super) fn base_url<'de, D: Deserializer<'de>>(d: D) -> Result<Url, D::Error> {
    parsed(d, address::workspace)
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

fn locale<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Locale>, D::Error> {
    parsed(d, |name| match Locale::named(name) {
        Some(locale) => Ok(Some(locale)),
        None => Err("must be a language and a country, for example \"de-DE\"".to_owned()),
    })
}

/// Where the API key comes from; never from an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "PathBuf")]
pub enum KeySource {
    /// A file that holds the key and nothing else but white space around it.
    File(PathBuf),
    /// The variable `SHOPMIRROR_API_KEY`, read once.
    Environment(Secret),
    /// None of the three sources has a key. Commands that only read the store need none.
    #[default]
    Absent,
}

impl From<PathBuf> for KeySource {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No source names a key.
    #[error(
        "there is no API key: name its file with api_key_file under [workspace], or give it as the \
         systemd credential `api-key` or in the variable SHOPMIRROR_API_KEY"
    )]
    Absent,
    /// Its file cannot be used.
    #[error("cannot use {}: {why}", shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The content is empty, or has characters that no key has.
    #[error(
        "{0} must hold only the key, on one line: it is empty, or holds white space or other \
         characters that no key has"
    )]
    Malformed(String),
}

/// The file of the key in a message. A key that was written in place of the path of its file is not
/// shown: the name of a file that is not there stands only if it ends as those of key files do.
fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    if path.exists() || name.ends_with(b"key") {
        format!("{}, the file of the API key", path.display())
    } else {
        let folder = folder_of(path).display();
        format!("the file of the API key in {folder}, see `api_key_file`")
    }
}

impl KeySource {
    /// Reads the key. A file is read again each time.
    ///
    /// # Errors
    /// [`KeyError`], whose message says what to do and never contains the key.
    pub fn read(&self) -> Result<SecretString, KeyError> {
        match self {
            Self::File(path) => {
                let content =
                    read::secret_text(path, SECRET_MAX).map_err(|why| KeyError::File {
                        path: path.clone(),
                        why,
                    })?;
                let content = SecretString::from(content);
                checked_key(content.expose_secret(), &path.display().to_string())
            }
            Self::Environment(value) => checked_key(value.expose_secret(), "SHOPMIRROR_API_KEY"),
            Self::Absent => Err(KeyError::Absent),
        }
    }

    /// The warning of `check` about a key file that everyone may read.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self::File(path) = self else { return None };
        let mode = std::fs::metadata(path).ok()?.mode() & 0o7777;
        if mode & 0o004 == 0 {
            return None;
        }
        let path = path.display();
        Some(format!(
            "{path} can be read by everyone (mode {mode:04o}): run chmod 0640 on it"
        ))
    }
}

/// The key in a text; messages use `place` as the text's name. White space and quotes around it are
/// left out, and so is the name before it in a file such as `API_KEY=…`.
///
/// # Errors
/// [`KeyError`] if the text cannot be a key.
pub fn checked_key(content: &str, place: &str) -> Result<SecretString, KeyError> {
    let word = without_quotes(without_name(content.trim()));
    if word.is_empty() || !word.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(KeyError::Malformed(place.to_owned()));
    }
    Ok(SecretString::from(word))
}

/// What follows the name of a variable: `KEY=…` or `export KEY=…`. A key that ends in `=` has none.
fn without_name(text: &str) -> &str {
    let line = text.strip_prefix("export ").unwrap_or(text);
    let Some((name, value)) = line.split_once('=') else {
        return text;
    };
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if is_name && !value.trim_matches('=').is_empty() {
        value.trim()
    } else {
        text
    }
}

/// A text without the quotes around it.
fn without_quotes(text: &str) -> &str {
    for quote in ['"', '\''] {
        let inside = text
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            return inside.trim();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, KeySource) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api-key");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, KeySource::File(path))
    }

    #[test]
    fn a_key_is_one_word_and_what_is_none_is_refused_without_being_shown() {
        let (_dir, source) = file(b" \tak_1234\r\n\n", 0o640);
        assert_eq!(source.read().unwrap().expose_secret(), "ak_1234");
        for content in [
            "\u{feff}ak_1234\n",
            "\"ak_1234\"",
            "'ak_1234'",
            "SHOPMIRROR_API_KEY=ak_1234",
            "export API_KEY=\"ak_1234\"\r\n",
        ] {
            let (_dir, source) = file(content.as_bytes(), 0o640);
            assert_eq!(
                source.read().unwrap().expose_secret(),
                "ak_1234",
                "{content}"
            );
        }
        for content in ["ak=1234", "AK==", "\"ak_1234"] {
            let (_dir, source) = file(content.as_bytes(), 0o640);
            assert_eq!(source.read().unwrap().expose_secret(), content);
        }
        let long = vec![b'k'; 4097];
        let cases: [&[u8]; 7] = [
            b"",
            b" \n ",
            b"CANARY two",
            b"CANARY\nB",
            b"\xffCANARY",
            "CANARYé".as_bytes(),
            &long,
        ];
        for content in cases {
            let (_dir, source) = file(content, 0o600);
            let error = source.read().unwrap_err().to_string();
            assert!(
                !error.contains("CANARY") && !error.contains("kkk"),
                "{error}"
            );
        }
        let variable = |text: &str| KeySource::Environment(text.into()).read();
        assert_eq!(variable("ak_1\n").unwrap().expose_secret(), "ak_1");
        assert!(matches!(variable("a b"), Err(KeyError::Malformed(_))));
    }

    #[test]
    fn a_key_in_place_of_the_path_of_its_file_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let missing = |name: &str| {
            let source = KeySource::File(dir.path().join(name));
            source.read().unwrap_err().to_string()
        };
        assert!(missing("north-key").contains("north-key"));
        let error = missing("ak_live_CANARY");
        assert!(!error.contains("CANARY"), "{error}");
        assert!(error.contains("api_key_file"), "{error}");
    }

    #[test]
    fn a_key_that_others_may_write_is_refused_and_one_that_all_may_read_is_warned_of() {
        for (mode, is_read, is_warned) in [
            (0o400, true, false),
            (0o640, true, false),
            (0o644, true, true),
            (0o660, false, false),
            (0o602, false, false),
        ] {
            let (_dir, source) = file(b"ak_1", mode);
            assert_eq!(source.read().is_ok(), is_read, "{mode:o}");
            assert_eq!(source.warning().is_some(), is_warned, "{mode:o}");
        }
    }
}
