//! `docs/json.md`: every field of every output for programs, from the schemas.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Document;

const HEAD: &str = "# JSON for programs

This page is made from the types of the program. Each output has a
[JSON Schema](https://json-schema.org/) in [`schemas`](schemas).

- The schemas describe this version and allow no other field. A later version may add fields and values:
  read the fields that you need and ignore the others.
- A field that is not marked as absent is always there; without a value it is null.
- Times are text as `2026-03-01T08:00:00.000000Z` (RFC 3339, UTC). Fields that end in `_s` are seconds.
- Ids of records are text in our own fields (`record_id`, `id` of `find`). Inside a record they are as the
  workspace sent them.
- `export ROUTE --format ndjson` prints the records exactly as the workspace sent them, `log --follow --json` one
  object a line.
- An address below `/api/` that refuses a request answers with an object whose `error` says why, and a status from 400 on.

## Outputs

";

/// The page.
pub(super) fn page(
    documents: &[Document],
    schemas: &BTreeMap<String, Map<String, Value>>,
) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("| output | what it is | schema |\n|---|---|---|\n");
    let mut types: BTreeMap<String, Value> = BTreeMap::new();
    for document in documents {
        let schema = &schemas[&format!("{}.json", document.name)];
        let commands = document.commands.iter().map(|command| format!("`{command} --json`"));
        let places: Vec<String> =
            commands.chain(document.places.iter().map(|place| (*place).to_owned())).collect();
        let about = format!("{}: {}", document.about, root(document.name, schema));
        let file = format!("[`{0}.json`](schemas/{0}.json)", document.name);
        text.push_str(&format!("| {} | {about} | {file} |\n", places.join("<br>")));
        collect(document.name, schema, &mut types);
    }
    text.push_str("\n## Fields\n");
    for (name, schema) in &types {
        text.push_str(&section(name, schema));
    }
    text
}

/// The type of a whole output.
fn root(name: &str, schema: &Map<String, Value>) -> String {
    if schema.contains_key("properties") { link(&heading(name)) } else { shown(schema) }
}

/// The heading of the fields of an output that is one object.
fn heading(document: &str) -> String {
    format!("{document}.json")
}

/// Takes the types of a schema that have fields or values.
fn collect(name: &str, schema: &Map<String, Value>, types: &mut BTreeMap<String, Value>) {
    let mut take = |name: String, schema: &Value| {
        let earlier = types.insert(name.clone(), schema.clone());
        assert!(earlier.is_none_or(|earlier| earlier == *schema), "two types are called {name}");
    };
    if schema.contains_key("properties") {
        let mut alone = schema.clone();
        alone.remove("$defs");
        take(heading(name), &Value::Object(alone));
    }
    for (name, definition) in schema.get("$defs").and_then(Value::as_object).into_iter().flatten() {
        take(name.clone(), definition);
    }
}

fn section(name: &str, schema: &Value) -> String {
    let about = schema["description"].as_str().unwrap_or_default();
    let mut text = format!("\n### {name}\n\n{about}\n\n");
    if let Some(properties) = schema["properties"].as_object() {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        text.push_str("| field | type | meaning |\n|---|---|---|\n");
        for (field, property) in properties {
            let optional = if required.contains(&field.as_str()) { "" } else { ", may be absent" };
            let kind = property.as_object().map_or_else(|| "anything".to_owned(), shown);
            text.push_str(&format!("| `{field}` | {kind}{optional} | {} |\n", meaning(property)));
        }
        if schema["additionalProperties"].is_object() || schema["additionalProperties"] == true {
            text.push_str("| others | anything | The fields as the workspace sent them. |\n");
        }
    } else {
        text.push_str("| value | meaning |\n|---|---|\n");
        for (value, about) in values(schema) {
            text.push_str(&format!("| {value} | {about} |\n"));
        }
    }
    text
}

/// The values of an enumeration.
fn values(schema: &Value) -> Vec<(String, String)> {
    let choices = ["oneOf", "anyOf"].iter().filter_map(|name| schema[name].as_array()).flatten();
    choices
        .flat_map(|choice| match (&choice["const"], &choice["$ref"]) {
            (Value::String(value), _) => vec![(format!("`{value}`"), meaning(choice))],
            (_, Value::String(_)) => {
                let kind = choice.as_object().map(shown).unwrap_or_default();
                vec![(kind, meaning(choice))]
            }
            _ => values(choice),
        })
        .collect()
}

fn meaning(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('|', "\\|")
}

fn link(name: &str) -> String {
    let anchor: String = name
        .to_lowercase()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
        .collect();
    format!("[{name}](#{anchor})")
}

/// A type in words.
fn shown(schema: &Map<String, Value>) -> String {
    if let Some(Value::String(target)) = schema.get("$ref") {
        return link(target.trim_start_matches("#/$defs/"));
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let choices = choices.iter().filter_map(Value::as_object).map(shown);
        return choices.collect::<Vec<_>>().join(" or ");
    }
    match schema.get("type") {
        Some(Value::String(kind)) => word(kind, schema),
        Some(Value::Array(kinds)) => {
            let words = kinds.iter().filter_map(Value::as_str).map(|kind| word(kind, schema));
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn word(kind: &str, schema: &Map<String, Value>) -> String {
    match kind {
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "whole number".to_owned(),
        "array" => {
            if let Some(Value::Array(items)) = schema.get("prefixItems") {
                let items = items.iter().filter_map(Value::as_object).map(shown);
                return format!("pair of {}", items.collect::<Vec<_>>().join(" and "));
            }
            let items = schema.get("items").and_then(Value::as_object);
            format!("array of {}", items.map_or_else(|| "anything".to_owned(), shown))
        }
        "object" => match schema.get("additionalProperties").and_then(Value::as_object) {
            Some(values) => format!("object, by name {}", shown(values)),
            None => "object".to_owned(),
        },
        other => other.to_owned(),
    }
}
