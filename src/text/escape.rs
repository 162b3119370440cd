//! How text from outside is printed on a terminal and in a log: the workspace, a webhook or a
//! command wrote it. Pure.
//!
//! A terminal obeys control characters, and some Unicode characters reverse the line around them.
//! These are printed as escapes, and nothing else is: joiners and marks belong to the letters of
//! many scripts. Documents have [`super::document`].

use std::borrow::Cow;

/// True if `character` commands a terminal, ends a line, or reverses the line around it.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line, with each unsafe character as `\u{..}`.
#[must_use]
pub fn shown(text: &str) -> String {
    escaped(text, &[])
}

/// As [`shown`], but line breaks and tabs stay.
#[must_use]
pub fn shown_lines(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

fn escaped(text: &str, allowed: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !allowed.contains(&c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The text of a cell: as [`shown`], cut to `most` characters.
#[must_use]
pub fn cell(text: &str, most: usize) -> String {
    shown(&cut(text, most))
}

/// The first `most` characters of a text, with `…` after them if there are more.
#[must_use]
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_a_long_text_has_a_mark_at_its_end() {
        let hostile = "a\n<0>FAKE \u{1b}[31m\u{202e}b\u{7f}";
        assert_eq!(shown(hostile), r"a\u{a}<0>FAKE \u{1b}[31m\u{202e}b\u{7f}");
        assert_eq!(shown_lines("a\n\tb\r"), "a\n\tb\\u{d}");
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("éééé", 3), "ééé…");
    }

    #[test]
    fn letters_of_any_script_are_safe_and_what_steers_a_terminal_is_not() {
        let names = "Zoë – 修理 № 7 שלום علی\u{200c}رضا 👨\u{200d}🔧 \u{200f}א";
        assert!(names.chars().all(|c| !is_unsafe(c)));
        for hostile in "\0\t\n\r\u{1b}\u{7f}\u{9b}\u{2028}\u{202a}\u{202e}\u{2066}".chars() {
            assert!(is_unsafe(hostile), "{hostile:?}");
        }
    }
}
