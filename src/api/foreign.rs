//! Makes text from the workspace or the network safe for a log line or a terminal.
//!
//! The text is shortened, characters that control a terminal are escaped, and the API key is
//! removed, because a server may repeat it.

use crate::text::escape;

/// The longest foreign text, in characters; the rest is cut off.
const MAX_CHARS: usize = 200;

/// Removes `secret` from a text, escapes what controls a terminal, and shortens the text.
pub(super) fn sanitize(text: &str, secret: &str) -> String {
    escape::shown(&escape::cut(&without(text, secret), MAX_CHARS))
}

/// Replaces every occurrence in any letter case, because host names are in lower case.
pub(super) fn without(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let folded = text.to_ascii_lowercase();
    let secret = secret.to_ascii_lowercase();
    let mut clean = String::with_capacity(text.len());
    let mut rest_at = 0;
    for (at, found) in folded.match_indices(&secret) {
        clean.push_str(&text[rest_at..at]);
        clean.push_str("[key]");
        rest_at = at + found.len();
    }
    clean.push_str(&text[rest_at..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_taken_out_in_any_letter_case() {
        assert_eq!(
            sanitize("no Key_1 and key_1.example", "Key_1"),
            "no [key] and [key].example"
        );
        let astride = format!("{}Key_1", "x".repeat(198));
        assert!(
            !sanitize(&astride, "Key_1").contains("Ke"),
            "a key cut in two is still a leak"
        );
    }

    #[test]
    fn no_text_brings_the_key_back() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let key: String = (0..random.usize(12..41))
                .map(|_| random.char('!'..='~'))
                .collect();
            let mut any =
                |most| -> String { (0..random.usize(..most)).map(|_| random.char(..)).collect() };
            let sanitized = sanitize(&format!("{}{key}{}", any(250), any(30)), &key);
            assert!(
                !sanitized
                    .to_ascii_lowercase()
                    .contains(&key.to_ascii_lowercase()),
                "{key}"
            );
            assert!(!sanitized.chars().any(escape::is_unsafe), "{sanitized:?}");
        }
    }
}
