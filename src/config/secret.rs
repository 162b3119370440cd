//! Texts that no message and no `Debug` output shows, and the files that hold them.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

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
        match read::secret_text(path, SECRET_MAX) {
            Ok(text) => Ok(SecretString::from(text).expose_secret().trim().into()),
            Err(error) => Err(format!(
                "names a file that the user of the service cannot use: {error}"
            )),
        }
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
