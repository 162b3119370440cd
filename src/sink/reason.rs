//! Why a change was not delivered, in words that may be shown: without the secrets of the sink,
//! safe for a terminal, a log line and a page, and short.
//!
//! A server may repeat a password, a key or a token in its response. [`Secrets::reason`] is the
//! last step of each reason: it hides the secrets before it cuts, so that no part of one is left at
//! the end.

use std::cmp::Reverse;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::text::escape;

/// The longest reason, in characters; one that is escaped counts as one.
const MAX_REASON: usize = 400;
/// A shorter password or key would hide too much of the reason.
const SHORTEST: usize = 4;
const REPLACEMENT: &str = "[secret]";

/// Why a change was not delivered, in our words, and what the receiver said of it.
///
/// The quotation may repeat a record: it is shown to the operator only. There is no `Display`, and
/// `Debug` leaves it out, so that no log line, alert or metric holds it by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason {
    /// Our words.
    pub text: String,
    /// What the receiver said.
    pub quotation: Option<String>,
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reason")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

impl Reason {
    /// The reason and the quotation in one text, for the operator on a command line.
    #[must_use]
    pub fn with_quotation(&self) -> String {
        match &self.quotation {
            Some(quotation) => format!("{}; response: {quotation}", self.text),
            None => self.text.clone(),
        }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self {
            text,
            quotation: None,
        }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// No secrets.
pub(super) static NONE: Secrets = Secrets {
    spellings: Vec::new(),
};

/// What must not be shown, in each spelling in which a server may repeat it.
#[derive(Clone)]
pub struct Secrets {
    /// The longest first, so that a part is not replaced before the whole.
    spellings: Vec<SecretString>,
}

impl Secrets {
    /// Passwords, keys and tokens.
    pub(super) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut spellings = Vec::new();
        for secret in secrets {
            if secret.chars().count() >= SHORTEST {
                spellings.extend(spellings_of(secret));
            }
        }
        spellings.sort_unstable();
        spellings.sort_by_key(|spelling: &String| Reverse(spelling.len()));
        spellings.dedup();
        Self {
            spellings: spellings.into_iter().map(SecretString::from).collect(),
        }
    }

    /// The reason without the secrets, both of its texts safe and short.
    pub(super) fn reason_without(&self, reason: &Reason) -> Reason {
        Reason {
            text: self.reason(&reason.text),
            quotation: reason.quotation.as_deref().map(|text| self.reason(text)),
        }
    }

    /// The text without the secrets, safe and short.
    pub(super) fn reason(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if !self.spellings.is_empty() {
            // Many JSON writers escape each slash.
            text = text.replace("\\/", "/");
        }
        for secret in &self.spellings {
            text = text.replace(secret.expose_secret(), REPLACEMENT);
        }
        escape::shown(&escape::cut(&text, MAX_REASON))
    }
}

/// What may be secret of an address: a user's password, or a token in its place; and the parts that
/// may be tokens.
pub(super) fn secrets_of(url: &Url) -> Vec<String> {
    let user = decoded(url.username());
    let mut secrets = match url.password() {
        Some(password) => login(&user, &decoded(password)).into(),
        None => vec![user],
    };
    let mut parts = vec![url.path().trim_end_matches('/').to_owned()];
    if let Some(segments) = url.path_segments() {
        parts.extend(segments.map(str::to_owned));
    }
    parts.extend(url.query().map(str::to_owned));
    parts.extend(url.fragment().map(str::to_owned));
    parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    secrets.extend(parts.into_iter().filter(|part| may_be_secret(part)));
    secrets
}

/// A part of an address without its `%` escapes.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether a value that need not be a secret may be one: a header, an argument or a part of an
/// address.
///
/// A short one, and one of letters only, is a word such as `test` or `notifications`. Hidden, it
/// would be missing in every response of the other side.
pub(super) fn may_be_secret(text: &str) -> bool {
    let has_words_only = text
        .chars()
        .all(|c| c.is_alphabetic() || "-_/. ".contains(c));
    let shortest = if has_words_only { 20 } else { 8 };
    text.chars().count() >= shortest
}

/// A user's password, alone and as HTTP and mail servers get it together with the name.
pub(super) fn login(user: &str, password: &str) -> [String; 3] {
    [
        password.to_owned(),
        format!("{user}:{password}"),
        format!("\0{user}\0{password}"),
    ]
}

/// A secret as it is, and as headers, addresses and JSON have it.
fn spellings_of(secret: String) -> Vec<String> {
    let bytes = secret.as_bytes();
    let quoted = serde_json::to_string(&secret).unwrap_or_default();
    let mut all = vec![
        decoded(&secret),
        utf8_percent_encode(&secret, NON_ALPHANUMERIC).to_string(),
        quoted.trim_matches('"').replace("\\/", "/"),
    ];
    for encoding in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        all.push(encoding.encode(bytes));
    }
    all.push(secret);
    all
}

