//! Makes the text of a verdict safe for a terminal, a log line and a page, and short.
//!
//! A reason may quote what another program wrote, so control and direction characters are shown as
//! escapes. It does not decide what may be quoted.

use std::fmt;

use crate::escape::is_unsafe;
#[cfg(any(feature = "nats", feature = "mqtt"))]
use crate::record::Change;

/// Makes reasons.
pub(super) struct Reason;

impl Reason {
    /// The longest reason, in characters.
    pub(super) const MAX_CHARS: usize = 256;

    /// The text escaped and cut to [`Self::MAX_CHARS`].
    pub(super) fn of(text: impl fmt::Display) -> String {
        Self::cut(&text.to_string(), Self::MAX_CHARS)
    }

    /// Why a destination does not take the message of a change: how long it is, what to do, and what of it
    /// is not the record.
    #[cfg(any(feature = "nats", feature = "mqtt"))]
    pub(super) fn too_large(change: &Change, who: &str, remedy: &str) -> String {
        let (message, record) = (change.data_json().len(), change.body.len());
        let mut text = format!("larger than {who} takes, {message} bytes: {remedy}");
        if change.before.is_some() && message > 2 * record {
            text.push_str(&format!(
                "; the record has {record} bytes, the rest are the values in `changed`"
            ));
        }
        text
    }

    /// The text escaped and cut to `max` characters, the last of which says that it was cut.
    pub(super) fn cut(text: &str, max: usize) -> String {
        let mut safe = String::new();
        let mut room = max;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let shown = if is_unsafe(character) {
                character.escape_unicode().to_string()
            } else {
                character.to_string()
            };
            let length = shown.chars().count();
            let last = characters.peek().is_none();
            if length > room || (length == room && !last) {
                safe.push('…');
                break;
            }
            room -= length;
            safe.push_str(&shown);
        }
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(any(feature = "nats", feature = "mqtt"))]
    use crate::record::{Kind, Route};

    #[cfg(any(feature = "nats", feature = "mqtt"))]
    #[test]
    fn an_edit_whose_values_before_are_too_large_is_told_apart_from_a_large_record() {
        let long = format!(r#"{{"id":7,"note":"{}"}}"#, "x".repeat(100_000));
        let change = |body: &str, before: &str| Change {
            seq: 2,
            event_id: "evt_2".into(),
            kind: Kind::Updated,
            route: Route::Leads,
            record_id: Some("7".into()),
            business: None,
            version: 2,
            body: body.into(),
            before: Some(before.into()),
            job: None,
            observed_at: "2026-01-02T03:04:05.000000Z".into(),
        };
        let told =
            |body, before| Reason::too_large(&change(body, before), "the server", "raise it");
        let shortened = told(r#"{"id":7}"#, &long);
        assert!(shortened.starts_with("larger than the server takes, 100"), "{shortened}");
        assert!(shortened.ends_with("the rest are the values in `changed`"), "{shortened}");
        let other = long.replacen("\"id\":7", "\"id\":7,\"a\":1", 1);
        assert!(told(&other, &long).ends_with(": raise it"), "{}", told(&other, &long));
    }

    #[test]
    fn a_reason_is_escaped_and_never_longer_than_its_cap() {
        let hostile = "a\n<0>FAKE \u{1b}[31m\u{202e}b\u{7f}";
        assert_eq!(Reason::of(hostile), r"a\u{a}<0>FAKE \u{1b}[31m\u{202e}b\u{7f}");
        for text in ["é".repeat(257), "\n".repeat(257), "é".repeat(10_000)] {
            assert!(Reason::of(&text).chars().count() <= Reason::MAX_CHARS);
            assert!(Reason::of(&text).ends_with('…'));
        }
        assert_eq!(Reason::of("é".repeat(256)), "é".repeat(256));
    }
}
