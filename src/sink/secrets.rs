//! Hides the secrets of a sink in what the other side says about them.
//!
//! A server may repeat a password, a key or a token in its answer. Each text of a server is searched
//! before it is cut, so that no part of a secret is left at the end.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

/// Shorter parts are words rather than secrets, and replacing them would spoil the text.
const MIN_LENGTH: usize = 4;
pub(super) const REPLACEMENT: &str = "[secret]";

/// Nothing.
pub(super) static NONE: Secrets = Secrets { spellings: Vec::new() };

/// What must not be shown, in each spelling in which a server may repeat it.
pub(super) struct Secrets {
    /// The longest first, so that a part is not replaced before the whole.
    spellings: Vec<SecretString>,
}

impl Secrets {
    pub(super) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut spellings: Vec<String> = secrets.into_iter().flat_map(spellings_of).collect();
        spellings.retain(|secret| secret.chars().count() >= MIN_LENGTH);
        spellings.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Self { spellings: spellings.into_iter().map(SecretString::from).collect() }
    }

    /// A user's password, alone and as HTTP and mail servers get it together with the name.
    #[cfg(any(
        test,
        feature = "email",
        feature = "postgres",
        feature = "nats",
        feature = "mqtt",
        feature = "s3"
    ))]
    pub(super) fn of_login(user: &str, password: &str) -> Self {
        Self::new([
            password.to_owned(),
            format!("{user}:{password}"),
            format!("\0{user}\0{password}"),
        ])
    }

    /// What an address holds: a user's password, or a token in its place.
    #[cfg(any(feature = "nats", feature = "mqtt"))]
    pub(super) fn of_url(url: &url::Url) -> Self {
        let part = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match (part(url.username()), url.password().map(part)) {
            (user, Some(password)) => Self::of_login(&user, &password),
            (token, None) => Self::new([token]),
        }
    }

    /// The text without the secrets.
    pub(super) fn hide(&self, text: &str) -> String {
        if self.spellings.is_empty() {
            return text.to_owned();
        }
        // Many JSON writers escape each slash.
        let mut text = text.replace("\\/", "/");
        for secret in &self.spellings {
            text = text.replace(secret.expose_secret(), REPLACEMENT);
        }
        text
    }

    /// The beginning of a text without the secrets, and without the beginning of one at its end.
    pub(super) fn hide_in_part(&self, text: &str) -> String {
        let mut text = self.hide(text);
        // A character that was cut, too.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
        let begins = |secret: &SecretString, end: &str| secret.expose_secret().starts_with(end);
        let is_begun = |end: &str| self.spellings.iter().any(|secret| begins(secret, end));
        let found = text.char_indices().map(|(at, _)| at).find(|at| is_begun(&text[*at..]));
        text.truncate(found.unwrap_or(text.len()));
        text
    }

    /// A reason without the secrets, which may have been cut.
    pub(super) fn hide_in_reason(&self, reason: &str) -> String {
        match reason.strip_suffix('…') {
            Some(beginning) => self.hide_in_part(beginning) + "…",
            None => self.hide(reason),
        }
    }
}

/// A secret as it is, and as headers, addresses and JSON have it.
fn spellings_of(secret: String) -> Vec<String> {
    let bytes = secret.as_bytes();
    let quoted = serde_json::to_string(&secret).unwrap_or_default();
    let mut all = vec![
        percent_decode_str(&secret).decode_utf8_lossy().into_owned(),
        utf8_percent_encode(&secret, NON_ALPHANUMERIC).to_string(),
        quoted.trim_matches('"').replace("\\/", "/"),
    ];
    if secret.chars().count() >= MIN_LENGTH {
        all.extend([&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD].map(|form| form.encode(bytes)));
    }
    all.push(secret);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_hidden_in_every_spelling() {
        let secrets = Secrets::of_login("shop", "CANARY/pass\"1");
        for said in [
            "535 bad password CANARY/pass\"1 for shop".to_owned(),
            "{\"password\":\"CANARY\\/pass\\\"1\"}".to_owned(),
            "postgresql://shop:CANARY%2Fpass%221@db".to_owned(),
            format!("AUTH LOGIN {}", STANDARD.encode("CANARY/pass\"1")),
            format!("AUTH PLAIN {}", STANDARD.encode("\0shop\0CANARY/pass\"1")),
            format!("Basic {}", STANDARD_NO_PAD.encode("shop:CANARY/pass\"1")),
        ] {
            let hidden = secrets.hide(&said);
            assert!(hidden.contains(REPLACEMENT), "{hidden}");
            for part in ["CANARY", "Q0FOQVJZ", "AHNob3A", "c2hvcDpD"] {
                assert!(!hidden.contains(part), "{hidden}");
            }
        }
        assert_eq!(secrets.hide("no such user shop"), "no such user shop");
    }

    #[test]
    fn a_secret_that_the_end_of_what_was_read_cuts_is_not_repeated() {
        let said = "bad password CANARYPASS";
        let secrets = Secrets::of_login("shop", "CANARYPASS");
        for cut in 1..said.len() {
            let hidden = secrets.hide_in_part(&said[..cut]);
            assert!(!hidden.contains('C'), "{hidden}");
        }
        assert_eq!(secrets.hide_in_reason("a CANARYPASS b CANARYPASS"), "a [secret] b [secret]");
        assert_eq!(secrets.hide_in_reason("a CANARYPASS b CANARYP…"), "a [secret] b …");
        assert_eq!(secrets.hide_in_reason("a b…"), "a b…");
    }
}
