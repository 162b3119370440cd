//! Forms: how a form's own field names become the service's, and what happens to its
//! submissions.
//!
//! A form belongs to one integration. It has no effect before it is activated.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::field::Destination;

/// When a submission counts as a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Duplicates {
    /// Leads by mobile number or e-mail; self check-ins never.
    #[default]
    Default,
    /// Never.
    AlwaysCreate,
    /// Leads by mobile number and dialling code only.
    MatchMobile,
    /// Leads by e-mail only.
    MatchEmail,
    /// As the default, and self check-ins by the mobile number of an open one.
    Skip,
}

/// The shop's settings for one form.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// The form's names to the service's; `address.city` and `custom_fields.Label` reach inside.
    #[serde(default)]
    pub(crate) map: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) destination: Option<Destination>,
    #[serde(default)]
    pub(crate) active: bool,
    #[serde(default)]
    pub(crate) duplicates: Duplicates,
}

impl Form {
    /// The fields under the service's names; names that are not mapped stay as they are.
    pub(crate) fn apply(&self, data: Map<String, Value>) -> Map<String, Value> {
        let Some(map) = &self.map else { return data };
        let mut named = Map::new();
        for (name, value) in data {
            let Some(target) = map.get(&name) else {
                named.entry(name).or_insert(value);
                continue;
            };
            match target.split_once('.') {
                Some((outer, inner)) => {
                    let object = named.entry(outer).or_insert_with(|| Map::new().into());
                    if let Value::Object(object) = object {
                        object.insert(inner.to_owned(), value);
                    }
                }
                None => {
                    named.insert(target.clone(), value);
                }
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_map_renames_and_reaches_inside() {
        let form: Form = serde_json::from_value(json!({
            "map": {"q1": "name", "q2": "address.city", "q3": "custom_fields.Colour"},
        }))
        .unwrap();
        let sent = json!({"q1": "Ada", "q2": "Köln", "q3": "red", "q4": "rest"});
        let Value::Object(sent) = sent else {
            unreachable!("an object literal")
        };
        let expected = json!({
            "name": "Ada", "address": {"city": "Köln"}, "custom_fields": {"Colour": "red"},
            "q4": "rest",
        });
        assert_eq!(Value::Object(form.apply(sent)), expected);
    }
}
