//! The address of a sink: written in the configuration, or in a file of its own. It is a secret, because it
//! may hold a password or a token.
//!
//! The file is read again at each attempt, so that a corrected one counts without a reload.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::files::SECRET_MAX;
use super::secret::Secret;
use crate::small_file;

/// An address, and the file that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Secret")]
pub struct SinkUrl {
    at_start: Secret,
    pub(super) file: Option<PathBuf>,
}

impl SinkUrl {
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
        let Some(path) = &self.file else { return Ok(self.at_start.clone()) };
        let text = small_file::secret_text(path, SECRET_MAX).map(SecretString::from);
        let text = text.map_err(|error| format!("`url_file`: {error}"))?;
        Ok(text.expose_secret().trim().into())
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
