//! Reads a secret that stands in the file itself or in a file of its own.
//!
//! No message repeats the secret.

use std::ops::Range;

use secrecy::{ExposeSecret, SecretString};

use super::Base;
use super::key::read_secret_file;
use super::section::{Found, Section};

/// A secret, the key that gave it, and where that key stands.
pub(super) struct Secret {
    pub(super) value: SecretString,
    pub(super) key: &'static str,
    pub(super) place: Range<usize>,
}

/// The secret of `key`, or the content of the file that `file_key` names; `None` if neither is
/// given, or if a problem was noted.
pub(super) fn read(
    section: &mut Section<'_>,
    base: &Base,
    key: &'static str,
    file_key: &'static str,
) -> Option<Secret> {
    let both = section.holds(key) && section.holds(file_key);
    let direct = section.secret_text(key);
    let file = section.text(file_key);
    if both {
        section.note(format!("give `{key}` or `{file_key}`, not both"));
    }
    if let Some(Found { value, place }) = direct {
        return Some(Secret { value: value.into(), key, place });
    }
    let Found { value, place } = file?;
    match read_secret_file(&base.dir.join(value)) {
        Ok(content) => {
            let value = SecretString::from(content.expose_secret().trim());
            if value.expose_secret().is_empty() {
                section.findings.note(&place, format!("the file of `{file_key}` is empty"));
                return None;
            }
            Some(Secret { value, key: file_key, place })
        }
        Err(error) => {
            section.findings.note(&place, format!("`{file_key}`: {error}"));
            None
        }
    }
}
