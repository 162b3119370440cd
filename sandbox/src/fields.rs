//! The fields of one record, in the order they are sent.
//!
//! Owns the order and the JSON text of a record, not the meaning of its fields. The id is
//! not a field: it is written first, as an integer or a string as the workspace is set.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::formats::DateFormats;

/// Named values in sending order; a name occurs once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Fields(Vec<(Cow<'static, str>, Value)>);

impl Fields {
    /// Adds a field at the end, for building a record in one expression.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Every field in sending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// The field's value, or null if the field is absent.
    pub(super) fn get(&self, name: &str) -> &Value {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map_or(&Value::Null, |(_, value)| value)
    }

    /// The field as text; empty if it has another type.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_default()
    }

    /// Overwrites fields and returns the names of those that changed.
    pub(super) fn merge(&mut self, changes: Map<String, Value>) -> Vec<String> {
        let mut changed = Vec::new();
        for (name, value) in changes {
            match self.0.iter_mut().find(|(own, _)| *own == name) {
                Some((_, present)) if *present == value => continue,
                Some((_, present)) => *present = value,
                None => self.0.push((Cow::Owned(name.clone()), value)),
            }
            changed.push(name);
        }
        changed
    }

    /// The record's JSON text with `id` (already JSON) as its first member, and its dates in these
    /// formats.
    pub(super) fn render(&self, id: &Value, formats: &DateFormats) -> String {
        let mut text = format!("{{\"id\":{id}");
        for (name, value) in &self.0 {
            text.push(',');
            text.push_str(&Value::from(name.as_ref()).to_string());
            text.push(':');
            match formats.show(name, value) {
                Some(shown) => text.push_str(&shown.to_string()),
                None => text.push_str(&value.to_string()),
            }
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_keep_their_order_and_the_id_comes_first() {
        let fields = Fields::default()
            .with("name", "Zoë \"Z\"")
            .with("comment", Value::Null);
        assert_eq!(
            fields.render(&json!(7), &DateFormats::default()),
            r#"{"id":7,"name":"Zoë \"Z\"","comment":null}"#
        );
    }

    #[test]
    fn merging_names_only_what_changed() {
        let mut fields = Fields::default()
            .with("status", "New")
            .with("comment", Value::Null);
        let Value::Object(changes) = json!({"status": "New", "comment": "x", "extra": 1}) else {
            unreachable!("an object literal")
        };
        assert_eq!(fields.merge(changes), ["comment", "extra"]);
        assert_eq!(fields.text("comment"), "x");
        assert_eq!(fields.get("absent"), &Value::Null);
    }
}
