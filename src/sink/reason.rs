//! Makes the text of a verdict safe for a terminal, a log line and a page, and short.
//!
//! A reason may quote what another program wrote, so control and direction characters are shown as
//! escapes. It does not decide what may be quoted.

use std::fmt;

use crate::escape::is_unsafe;

/// Makes reasons.
pub(super) struct Reason;

impl Reason {
    /// The longest reason, in characters.
    pub(super) const MAX_CHARS: usize = 256;

    /// The text escaped and cut to [`Self::MAX_CHARS`].
    pub(super) fn of(text: impl fmt::Display) -> String {
        Self::cut(&text.to_string(), Self::MAX_CHARS)
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

    #[test]
    fn control_and_direction_characters_are_shown_as_escapes() {
        let hostile = "a\n<0>FAKE \u{1b}[31m\u{202e}b\u{7f}";
        assert_eq!(Reason::of(hostile), r"a\u{a}<0>FAKE \u{1b}[31m\u{202e}b\u{7f}");
    }

    #[test]
    fn a_reason_is_never_longer_than_its_cap() {
        for text in ["é".repeat(256), "é".repeat(257), "\n".repeat(257), "é".repeat(10_000)] {
            let reason = Reason::of(&text);
            assert!(reason.chars().count() <= Reason::MAX_CHARS, "{}", reason.chars().count());
        }
        assert_eq!(Reason::of("é".repeat(256)), "é".repeat(256));
        assert!(Reason::of("é".repeat(257)).ends_with('…'));
    }
}
