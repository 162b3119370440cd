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

/// The name of a file that holds a secret; `None` if the key is not given, or if a problem was noted. A
/// secret in the place of the name is not repeated in the message.
pub(super) fn file<'d>(
    section: &mut Section<'d>,
    base: &Base,
    key: &'static str,
) -> Option<Found<&'d str>> {
    let found = section.secret_text(key)?;
    // A file of that name settles it, whatever the name looks like.
    if !is_secret_itself(found.value) || base.dir.join(found.value).exists() {
        return Some(found);
    }
    let message = format!(
        "`{key}` must name a file, and this seems to be the secret itself: write it into a file that only \
         this user may read, and name that file; if this is the name of a file, write ./ before it"
    );
    section.findings.note_secret(&found.place, message);
    None
}

/// True for a word that looks like a key, an address or a password rather than a file's name.
fn is_secret_itself(value: &str) -> bool {
    const LONG: usize = 16;
    if value.starts_with(['/', '.']) {
        return false;
    }
    let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
    let is_mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    value.contains("://")
        || (!value.contains('/')
            && (value.starts_with("sk_")
                || value.starts_with("whsec_")
                || value.contains([':', '@', ' '])
                || (value.len() >= LONG && is_mixed && !value.contains('.'))))
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
    let file = self::file(section, base, file_key);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_told_from_the_name_of_a_file() {
        for name in [
            "key",
            "api-key",
            "/run/credentials/a1b2c3d4e5f6a7b8/api-key",
            "workspace-api-key.2026-11",
        ] {
            assert!(!is_secret_itself(name), "{name}");
        }
        for secret in
            ["sk_live", "whsec_abc", "https://h.example/token", "s3cr3tpwAAAABBBBCCCC", "Bearer x"]
        {
            assert!(is_secret_itself(secret), "{secret}");
        }
    }
}
