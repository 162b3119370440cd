//! What a template sees of a change.
//!
//! A whole number of 64 bits keeps its value. Half of a surrogate pair is valid JSON and no text:
//! it is shown as U+FFFD.

use minijinja::Value;
use shopmirror_core::record::{Change, Kind};

/// The names that a template may use.
pub const NAMES: [&str; 15] = [
    "before",
    "business",
    "changed",
    "event_id",
    "gap",
    "job",
    "kind",
    "observed_at",
    "record",
    "record_id",
    "route",
    "seq",
    "test",
    "type",
    "version",
];

/// The names that a template over several changes may use.
pub const DIGEST_NAMES: [&str; 2] = ["changes", "count"];

/// The values of the names that a template may use.
#[derive(Debug, Clone)]
pub struct Context(pub(super) Value);

impl Context {
    /// One change.
    #[must_use]
    pub fn of(change: &Change) -> Self {
        let gap = change.kind == Kind::Gap;
        let body = value_of(&change.body);
        let none = || Value::from(());
        let before = change.before.as_deref();
        let changed = change.changed().into_iter().map(|field| {
            let side = |text: Option<&str>| text.map_or_else(none, value_of);
            let sides = [("before", side(field.before)), ("after", side(field.after))];
            (Value::from(field.name), Value::from_pairs(sides))
        });
        Self(Value::from_pairs([
            ("before", before.map_or_else(none, value_of)),
            ("business", Value::from(change.business.clone())),
            ("changed", Value::from_pairs(changed.collect::<Vec<_>>())),
            ("event_id", Value::from(change.event_id.clone())),
            ("gap", if gap { body.clone() } else { none() }),
            ("job", change.job.as_deref().map_or_else(none, value_of)),
            ("kind", Value::from(change.kind.as_str())),
            ("observed_at", Value::from(change.observed_at.clone())),
            ("record", if gap { none() } else { body }),
            ("record_id", Value::from(change.record_id.clone())),
            ("route", Value::from(change.route_name())),
            ("seq", Value::from(change.row())),
            ("test", Value::from(change.is_test())),
            ("type", Value::from(change.event_type())),
            ("version", Value::from(change.version)),
        ]))
    }

    /// Several changes: `changes`, a list, and `count`.
    #[must_use]
    pub fn of_all(changes: &[&Change]) -> Self {
        let all: Vec<Value> = changes.iter().map(|change| Self::of(change).0).collect();
        Self(Value::from_pairs([
            ("count", Value::from(all.len())),
            ("changes", Value::from(all)),
        ]))
    }
}

/// The value of a JSON text; a text that cannot be read is itself.
fn value_of(text: &str) -> Value {
    let read = serde_json::from_str(text).or_else(|_| serde_json::from_str(&as_text(text)));
    read.unwrap_or_else(|_| Value::from(text))
}

/// JSON whose every string is a text that others can hold: a NUL character and half of a surrogate
/// pair become U+FFFD.
#[must_use]
pub fn as_text(json: &str) -> String {
    let mut held = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escapes) = rest.split_at(at);
        // The code unit of the escape `\uXXXX` at this place.
        let unit = |at: usize| {
            let digits = escapes.get(at..at + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(digits, 16).ok()
        };
        let (text, length) = match (unit(0), unit(6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (&escapes[..12], 12),
            (Some(0 | 0xd800..=0xdfff), _) => ("\\ufffd", 6),
            // A backslash and what it escapes.
            _ => escapes
                .get(..2)
                .map_or((escapes, escapes.len()), |pair| (pair, 2)),
        };
        held.push_str(before);
        held.push_str(text);
        rest = &escapes[length..];
    }
    held + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_half_characters_are_read() {
        let value = value_of(
            r#"{"id":12345678901234567890,"n":-4,"f":1.5,"s":"a\\ud800","h":"x\ud83d!","p":"\ud83d\ude00"}"#,
        );
        let shown = |name: &str| value.get_attr(name).unwrap().to_string();
        assert_eq!(shown("id"), "12345678901234567890");
        assert_eq!((shown("n"), shown("f")), ("-4".into(), "1.5".into()));
        assert_eq!(shown("s"), r"a\ud800");
        assert_eq!(shown("h"), "x\u{fffd}!");
        assert_eq!(shown("p"), "😀");
    }

    #[test]
    fn what_is_no_text_is_replaced_and_nothing_else() {
        for (json, held) in [
            (r#"{"a\u0000":"\u0000x"}"#, r#"{"a\ufffd":"\ufffdx"}"#),
            (r#""\\\u0000\\u0000""#, r#""\\\ufffd\\u0000""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#),
            (r#""\uDC00a\uD83D\n""#, r#""\ufffda\ufffd\n""#),
        ] {
            assert_eq!(as_text(json), held, "{json}");
        }
        let fine = r#"{"id":1,"note":"a \" \\u0000 é 😀 \ud83d\ude00 \n \u00e9"}"#;
        assert_eq!(as_text(fine), fine);
    }
}
