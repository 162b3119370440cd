//! The address of a sink: a secret, because it may hold a password or a token.
//!
//! A file of its own that holds it is read again at each attempt, so that a corrected address
//! counts without a reload.

use std::path::PathBuf;

use secrecy::ExposeSecret;
use serde::Deserialize;

use super::secret::Secret;
use super::table::Table;

/// The address of a sink, or the file that holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SinkUrl {
    #[serde(default)]
    url: Secret,
    url_file: Option<PathBuf>,
}

impl SinkUrl {
    /// Reads `url` or `url_file`; `None` only if a problem was noted.
    pub(super) fn from_table<T>(
        table: &Table<'_>,
        check: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Self> {
        let url: Self = table.read(&[])?;
        if url == Self::default() {
            table.need("url");
            return None;
        }
        if table.has("url") && table.has("url_file") {
            table.warn("url", "has no effect beside `url_file`: remove one of them");
        }
        let key = if url.is_inline() { "url" } else { "url_file" };
        let problem = match url.read() {
            Ok(address) => match check(address.expose_secret()) {
                Ok(_) => return Some(url),
                Err(why) => format!("`{key}` {why}"),
            },
            Err(why) => why,
        };
        table.note_inside(&[key], problem);
        None
    }

    /// True if the configuration itself holds the address.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.url_file.is_none()
    }

    /// The current address.
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
