//! Reads `where`: the conditions on a record that a sink's changes must meet.
//!
//! A field may be named alone, which means its value after the change, or under `before`.
//! A value stands for equality; a table names one or more comparisons.

use std::cmp::Ordering;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

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
    /// It is less or greater than this value. Only two numbers, two times or two texts have an
    /// order.
    Ordered(Ordering, Value),
}

/// Reads the conditions of a sink.
pub(super) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Condition>, D::Error> {
    let mut conditions = Vec::new();
    for (name, value) in Map::deserialize(d)? {
        match (name.as_str(), value) {
            ("before", Value::Object(fields)) => {
                for (name, value) in fields {
                    conditions.extend(field(Side::Before, &name, value).map_err(D::Error::custom)?);
                }
            }
            ("changed", Value::Array(names)) => {
                let names = names
                    .into_iter()
                    .filter_map(|name| Some(name.as_str()?.to_owned()));
                conditions.push(Condition::Changed(names.collect()));
            }
            (name, value) => {
                conditions.extend(field(Side::After, name, value).map_err(D::Error::custom)?);
            }
        }
    }
    Ok(conditions)
}

/// The conditions on one field.
fn field(side: Side, name: &str, value: Value) -> Result<Vec<Condition>, String> {
    let refused = || {
        format!(
            "holds no condition in `{name}`: write a string, a number, a boolean, or a table with \"!=\", \"<\" or \
             \">\" and one of these, `in` and a list of them, or `exists` and true or false"
        )
    };
    let condition = |wanted| Condition::Field {
        side,
        name: name.to_owned(),
        wanted,
    };
    let comparisons = match value {
        Value::Object(comparisons) => comparisons,
        Value::Array(_) => return Err(refused()),
        value => return Ok(vec![condition(Wanted::In(vec![value]))]),
    };
    let each = comparisons
        .into_iter()
        .map(|(operator, value)| match (operator.as_str(), value) {
            ("exists", Value::Bool(exists)) => Ok(condition(Wanted::Exists(exists))),
            ("in", Value::Array(values)) => Ok(condition(Wanted::In(values))),
            ("!=", value) => Ok(condition(Wanted::Not(value))),
            ("<", value) => Ok(condition(Wanted::Ordered(Ordering::Less, value))),
            (">", value) => Ok(condition(Wanted::Ordered(Ordering::Greater, value))),
            _ => Err(refused()),
        });
    each.collect()
}
