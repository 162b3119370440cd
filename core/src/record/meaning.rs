//! What counts as a change: two texts of one record compared by meaning.
//!
//! Key order, white space, spelling of numbers and the fraction digits of a timestamp carry no
//! meaning (contract, "Data conventions"), and so does whether an id is a number or a string; absent
//! and null differ. Numbers are compared digit by
//! digit, never as floats, so that two 20-digit numbers never look alike.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::RecordId;
use super::fields::Fields;

/// One top-level field that differs between two versions; `None` means that it was absent.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldChange<'a> {
    /// The field's name.
    pub name: String,
    /// The value's JSON text before.
    pub before: Option<&'a str>,
    /// The value's JSON text after.
    pub after: Option<&'a str>,
}

/// Whether two versions of one record mean the same, whichever way its id is written and whatever
/// the `ignored` fields say: an id that turns from a number into a string is no change (contract,
/// "Versioning" 4).
#[must_use]
pub fn same_record(a: &Fields<'_>, b: &Fields<'_>, ignored: &[String]) -> bool {
    let mut counted = 0;
    for (name, value) in a.iter() {
        if !counts(name, ignored) {
            continue;
        }
        counted += 1;
        match b.get(name) {
            Some(other) if same_field(name, value, other) => {}
            _ => return false,
        }
    }
    counted == b.iter().filter(|(name, _)| counts(name, ignored)).count()
}

/// Whether a field counts for the meaning of its record.
fn counts(name: &str, ignored: &[String]) -> bool {
    name != "id" && !ignored.iter().any(|ignored| ignored == name)
}

/// Whether two values of one field mean the same. Where the field refers to a record, an integer
/// and the same digits as a string are one value, as they are for the id of that record.
fn same_field(name: &str, a: &str, b: &str) -> bool {
    let is_reference = name == "id" || name.ends_with("_id");
    same_meaning(a, b) || (is_reference && same_id(a, b))
}

