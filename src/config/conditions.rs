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
    /// A top-level field has a certain value.
    Field {
        /// The version of the record.
        side: Side,
        /// The field's name.
        name: String,
        /// What it must be.
        wanted: FieldTest,
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

/// The values that a field may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldTest {
    /// It is present, with any value, or it is absent.
    Exists(bool),
    /// It means the same as one of these.
    In(Vec<Value>),
    /// It is present and means something else.
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
                    let before = field(Side::Before, &name, value);
                    conditions.extend(before.map_err(D::Error::custom)?);
                }
            }
            ("changed", Value::Array(names)) => {
                let mut fields = Vec::new();
                for name in names {
                    if let Value::String(name) = name {
                        fields.push(name);
                    }
                }
                conditions.push(Condition::Changed(fields));
            }
            (name, value) => {
                let after = field(Side::After, name, value);
                conditions.extend(after.map_err(D::Error::custom)?);
            }
        }
    }
    Ok(conditions)
}

/// The conditions on one field.
fn field(side: Side, name: &str, value: Value) -> Result<Vec<Condition>, String> {
    let mut conditions = Vec::new();
    for wanted in comparisons(value).ok_or_else(|| no_condition(name))? {
        conditions.push(Condition::Field {
            side,
            name: name.to_owned(),
            wanted,
        });
    }
    Ok(conditions)
}

/// The comparisons that a value stands for; `None` if it stands for none.
fn comparisons(value: Value) -> Option<Vec<FieldTest>> {
    let table = match value {
        Value::Object(table) => table,
        Value::Array(_) => return None,
        value => return Some(vec![FieldTest::In(vec![value])]),
    };
    let mut comparisons = Vec::new();
    for (operator, value) in table {
        comparisons.push(match (operator.as_str(), value) {
            ("exists", Value::Bool(exists)) => FieldTest::Exists(exists),
            ("in", Value::Array(values)) => FieldTest::In(values),
            ("!=", value) => FieldTest::Not(value),
            ("<", value) => FieldTest::Ordered(Ordering::Less, value),
            (">", value) => FieldTest::Ordered(Ordering::Greater, value),
            _ => return None,
        });
    }
    Some(comparisons)
}

fn no_condition(name: &str) -> String {
    format!(
        "holds no condition in `{name}`: write a string, a number, a boolean, or a table with \
         \"!=\", \"<\" or \">\" and one of these, `in` and a list of them, or `exists` and true or \
         false"
    )
}
