//! Puts values into a JSON text so that it stays the JSON that its author wrote.
//!
//! While a template runs, it is not known whether a value is inside a JSON string. So each value is
//! written as JSON between two marks, and after the run [`fill`] reads the text once: inside a
//! string it leaves the quotes out, elsewhere it keeps them. JSON escapes control characters, so
//! that no value can hold a mark.

/// Before a value.
pub(super) const OPEN: char = '\u{1}';
/// After a value.
pub(super) const CLOSE: char = '\u{2}';

/// Replaces each marked value by what belongs in its place.
pub(super) fn fill(marked: &str) -> String {
    let mut text = String::with_capacity(marked.len());
    let mut in_string = false;
    let mut escaped = false;
    let mut rest = marked;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        if character == OPEN {
            let (value, behind) = after.split_once(CLOSE).unwrap_or((after, ""));
            if in_string {
                push_inside(&mut text, value)
            } else {
                text.push_str(value)
            }
            escaped = false;
            rest = behind;
            continue;
        }
        match character {
            '"' if !escaped => in_string = !in_string,
            '\\' if in_string && !escaped => {
                escaped = true;
                text.push(character);
                rest = after;
                continue;
            }
            _ => {}
        }
        escaped = false;
        text.push(character);
        rest = after;
    }
    text
}

/// A value as part of a string: a text without its quotes, nothing for null, other values as JSON.
fn push_inside(text: &mut String, value: &str) {
    match value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        Some(inner) => text.push_str(inner),
        None if value == "null" => {}
        None => {
            let quoted = super::quoted(value);
            text.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
}
