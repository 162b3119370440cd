//! The OpenAPI 3.1 document of everything under `/api`, made from the table of operations.
//!
//! Follows the contract; what the contract does not show may be anything. Every
//! status that an operation can answer is listed here; any other is a defect.

mod schema;

use serde_json::{Map, Value, json};

use super::operations::{Answered, KeyPlace, OPERATIONS, Operation, Sent};
use super::receivers::Adapter;

/// The whole document.
pub(super) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in &OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Workspace Integration API (sandbox)",
            "version": "1.0.0",
            "description": "A local imitation: nothing here is real.",
        },
        "servers": [{"url": "/api"}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "token": {"type": "apiKey", "in": "query", "name": "token"},
            },
            "schemas": schema::schemas(),
            "headers": schema::headers(),
        },
    })
}

fn described(operation: &Operation) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters(operation),
        "responses": responses(operation),
        "security": security(operation.key),
    });
    if let Some(body) = body(operation.sent) {
        described["requestBody"] = body;
    }
    described
}

fn security(key: KeyPlace) -> Value {
    match key {
        KeyPlace::Header => json!([{"bearer": []}, {"header": []}]),
        KeyPlace::HeaderOrToken => json!([{"bearer": []}, {"header": []}, {"token": []}]),
        KeyPlace::Path => json!([]),
    }
}

fn parameter(place: &str, name: &str, required: bool, schema: &Value) -> Value {
    json!({"in": place, "name": name, "required": required, "schema": schema})
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let mut parameters = vec![parameter(
        "header",
        "X-Business",
        false,
        &json!({"type": "integer"}),
    )];
    let query =
        |name: &str, required: bool, schema: &Value| parameter("query", name, required, schema);
    let text = json!({"type": "string"});
    let destination = json!({"type": "string", "enum": ["lead", "self_checkin"]});
    match operation.sent {
        Sent::Limit => {
            // The contract does not show values outside the bounds; here they are brought into the
            // range.
            let schema = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 50});
            parameters.push(query("limit", false, &schema));
        }
        Sent::SearchTerm => {
            let schema = json!({"type": "string", "minLength": 1, "maxLength": 100});
            parameters.push(query("search_term", true, &schema));
        }
        Sent::FormType => parameters.push(query("form_type", false, &text)),
        Sent::Envelope | Sent::Webhook => {
            parameters.push(query("destination", false, &destination));
        }
        Sent::EnquiryQuery => {
            let names = ["leadid", "prefix", "name", "mobile", "phone", "email"];
            let places = ["area", "city", "pincode", "category"];
            parameters.extend(
                names
                    .iter()
                    .chain(&places)
                    .map(|name| query(name, false, &text)),
            );
        }
        _ => {}
    }
    if operation.answered == Answered::Intake {
        let schema = json!({"type": "string", "maxLength": 191});
        parameters.push(parameter("header", "Idempotency-Key", false, &schema));
    }
    if operation.path.contains("{adapter}") {
        let own_path = |adapter: &Adapter| !adapter.has_key_in_path();
        let names: Vec<&str> = Adapter::ALL
            .iter()
            .copied()
            .filter(own_path)
            .map(Adapter::name)
            .collect();
        let schema = json!({"type": "string", "enum": names});
        parameters.push(parameter("path", "adapter", true, &schema));
    }
    if operation.path.contains("{key}") {
        parameters.push(parameter(
            "path",
            "key",
            true,
            &json!({"type": "string", "minLength": 1}),
        ));
    }
    parameters
}

fn body(sent: Sent) -> Option<Value> {
    let content = match sent {
        Sent::Lead => json!({"application/json": {"schema": reference("Lead")}}),
        Sent::SelfCheckin => json!({"application/json": {"schema": reference("SelfCheckin")}}),
        Sent::Envelope => json!({"application/json": {"schema": reference("Envelope")}}),
        Sent::Webhook | Sent::Enquiry => {
            let any = json!({"schema": {"type": "object"}});
            json!({
                "application/json": any,
                "application/x-www-form-urlencoded": any,
                "multipart/form-data": any,
            })
        }
        _ => return None,
    };
    Some(json!({"required": true, "content": content}))
}

/// A reference to a named schema.
fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn responses(operation: &Operation) -> Value {
    let answer = |description: &str, schema: Value| {
        json!({
            "description": description,
            "headers": schema::header_references(),
            "content": {"application/json": {"schema": schema}},
        })
    };
    let refusal = |description: &str| answer(description, reference("Error"));
    let mut responses = json!({
        "401": refusal("No valid key, or no valid signature"),
        "403": refusal("The key is not for this route"),
        "404": refusal("No such route or receiver"),
        "405": refusal("The route does not take this method"),
        "412": refusal("Call the workspace on its own domain"),
        "422": refusal("A rule is broken, or the payload cannot be read"),
        "423": refusal("The workspace is locked for the moment"),
        "500": refusal("Something went wrong"),
    });
    let mut busy = refusal("Too many requests");
    busy["headers"]["Retry-After"] = json!({"$ref": "#/components/headers/Retry-After"});
    responses["429"] = busy;
    match operation.answered {
        Answered::Connected => responses["200"] = answer("Connected", reference("Connected")),
        Answered::CustomFields => {
            responses["200"] = answer("Form types, or definitions", reference("CustomFields"));
        }
        Answered::Records => {
            let array = json!({"type": "array", "items": reference("Record"), "maxItems": 100});
            responses["200"] = answer("The newest records first", array);
        }
        Answered::Intake => {
            responses["200"] = answer("A duplicate", reference("Intake"));
            responses["201"] = answer("Created", reference("Intake"));
            responses["202"] = answer("Parked", reference("Intake"));
            responses["413"] = refusal("The body is larger than 1 MiB");
        }
    }
    responses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let described: usize = paths
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum();
        assert_eq!(described, OPERATIONS.len());
    }
}
