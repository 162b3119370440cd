//! The schemas of the document: inputs from the tables of fields, answers as the contract words
//! them.

use serde_json::{Map, Value, json};

use crate::intake::field::{Destination, Field, Kind};

/// The schema of a record's input. A name is required and may not be blank, and so is a mobile number
/// or an email. With `anyOf` for the latter, makers of clients would take the input for a union.
fn input(destination: Destination) -> Value {
    let mut properties = properties(destination.fields());
    properties["name"]["minLength"] = 1.into();
    json!({
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "if": {"not": {"required": ["email"]}},
        "then": {"required": ["mobile_number"]},
    })
}

fn properties(fields: &[Field]) -> Map<String, Value> {
    fields
        .iter()
        .map(|field| (field.name.to_owned(), schema_of(field)))
        .collect()
}

fn schema_of(field: &Field) -> Value {
    let text = |format: Option<&str>| {
        let mut schema = json!({"type": "string"});
        if let Some(longest) = field.longest {
            schema["maxLength"] = longest.into();
        }
        if let Some(format) = format {
            schema["format"] = format.into();
        }
        schema
    };
    match field.kind {
        Kind::Text => text(None),
        Kind::Email => text(Some("email")),
        Kind::When => json!({"anyOf": [
            {"type": "string", "format": "date"}, {"type": "string", "format": "date-time"},
        ]}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Integer => json!({"type": "integer"}),
        Kind::Names => json!({"anyOf": [
            {"type": "array", "items": {"type": "string"}}, {"type": "string"},
        ]}),
        Kind::Object(parts) => json!({"type": "object", "properties": properties(parts)}),
        Kind::Labels => {
            let mut value = json!({"type": ["string", "number", "boolean", "null"]});
            if let Some(longest) = field.longest {
                value["maxLength"] = longest.into();
            }
            json!({"type": "object", "additionalProperties": value})
        }
    }
}

/// The schema of the submit envelope.
fn envelope() -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": {"type": "object"},
            "form_id": {"type": "string", "maxLength": 191},
            "destination": {"type": "string", "enum": ["lead", "self_checkin"]},
            "business_id": {"type": "integer"},
        },
        "required": ["data"],
    })
}

/// The named schemas of what is sent and answered.
pub(super) fn schemas() -> Value {
    let text = json!({"type": "string"});
    json!({
        "Lead": input(Destination::Lead),
        "SelfCheckin": input(Destination::SelfCheckin),
        "Envelope": envelope(),
        "Connected": {
            "type": "object",
            "properties": {
                "status": {"const": "connected"}, "workspace": text, "provider": text,
            },
            "required": ["status", "workspace", "provider"],
        },
        "CustomFields": {
            "type": "object",
            "properties": {
                "form_types": {"type": "array", "items": text},
                "fields": {"type": "array", "items": {"type": "object"}},
            },
        },
        "Record": {
            "type": "object",
            "properties": {"id": {"type": ["integer", "string"]}},
            "required": ["id"],
        },
        "Intake": {
            "type": "object",
            "properties": {
                "status": {"enum": ["completed", "duplicate", "received"]},
                "request_id": text,
                "data": {
                    "type": ["object", "null"],
                    "properties": {
                        "id": {"type": ["integer", "string"]},
                        "object": {"enum": ["lead", "self_checkin"]},
                    },
                    "required": ["id", "object"],
                },
            },
            "required": ["status", "request_id", "data"],
        },
        "Error": {
            "type": "object",
            "properties": {
                "error": {
                    "type": "object",
                    "properties": {
                        "code": text,
                        "message": text,
                        "details": {"type": "array", "items": {
                            "type": "object",
                            "properties": {"field": text, "message": text},
                            "required": ["field", "message"],
                        }},
                        "request_id": text,
                        "documentation_url": text,
                    },
                    "required": ["code", "message", "details", "request_id", "documentation_url"],
                },
                "message": text,
            },
            "required": ["error", "message"],
        },
    })
}

/// The headers that answers carry.
pub(super) fn headers() -> Value {
    let header = |kind: &str| json!({"required": true, "schema": {"type": kind}});
    json!({
        "X-Request-Id": header("string"),
        "X-RateLimit-Limit": header("integer"),
        "X-RateLimit-Remaining": header("integer"),
        "X-Business": header("integer"),
        "Retry-After": {"required": false, "schema": {"type": "integer"}},
    })
}

/// References to the headers that every answer carries.
pub(super) fn header_references() -> Value {
    let names = [
        "X-Request-Id",
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-Business",
    ];
    let reference = |name: &str| {
        (
            name.to_owned(),
            json!({"$ref": format!("#/components/headers/{name}")}),
        )
    };
    Value::Object(names.into_iter().map(reference).collect())
}
