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
    pub fn for_change(change: &Change) -> Self {
        let none = Value::from(());
        let body = value_of(&change.body);
        let (record, gap) = if change.kind == Kind::Gap {
            (none, body)
        } else {
            (body, none)
        };
        let mut changed = Vec::new();
        for field in change.changed() {
            let before = value_or_none(field.before);
            let after = value_or_none(field.after);
            let sides = Value::from_pairs([("before", before), ("after", after)]);
            changed.push((Value::from(field.name), sides));
        }
        Self(Value::from_pairs([
            ("before", value_or_none(change.before.as_deref())),
            ("business", Value::from(change.business.clone())),
            ("changed", Value::from_pairs(changed)),
            ("event_id", Value::from(change.event_id.clone())),
            ("gap", gap),
            ("job", value_or_none(change.job.as_deref())),
            ("kind", Value::from(change.kind.as_str())),
            ("observed_at", Value::from(change.observed_at.clone())),
            ("record", record),
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
    pub fn for_changes(changes: &[&Change]) -> Self {
        let all: Vec<Value> = changes
            .iter()
            .map(|change| Self::for_change(change).0)
            .collect();
        Self(Value::from_pairs([
            ("count", Value::from(all.len())),
            ("changes", Value::from(all)),
        ]))
    }
}

fn value_or_none(json: Option<&str>) -> Value {
    match json {
        Some(json) => value_of(json),
        None => Value::from(()),
    }
}

/// The value of a JSON text; a text that is not JSON stays a text.
fn value_of(json: &str) -> Value {
    if let Ok(value) = serde_json::from_str(json) {
        return value;
    }
    serde_json::from_str(&as_text(json)).unwrap_or_else(|_| Value::from(json))
}

/// JSON whose strings other programs can store: a NUL character and half of a surrogate pair become
/// U+FFFD.
#[must_use]
pub fn as_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escapes) = rest.split_at(at);
        text.push_str(before);
        let length = match (code_unit(escapes, 0), code_unit(escapes, 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                text.push_str(&escapes[..12]);
                12
            }
            (Some(0 | 0xd800..=0xdfff), _) => {
                text.push_str("\\ufffd");
                6
            }
            // A backslash and the character that it escapes.
            _ => {
                let pair = escapes.get(..2).unwrap_or(escapes);
                text.push_str(pair);
                pair.len()
            }
        };
        rest = &escapes[length..];
    }
    text + rest
}

/// The code unit of the escape `\uXXXX` at this place.
fn code_unit(escapes: &str, at: usize) -> Option<u16> {
    let digits = escapes.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_half_characters_are_read() {
        let value = value_of(
            r#"{"id":12345678901234567890,"n":-4,"f":1.5,
                "s":"a\\ud800","h":"x\ud83d!","p":"\ud83d\ude00"}"#,
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
