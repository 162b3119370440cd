//! Reads `where`: the conditions on a record that a sink's changes must meet.
//!
//! A field may be named alone, which means its value after the change, or under `before` or `after`.
//! A value stands for equality; a table names one or more comparisons.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;
use toml::Value as Written;

use super::table::Table;

const FORMS: &str = "must be a string, a number, a boolean, or a table with \"=\", \"!=\", \"<\" or \">\" and one \
    of these, `in` and a list of them, or `exists` and true or false";

/// One condition on the record of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// At least one of these top-level fields differs from the version before.
    Changed(Vec<String>),
    /// A top-level field is as wanted.
    Field {
        /// Which version of the record is looked at.
        side: Side,
        /// The field's name.
        name: String,
        /// What it must be.
        wanted: Wanted,
    },
}

/// A version of the record of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The version before the change; a first version has none.
    Before,
    /// The version after it.
    After,
}

/// What a field must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// It is there, with any value, or it is not there.
    Exists(bool),
    /// It means the same as one of these.
    In(Vec<Value>),
    /// It is there and means something else.
    Not(Value),
    /// It is less or greater than this value. Only two numbers, two times or two texts have an order.
    Ordered(Ordering, Value),
}

/// The conditions of a sink; every problem is noted.
pub(super) fn of(table: &Table<'_>, keys: &BTreeMap<String, Written>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (name, value) in keys {
        match (name.as_str(), value) {
            (side @ ("before" | "after"), Written::Table(fields)) => {
                let which = if side == "before" { Side::Before } else { Side::After };
                for (name, value) in fields {
                    field(table, which, &["where", side, name], value, &mut conditions);
                }
            }
            ("changed", Written::Array(names)) => {
                let names: Option<Vec<String>> =
                    names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
                match names.filter(|names| !names.is_empty()) {
                    Some(names) => conditions.push(Condition::Changed(names)),
                    None => table.note_inside(
                        &["where", "changed"],
                        "`where.changed` must be a list of at least one name of a field, for example [\"status\"]",
                    ),
                }
            }
            _ => field(table, Side::After, &["where", name], value, &mut conditions),
        }
    }
    conditions
}

/// The conditions on the field that ends the path.
fn field(
    table: &Table<'_>,
    side: Side,
    path: &[&str],
    value: &Written,
    conditions: &mut Vec<Condition>,
) {
    let name = path.last().copied().unwrap_or_default().to_owned();
    let mut add = |wanted| conditions.push(Condition::Field { side, name: name.clone(), wanted });
    if let Some(value) = single(value) {
        return add(Wanted::In(vec![value]));
    }
    let Written::Table(comparisons) = value else {
        return table.note_inside(path, format!("a field in `where` {FORMS}"));
    };
    for (operator, value) in comparisons {
        let wanted = match (operator.as_str(), value, single(value)) {
            ("exists", Written::Boolean(exists), _) => Some(Wanted::Exists(*exists)),
            ("in", Written::Array(values), _) => {
                values.iter().map(single).collect::<Option<_>>().map(Wanted::In)
            }
            ("=", _, Some(value)) => Some(Wanted::In(vec![value])),
            ("!=", _, Some(value)) => Some(Wanted::Not(value)),
            ("<", _, Some(value)) => Some(Wanted::Ordered(Ordering::Less, value)),
            (">", _, Some(value)) => Some(Wanted::Ordered(Ordering::Greater, value)),
            _ => None,
        };
        match wanted {
            Some(wanted) => add(wanted),
            None => table.note_inside(
                &[path, &[operator.as_str()]].concat(),
                format!("a field in `where` {FORMS}"),
            ),
        }
    }
}

/// A text, a number or a boolean; a time is a text.
fn single(value: &Written) -> Option<Value> {
    match value {
        Written::Array(_) | Written::Table(_) => None,
        Written::Datetime(time) => Some(time.to_string().into()),
        other => serde_json::to_value(other).ok(),
    }
}
