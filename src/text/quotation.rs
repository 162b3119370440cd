//! What another program said in its response, kept apart from our own words.
//!
//! It may repeat a record or call itself anything. So it is shown only to the operator: by commands,
//! over the control socket, and on the page where that shows records. It has no `Display`, and its
//! `Debug` is empty, so that no log line, alert or metric can hold it by mistake.

use std::fmt;

use serde_json::Value;

use super::escape;

/// The longest quotation of a body, in characters; the rest is cut off.
const MAX_CHARS: usize = 200;

/// What another program said, without secrets, escaped and short.
#[derive(Clone, PartialEq, Eq)]
pub struct Quotation(String);

impl fmt::Debug for Quotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Quotation(..)")
    }
}

impl Quotation {
    /// What the body of a response says: of JSON its code, message and details, of a web page its
    /// title, of other text the words before the first `{` or `[`. `hide` takes secrets out of it.
    /// `None` if it says nothing.
    #[must_use]
    pub fn of_body(body: &[u8], hide: impl Fn(&str) -> String) -> Option<Self> {
        let text = String::from_utf8_lossy(body);
        let text = text.trim_start_matches('\u{feff}').trim();
        let words = if let Ok(value) = serde_json::from_str(text) {
            words_of_json(&value)
        } else if text.starts_with('<') {
            title(text).unwrap_or_default().to_owned()
        } else {
            let end = text.find(['{', '[']).unwrap_or(text.len());
            text[..end].to_owned()
        };
        let words = hide(&in_one_line(&words));
        if words.is_empty() {
            return None;
        }
        Some(Self(escape::shown(&escape::cut(&words, MAX_CHARS))))
    }

    /// The words, to be shown to the operator only.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.0
    }
}

fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Code, message and details of an error, in one text (contract, "Errors").
fn words_of_json(value: &Value) -> String {
    let error = value.get("error").unwrap_or(&Value::Null);
    let code = error.get("code").or(value.get("code"));
    let message = error.get("message").or(value.get("message"));
    let details = error.get("details").or(value.get("details"));
    let mut parts = Vec::new();
    // Some services say it as `"error": "…"`.
    for member in [code, Some(error), message] {
        if let Some(text) = member.and_then(Value::as_str) {
            parts.push(text.to_owned());
        }
    }
    if let Some(Value::Array(details)) = details {
        for detail in details {
            let field = detail.get("field").and_then(Value::as_str);
            let message = detail.get("message").and_then(Value::as_str);
            match (field, message) {
                (Some(field), Some(message)) => parts.push(format!("{field}: {message}")),
                (Some(text), None) | (None, Some(text)) => parts.push(text.to_owned()),
                (None, None) => {}
            }
        }
    }
    parts.join("; ")
}

/// The title of a web page.
fn title(page: &str) -> Option<&str> {
    // Only ASCII letters change, so that every place is the same in both texts.
    let lower = page.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let begin = tag + lower[tag..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    Some(&page[begin..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> Option<String> {
        let quotation = Quotation::of_body(body.as_bytes(), str::to_owned)?;
        Some(quotation.shown().to_owned())
    }

    #[test]
    fn of_each_kind_of_body_only_what_explains_it_is_quoted() {
        for (body, words) in [
            (
                r#"{"error":{"code":"c","message":"No.","details":[{"field":"name","message":"is missing"},7],"request_id":"r"},"message":"old","data":{"name":"Ann"}}"#,
                Some("c; No.; name: is missing"),
            ),
            (r#"{"message":"old"}"#, Some("old")),
            (r#"{"error":"blocked"}"#, Some("blocked")),
            (r#"[{"id":1,"name":"Ann"}]"#, None),
            (r#""Ann""#, None),
            (
                "<!doctype html><TITLE lang=en>\n Just a\n moment... </TITLE><p>Ann",
                Some("Just a moment..."),
            ),
            ("<html><p>Ann", None),
            (
                "\u{feff}Warning: no such file [{\"id\":1,\"name\":\"Ann\"}]",
                Some("Warning: no such file"),
            ),
            ("{\"name\":\"Ann", None),
            ("  ", None),
        ] {
            assert_eq!(said(body).as_deref(), words, "{body}");
        }
    }

    #[test]
    fn a_quotation_is_short_and_escaped_and_never_printed_by_mistake() {
        let long = said(&"ab ".repeat(200)).unwrap();
        assert_eq!(
            long.chars().count(),
            MAX_CHARS + 1,
            "with the mark at its end"
        );
        assert_eq!(said("a\u{1b}[31m"), Some("a\\u{1b}".to_owned()));
        let quotation = Quotation::of_body(b"Ann", |text| text.replace("nn", "?")).unwrap();
        assert_eq!(quotation.shown(), "A?");
        assert_eq!(format!("{quotation:?}"), "Quotation(..)");
    }
}