fn same_id(a: &str, b: &str) -> bool {
    match (RecordId::from_json(a), RecordId::from_json(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Whether two JSON texts mean the same; texts that are not JSON are compared as text.
#[must_use]
pub fn same_meaning(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (Some(first_a), Some(first_b)) = (a.bytes().next(), b.bytes().next()) else {
        return false;
    };
    match (first_a, first_b) {
        (b'{', b'{') => same_object(a, b),
        (b'[', b'[') => same_array(a, b),
        (b'"', b'"') => same_string(a, b),
        (b'-' | b'0'..=b'9', b'-' | b'0'..=b'9') => same_number(a, b),
        _ => false,
    }
}

fn same_object(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (Fields::parse(a), Fields::parse(b)) else {
        return false;
    };
    if a.len() != b.len() {
        return false;
    }
    for (name, value) in a.iter() {
        match b.get(name) {
            Some(other) if same_field(name, value, other) => {}
            _ => return false,
        }
    }
    true
}

fn same_array(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (array(a), array(b)) else {
        return false;
    };
    if a.len() != b.len() {
        return false;
    }
    for (a, b) in a.iter().zip(&b) {
        if !same_meaning(a.get(), b.get()) {
            return false;
        }
    }
    true
}

/// Times mean the same if they lie in one second.
fn same_string(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (string(a), string(b)) else {
        return false;
    };
    if a == b {
        return true;
    }
    match (second_of(&a), second_of(&b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

fn same_number(a: &str, b: &str) -> bool {
    match (Number::parse(a), Number::parse(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The top-level fields whose meaning differs between two versions of one record, in alphabetical
/// order; never its id.
///
/// Empty when either text is no JSON object.
#[must_use]
pub fn changed_fields<'a>(before: &'a str, after: &'a str) -> Vec<FieldChange<'a>> {
    let (Some(old), Some(new)) = (Fields::parse(before), Fields::parse(after)) else {
        return Vec::new();
    };
    let mut names: Vec<&str> = old.iter().chain(new.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        let before = old.get(name);
        let after = new.get(name);
        let is_same = match (before, after) {
            (Some(before), Some(after)) => same_field(name, before, after),
            _ => false,
        };
        if name != "id" && !is_same {
            changes.push(FieldChange {
                name: name.to_owned(),
                before,
                after,
            });
        }
    }
    changes
}

fn array(text: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(text).ok()
}

fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// The second in which a time lies.
fn second_of(text: &str) -> Option<i128> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_nanosecond().div_euclid(1_000_000_000))
}

/// A JSON number as sign, significant digits and power of ten.
#[derive(PartialEq, Eq)]
struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match rest.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self {
                negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        let trailing = i64::try_from(significant.len() - digits.len()).ok()?;
        let exponent = i64::from(power) - i64::try_from(fraction.len()).ok()? + trailing;
        Some(Self {
            negative,
            digits: digits.to_owned(),
            exponent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_white_space_spelling_and_fraction_digits_of_a_time_mean_nothing() {
        for (a, b) in [
            (
                r#"{"a": 1.50, "b":[1,{"c":null}]}"#,
                r#"{"b":[1, {"c":null}],"a":15e-1}"#,
            ),
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0", "0"),
            (r#""caf\u00e9""#, r#""café""#),
            (
                r#""2026-01-02T03:04:05.123456Z""#,
                r#""2026-01-02T03:04:05Z""#,
            ),
        ] {
            assert!(same_meaning(a, b), "{a} {b}");
        }
        for (a, b) in [
            (r#""2026-01-02T03:04:05.1Z""#, r#""2026-01-02T03:04:06.1Z""#),
            (
                r#""at 2026-01-02T03:04:05.1Z""#,
                r#""at 2026-01-02T03:04:05.2Z""#,
            ),
            (r#"{"a":null}"#, "{}"),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            ("[1,2]", "[2,1]"),
            ("12345678901234567890123", "12345678901234567890124"),
            ("true", "false"),
            ("null", "0"),
            ("10", "1"),
            ("1e400", "1e401"),
        ] {
            assert!(!same_meaning(a, b), "{a} {b}");
        }
    }

    #[test]
    fn an_id_written_as_a_string_is_no_change_but_any_other_field_is() {
        let (number, string) = (r#"{"id":7,"n":1}"#, r#"{"id":"7","n":1}"#);
        let same = |a, b, ignored: &[String]| {
            same_record(
                &Fields::parse(a).unwrap(),
                &Fields::parse(b).unwrap(),
                ignored,
            )
        };
        assert!(same(number, string, &[]));
        assert_eq!(changed_fields(number, string), []);
        for other in [r#"{"id":7,"n":"1"}"#, r#"{"id":7}"#, r#"{"id":7,"m":1}"#] {
            assert!(!same(number, other, &[]), "{other}");
            assert!(
                same(number, other, &["n".to_owned(), "m".to_owned()]),
                "{other}"
            );
            assert!(!same(number, other, &["price".to_owned()]), "{other}");
        }
    }

    #[test]
    fn a_reference_written_as_a_string_is_no_change() {
        let same = |a: &str, b: &str| {
            let is_same = same_record(&Fields::parse(a).unwrap(), &Fields::parse(b).unwrap(), &[]);
            assert_eq!(changed_fields(a, b).is_empty(), is_same, "{a} {b}");
            is_same
        };
        for (number, string) in [
            (r#"{"job_id":12}"#, r#"{"job_id":"12"}"#),
            (
                r#"{"customer":{"id":7,"n":1}}"#,
                r#"{"customer":{"id":"7","n":1}}"#,
            ),
            (
                r#"{"parts":[{"part_id":-3}]}"#,
                r#"{"parts":[{"part_id":"-3"}]}"#,
            ),
        ] {
            assert!(same(number, string), "{number} {string}");
        }
        for (a, b) in [
            (r#"{"job_id":12}"#, r#"{"job_id":"012"}"#),
            (r#"{"job_id":12}"#, r#"{"job_id":"13"}"#),
            (r#"{"job_id":1.5}"#, r#"{"job_id":"1.5"}"#),
            (r#"{"job_id":null}"#, r#"{"job_id":"null"}"#),
            (r#"{"paid":12}"#, r#"{"paid":"12"}"#),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn the_fields_that_changed_are_named_with_both_values() {
        let before = r#"{"id":1,"status":"New","note":null,"gone":1}"#;
        let after = r#"{"id":1,"note":"x","status":"New","added":[]}"#;
        let changes = changed_fields(before, after);
        let shown: Vec<_> = changes
            .iter()
            .map(|c| (c.name.as_str(), c.before, c.after))
            .collect();
        assert_eq!(
            shown,
            [
                ("added", None, Some("[]")),
                ("gone", Some("1"), None),
                ("note", Some("null"), Some("\"x\"")),
            ]
        );
    }
}