/// The response of a server as a quotation; `None` if it holds nothing to read. Unless
/// `is_whole`, `text` is its beginning, whose last word may be the beginning of a secret.
pub(super) fn response(text: &[u8], is_whole: bool) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let end = if is_whole {
        text.len()
    } else {
        text.rfind(char::is_whitespace).unwrap_or(0)
    };
    let words: Vec<&str> = text[..end].split_whitespace().collect();
    if words.is_empty() {
        None
    } else {
        Some(words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_hidden_in_every_spelling() {
        let secrets = Secrets::new(login("shop", "CANARY/pass\"1"));
        for said in [
            "535 bad password CANARY/pass\"1 for shop".to_owned(),
            "{\"password\":\"CANARY\\/pass\\\"1\"}".to_owned(),
            "postgresql://shop:CANARY%2Fpass%221@db".to_owned(),
            format!("AUTH LOGIN {}", STANDARD.encode("CANARY/pass\"1")),
            format!("AUTH PLAIN {}", STANDARD.encode("\0shop\0CANARY/pass\"1")),
            format!("Basic {}", STANDARD_NO_PAD.encode("shop:CANARY/pass\"1")),
        ] {
            let hidden = secrets.reason(&said);
            assert!(hidden.contains(REPLACEMENT), "{hidden}");
            for part in ["CANARY", "Q0FOQVJZ", "AHNob3A", "c2hvcDpD"] {
                assert!(!hidden.contains(part), "{hidden}");
            }
        }
        assert_eq!(secrets.reason("no such user shop"), "no such user shop");
    }

    #[test]
    fn an_address_is_hidden_with_its_tokens_and_its_words_are_not() {
        let url =
            "https://shop:pass%20word@hooks.example.com/in/CANARYSEGMENT9?token=CANARY-1&n=general";
        let secrets = Secrets::new(secrets_of(&Url::parse(url).unwrap()));
        for said in [
            url.replace('/', "\\/"),
            "no route for /in/CANARYSEGMENT9".to_owned(),
            "token=CANARY-1 is bad, and so is CANARY-1".to_owned(),
            "user shop:pass word, pass%20word".to_owned(),
            format!("Basic {}", STANDARD.encode("shop:pass word")),
        ] {
            let hidden = secrets.reason(&said);
            let is_leaked = ["CANARY", "pass", &STANDARD.encode("shop:pass word")]
                .iter()
                .any(|secret| hidden.contains(secret));
            assert!(!is_leaked && hidden.contains(REPLACEMENT), "{hidden}");
        }
        let words = "no channel general in the shop";
        assert_eq!(secrets.reason(words), words);
    }

    #[test]
    fn a_plain_word_of_the_configuration_hides_nothing() {
        for (text, is_hidden) in [
            ("test", false),
            ("de-DE", false),
            ("Workshop Berlin", false),
            ("/hooks/shop", false),
            ("s3cret9", false),
            ("s3cret99", true),
            ("T00000000", true),
            ("correcthorsebatterystaple", true),
        ] {
            assert_eq!(may_be_secret(text), is_hidden, "{text}");
        }
    }

    #[test]
    fn no_part_of_a_secret_is_left_where_a_text_is_cut() {
        let secrets = Secrets::new(login("shop", "CANARYPASS"));
        let text = "bad password CANARYPASS";
        for end in 1..text.len() {
            let quotation = response(&text.as_bytes()[..end], false).unwrap_or_default();
            let reason = secrets.reason(&quotation);
            assert!(!reason.contains('C'), "{reason}");
        }
        for before in MAX_REASON - 20..MAX_REASON + 5 {
            let reason = secrets.reason(&format!("{}CANARYPASS", " ".repeat(before)));
            assert!(
                !reason.contains('C') && reason.chars().count() <= MAX_REASON + 1,
                "{reason}"
            );
        }
    }
}
