//! The API key: where it comes from, and what can be one.
//!
//! A message says where the key was looked for and the rule it breaks, never its content.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::files::SECRET_MAX;
use super::secret::Secret;
use crate::small_file::{self, FileError};

/// A key may be this many bytes long, so that the file has room for the line break.
const KEY_MAX: usize = SECRET_MAX as usize - 1;

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
        "there is no API key: name its file with api_key_file under [workspace], or give it as the systemd credential `api-key` or in the variable SHOPMIRROR_API_KEY"
    )]
    Absent,
    /// Its file cannot be used.
    #[error("the file of the API key: {0}")]
    File(FileError),
    /// The file holds only white space.
    #[error("{0} is empty: put the key into it")]
    Empty(String),
    /// With its line break the key would make a file longer than 4 KiB.
    #[error("{0} has more than {KEY_MAX} bytes: it must hold only the key")]
    TooLong(String),
    /// The content has white space inside, control characters or other characters no key has.
    #[error(
        "{0} holds white space or other characters that no key has: it must hold only the key, on one line"
    )]
    Malformed(String),
}

impl KeySource {
    /// Reads the key. A file is read again each time.
    ///
    /// # Errors
    /// [`KeyError`], whose message says what to do and never contains the key.
    pub fn read(&self) -> Result<SecretString, KeyError> {
        match self {
            Self::File(path) => {
                let content = small_file::secret_text(path, SECRET_MAX).map_err(KeyError::File)?;
                let content = SecretString::from(content);
                checked(content.expose_secret(), &path.display().to_string())
            }
            Self::Environment(value) => checked(value.expose_secret(), "SHOPMIRROR_API_KEY"),
            Self::Absent => Err(KeyError::Absent),
        }
    }

    /// The warning of `check` about a key file that everyone may read.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::File(path) => exposed(path),
            Self::Environment(_) | Self::Absent => None,
        }
    }
}

fn exposed(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode() & 0o7777;
    (mode & 0o004 != 0).then(|| {
        format!(
            "{} can be read by everyone (mode {mode:04o}): run chmod 0640 on it",
            path.display()
        )
    })
}

/// The key in a text, without the white space around it; messages use `place` as the text's name.
///
/// # Errors
/// [`KeyError`] if the text cannot be a key.
pub fn checked(content: &str, place: &str) -> Result<SecretString, KeyError> {
    let word = content.trim();
    if word.is_empty() {
        return Err(KeyError::Empty(place.to_owned()));
    }
    if word.len() > KEY_MAX {
        return Err(KeyError::TooLong(place.to_owned()));
    }
    if !word.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(KeyError::Malformed(place.to_owned()));
    }
    Ok(SecretString::from(word))
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
        let long = vec![b'k'; 4097];
        let cases: [&[u8]; 7] =
            [b"", b" \n ", b"CANARY two", b"CANARY\nB", b"\xffCANARY", "CANARYé".as_bytes(), &long];
        for content in cases {
            let (_dir, source) = file(content, 0o600);
            let error = source.read().unwrap_err().to_string();
            assert!(!error.contains("CANARY") && !error.contains("kkk"), "{error}");
        }
        let variable = |text: &str| KeySource::Environment(text.into()).read();
        assert_eq!(variable("ak_1\n").unwrap().expose_secret(), "ak_1");
        assert!(matches!(variable("a b"), Err(KeyError::Malformed(_))));
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
