//! Foreign text in documents: pages, mails, pictures and files.
//!
//! Letters of every script stay, with the marks that join and direct them. Only what no document
//! can hold is replaced by U+FFFD: control characters, and U+FFFE and U+FFFF, which XML excludes;
//! and the two characters that reverse letters, because a line of plain text has nothing that
//! keeps the rest of it apart. Pure.

use super::escape::cut;

/// The text on one line: a break of a line and a tab are a space.
#[must_use]
pub fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => line.push(' '),
            other => line.push(held(other)),
        }
    }
    line
}

/// The text with its tabs, and with each break of a line as `\n`.
#[must_use]
pub fn lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        match character {
            '\t' | '\n' => lines.push(character),
            '\r' => lines.push('\n'),
            other => lines.push(held(other)),
        }
    }
    lines
}

/// As [`line`], cut to `most` characters.
#[must_use]
pub fn cell(text: &str, most: usize) -> String {
    line(&cut(text, most))
}

fn held(character: char) -> char {
    match character {
        '\u{202d}' | '\u{202e}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_their_marks_stay_and_what_no_document_can_hold_is_replaced() {
        let names =
            "علی\u{200c}رضا 👨\u{200d}🔧 ශ්\u{200d}රී \u{200f}שלום \u{202a}+49\u{202c} co\u{ad}op";
        assert_eq!(line(names), names);
        assert_eq!(lines(names), names);
        assert_eq!(
            line("a\r\n\tb\u{2028}\u{202e}\u{1b}[31m\u{9b}\0"),
            "a   b \u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}"
        );
        assert_eq!(
            lines("a\r\n\tb\rc\u{7f}\u{ffff}"),
            "a\n\tb\nc\u{fffd}\u{fffd}"
        );
        assert_eq!(cell("éééé", 3), "ééé…");
    }
}
