//! Reads `where`: the conditions on a record that a sink's changes must meet.
//!
//! A field may be named alone, which means its value after the change, or under `before` or `after`.
//! A value stands for equality; a table names one or more comparisons.

use serde_json::Value;
use toml::de::DeValue;

use super::problem::{Quote, shown};
use super::section::Section;
use super::{Comparison, Condition, Side, Wanted};

const EXAMPLE: &str = "a table, for example { status_stage = \"completed\" }";
const OPERATORS: &str =
    "a string, a number, a boolean, or a table with \"=\", \"!=\", \"<\", \">\", in or exists";

type Entry<'t, 'd> = (&'t str, &'t toml::Spanned<DeValue<'d>>);

/// The conditions of a sink; every problem is noted.
pub(super) fn read(section: &mut Section<'_>) -> Vec<Condition> {
    let Some(found) = section.value("where") else { return Vec::new() };
    let DeValue::Table(table) = found.value else {
        section.wrong_type("where", EXAMPLE, found.value, &found.place, Quote::Shown);
        return Vec::new();
    };
    let mut conditions = Vec::new();
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        match (name, value.get_ref()) {
            ("before", DeValue::Table(fields)) => {
                for (name, value) in fields {
                    field(section, Side::Before, (name.get_ref(), value), &mut conditions);
                }
            }
            ("after", DeValue::Table(fields)) => {
                for (name, value) in fields {
                    field(section, Side::After, (name.get_ref(), value), &mut conditions);
                }
            }
            ("changed", DeValue::Array(names)) => {
                let names: Option<Vec<String>> = names
                    .iter()
                    .map(|name| match name.get_ref() {
                        DeValue::String(name) => Some(name.to_string()),
                        _ => None,
                    })
                    .collect();
                match names {
                    Some(names) if !names.is_empty() => conditions.push(Condition::Changed(names)),
                    _ => {
                        let wanted =
                            "a list of at least one name of a field, for example [\"status\"]";
                        let place = value.span();
                        section.wrong_type(
                            "where.changed",
                            wanted,
                            value.get_ref(),
                            &place,
                            Quote::Shown,
                        );
                    }
                }
            }
            _ => field(section, Side::After, (name, value), &mut conditions),
        }
    }
    conditions
}

/// The conditions on one field.
fn field(
    section: &Section<'_>,
    side: Side,
    (name, value): Entry<'_, '_>,
    conditions: &mut Vec<Condition>,
) {
    let mut add = |wanted| {
        conditions.push(Condition::Field { side, name: name.to_owned(), wanted });
    };
    let key = format!("where.{}", shown(name));
    let refuse = |wanted: &str, value: &toml::Spanned<DeValue<'_>>| {
        section.wrong_type(&key, wanted, value.get_ref(), &value.span(), Quote::Shown);
    };
    let DeValue::Table(comparisons) = value.get_ref() else {
        return match scalar(value.get_ref()) {
            Some(scalar) => add(Wanted::Compared(Comparison::Equal, scalar)),
            None => refuse(OPERATORS, value),
        };
    };
    for (operator, value) in comparisons {
        let comparison = match operator.get_ref().as_ref() {
            "=" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            ">" => Comparison::Greater,
            "exists" => {
                match value.get_ref() {
                    DeValue::Boolean(exists) => add(Wanted::Exists(*exists)),
                    _ => refuse("true or false after exists", value),
                }
                continue;
            }
            "in" => {
                match list(value.get_ref()) {
                    Some(values) => add(Wanted::In(values)),
                    None => refuse("a list of strings, numbers or booleans after in", value),
                }
                continue;
            }
            other => {
                let message = format!(
                    "`{key}` knows no comparison {:?}: use \"=\", \"!=\", \"<\", \">\", in or exists",
                    shown(other)
                );
                section.findings.note(&operator.span(), message);
                continue;
            }
        };
        match scalar(value.get_ref()) {
            Some(scalar) => add(Wanted::Compared(comparison, scalar)),
            None => refuse("a string, a number or a boolean", value),
        }
    }
}

fn list(value: &DeValue<'_>) -> Option<Vec<Value>> {
    let DeValue::Array(values) = value else { return None };
    values.iter().map(|value| scalar(value.get_ref())).collect()
}

fn scalar(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::from(text.as_ref())),
        DeValue::Boolean(truth) => Some(Value::from(*truth)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .or_else(|_| u64::from_str_radix(number.as_str(), number.radix()).map(Value::from))
            .ok(),
        DeValue::Float(number) => number.as_str().parse().ok().and_then(finite),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn finite(number: f64) -> Option<Value> {
    serde_json::Number::from_f64(number).map(Value::Number)
}
