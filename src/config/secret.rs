//! Texts that no message and no `Debug` output shows, and the files that hold them.
//!
//! The address of a sink is one, because it may hold a password or a token. A file of its own that
//! holds it is read again at each attempt, so that a corrected one counts without a reload.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::table::Table;
use crate::files::read;

/// A file that holds a secret may be this many bytes long.
pub(super) const SECRET_MAX: u64 = 4096;

/// A secret of the configuration. It can be compared, so that a reload notices a new one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "String")]
pub struct Secret(SecretString);

impl Secret {
    /// The text of a file, without the white space around it; the error follows the name of a key.
    pub(super) fn in_file(path: &Path) -> Result<Self, String> {
        let text = read::secret_text(path, SECRET_MAX).map(SecretString::from);
        let text = text.map_err(|error| {
            format!("names a file that the user of the service cannot use: {error}")
        })?;
        Ok(text.expose_secret().trim().into())
    }
}

impl ExposeSecret<str> for Secret {
    fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl<T: Into<SecretString>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose_secret() == other.expose_secret()
    }
}

impl Eq for Secret {}

/// The address of a sink, or the file that holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SinkUrl {
    #[serde(default)]
    url: Secret,
    url_file: Option<PathBuf>,
}

impl SinkUrl {
    /// What `url` or `url_file` says; `None` only if a problem was noted.
    pub(super) fn of<T>(
        table: &Table<'_>,
        check: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Self> {
        let read: Self = table.read(&[])?;
        if read == Self::default() {
            table.need("url");
            return None;
        }
        let key = if read.is_inline() { "url" } else { "url_file" };
        let check =
            |url: Secret| check(url.expose_secret()).map_err(|why| format!("`{key}` {why}"));
        let checked = read.read().and_then(check);
        checked
            .map_err(|why| table.note_inside(&[key], why))
            .ok()
            .map(|_| read)
    }

    /// True if the configuration itself holds the address.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.url_file.is_none()
    }

    /// The address as it is now.
    ///
    /// # Errors
    /// What is wrong with its file and what to do.
    pub fn read(&self) -> Result<Secret, String> {
        match &self.url_file {
            Some(path) => Secret::in_file(path).map_err(|error| format!("`url_file` {error}")),
            None => Ok(self.url.clone()),
        }
    }
}

impl<T: Into<Secret>> From<T> for SinkUrl {
    fn from(text: T) -> Self {
        Self {
            url: text.into(),
            url_file: None,
        }
    }
}
