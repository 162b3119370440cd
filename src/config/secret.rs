//! Texts that no message and no `Debug` output shows, and the files that hold them.
//!
//! The address of a sink is one, because it may hold a password or a token. A file of its own that holds it is
//! read again at each attempt, so that a corrected one counts without a reload.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::table::Table;
use crate::small_file;

/// A file that holds a secret may be this many bytes long.
pub(super) const SECRET_MAX: u64 = 4096;

/// A secret of the configuration. It can be compared, so that a reload notices a new one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "String")]
pub struct Secret(SecretString);

impl Secret {
    /// The text of a file, without the white space around it; the error follows the name of a key.
    pub(super) fn in_file(path: &Path) -> Result<Self, String> {
        let text = small_file::secret_text(path, SECRET_MAX).map(SecretString::from);
        let text = text.map_err(|error| format!("names a file that cannot be used: {error}"))?;
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

/// The address of a sink, and the file that it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkUrl {
    at_start: Secret,
    file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Keys {
    url: Option<Secret>,
    url_file: Option<PathBuf>,
}

impl SinkUrl {
    /// What `url` or `url_file` says; `None` only if a problem was noted.
    pub(super) fn of<T>(
        table: &Table<'_>,
        advice: &str,
        check: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Self> {
        let Keys { url, url_file: file } = table.read(&[])?;
        let (key, read) = match (url, &file) {
            (_, Some(file)) => ("url_file", Secret::in_file(file)),
            (Some(url), None) => ("url", Ok(url)),
            (None, None) => {
                table.need("url", advice);
                return None;
            }
        };
        let checked = read.and_then(|at_start| check(at_start.expose_secret()).map(|_| at_start));
        checked.map_err(|why| table.note(key, why)).ok().map(|at_start| Self { at_start, file })
    }

    /// True if the configuration itself holds the address.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.file.is_none()
    }

    /// The address as it is now.
    ///
    /// # Errors
    /// What is wrong with its file and what to do.
    pub fn read(&self) -> Result<Secret, String> {
        match &self.file {
            Some(path) => Secret::in_file(path).map_err(|error| format!("`url_file` {error}")),
            None => Ok(self.at_start.clone()),
        }
    }
}

/// The address as it was when the configuration was read.
impl ExposeSecret<str> for SinkUrl {
    fn expose_secret(&self) -> &str {
        self.at_start.expose_secret()
    }
}

impl<T: Into<Secret>> From<T> for SinkUrl {
    fn from(text: T) -> Self {
        Self { at_start: text.into(), file: None }
    }
}
