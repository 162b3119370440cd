//! The text or number that a JSON value holds.

use std::borrow::Cow;

/// A longer text is no amount and no time.
const LONGEST: usize = 64;

/// What a JSON value holds, as far as a reader has a use for it.
pub(super) enum JsonValue<'a> {
    /// Null, or a text without content.
    Absent,
    /// A number as it was sent.
    Number(&'a str),
    /// A text without the spaces around it.
    Text(Cow<'a, str>),
    /// Anything else.
    Other,
}

impl<'a> JsonValue<'a> {
    /// `None` is a field that was not sent.
    pub(super) fn of(json: Option<&'a str>) -> Self {
        let Some(json) = json else {
            return Self::Absent;
        };
        match json.as_bytes().first() {
            Some(b'n') => Self::Absent,
            Some(b'-' | b'0'..=b'9') => Self::Number(json),
            Some(b'"') => Self::of_text(json),
            _ => Self::Other,
        }
    }

    fn of_text(json: &'a str) -> Self {
        let inner = &json[1..json.len() - 1];
        let text: Cow<'a, str> = if inner.contains('\\') {
            match serde_json::from_str::<String>(json) {
                Ok(text) => text.trim().to_owned().into(),
                // Half of a surrogate pair.
                Err(_) => return Self::Other,
            }
        } else {
            inner.trim().into()
        };
        if text.is_empty() {
            return Self::Absent;
        }
        if text.len() > LONGEST {
            return Self::Other;
        }
        Self::Text(text)
    }
}
