//! The three form builders: answers under the form's own field names, to be mapped by the shop.
//!
//! Choices come as their labels joined by commas, uploads as their URLs, hidden fields with the
//! rest.

use serde_json::{Map, Value};

use super::{Decoded, Payload, object, pairs, text};
use crate::envelope::Refusal;

/// `{"form_response": {form_id, token, hidden: {}, answers: [{type, field: {ref, id}, …}]}}`.
pub(super) fn signed_1(body: &[u8]) -> Result<Decoded, Refusal> {
    let payload = object(body)?;
    let Some(Value::Object(response)) = payload.get("form_response") else {
        return Err(Refusal::unreadable("The payload has no form_response."));
    };
    let mut data = Map::new();
    if let Some(Value::Object(hidden)) = response.get("hidden") {
        data.extend(
            hidden
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
    for answer in list(response.get("answers")) {
        let name = ["ref", "id"]
            .into_iter()
            .find_map(|name| text(&answer["field"][name]));
        if let Some(name) = name {
            data.insert(name, flat(answer_of(answer)));
        }
    }
    Ok(Decoded {
        data,
        form_id: response.get("form_id").and_then(text),
        derived_key: response.get("token").and_then(text),
        ..Decoded::default()
    })
}

fn answer_of(answer: &Value) -> &Value {
    match answer["type"].as_str().unwrap_or_default() {
        "choice" => &answer["choice"]["label"],
        "choices" => &answer["choices"]["labels"],
        kind => &answer[kind],
    }
}

/// `{"data": {formId, submissionId, fields: [{key, label, type, value, options: [{id, text}]}]}}`.
pub(super) fn signed_2(body: &[u8]) -> Result<Decoded, Refusal> {
    let payload = object(body)?;
    let Some(Value::Object(submission)) = payload.get("data") else {
        return Err(Refusal::unreadable("The payload has no data."));
    };
    let Some(Value::Array(fields)) = submission.get("fields") else {
        return Err(Refusal::unreadable("The submission has no list of fields."));
    };
    let mut data = Map::new();
    for field in fields {
        let name = ["label", "key"]
            .into_iter()
            .find_map(|name| text(&field[name]));
        if let Some(name) = name {
            data.insert(name, flat(&chosen(field)));
        }
    }
    Ok(Decoded {
        data,
        form_id: submission.get("formId").and_then(text),
        derived_key: submission.get("submissionId").and_then(text),
        ..Decoded::default()
    })
}

/// The value with the ids of chosen options replaced by their labels.
fn chosen(field: &Value) -> Value {
    let options = list(field.get("options"));
    let label = |id: &Value| {
        let option = options.iter().find(|option| option["id"] == *id);
        option.map_or_else(|| id.clone(), |option| option["text"].clone())
    };
    match &field["value"] {
        Value::Array(ids) => ids.iter().map(label).collect(),
        value if options.is_empty() => value.clone(),
        id => label(id),
    }
}

/// `formID`, `submissionID` and `rawRequest`, the answers as JSON text; as a form or as JSON.
pub(super) async fn unsigned(payload: &Payload) -> Result<Decoded, Refusal> {
    let mut sent = match object(&payload.body) {
        Ok(sent) => sent,
        Err(_) => pairs::of_body(payload).await?,
    };
    let data = match sent.remove("rawRequest") {
        Some(Value::Object(answers)) => answers,
        Some(Value::String(answers)) => object(answers.as_bytes())?,
        _ => return Err(Refusal::unreadable("The payload has no rawRequest.")),
    };
    Ok(Decoded {
        data: data
            .into_iter()
            .map(|(name, value)| (name, flat(&value)))
            .collect(),
        form_id: sent.get("formID").and_then(text),
        derived_key: sent.get("submissionID").and_then(text),
        ..Decoded::default()
    })
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An answer as one value: lists joined by commas, names in parts by spaces, numbers as text.
fn flat(value: &Value) -> Value {
    let joined = |values: Vec<String>, between: &str| Value::from(values.join(between));
    let part = |value: &Value| text(value).or_else(|| text(&value["url"]));
    match value {
        Value::Array(items) => joined(items.iter().filter_map(part).collect(), ","),
        Value::Object(parts) => joined(parts.values().filter_map(part).collect(), " "),
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_every_kind_become_single_values() {
        let body = json!({"form_response": {
            "form_id": "F", "token": "T", "hidden": {"campaign": "spring"},
            "answers": [
                {"type": "text", "text": "Ada", "field": {"id": "1", "ref": "name"}},
                {"type": "choices", "choices": {"labels": ["a", "b"]}, "field": {"id": "2"}},
                {"type": "file_url", "file_url": "https://f.example/x", "field": {"ref": "file"}},
                {"type": "number", "number": 5, "field": {"ref": "count"}},
            ],
        }});
        let decoded = signed_1(body.to_string().as_bytes()).unwrap();
        let expected = json!({
            "campaign": "spring", "name": "Ada", "2": "a,b", "file": "https://f.example/x",
            "count": "5",
        });
        assert_eq!(Value::Object(decoded.data), expected);
        assert_eq!(decoded.form_id.as_deref(), Some("F"));
        assert_eq!(decoded.derived_key.as_deref(), Some("T"));
    }

    #[test]
    fn chosen_options_come_as_their_labels_and_uploads_as_urls() {
        let body = json!({"data": {"formId": "F", "submissionId": "S", "fields": [
            {"label": "Colour", "value": ["1", "2"],
             "options": [{"id": "1", "text": "red"}, {"id": "2", "text": "blue"}]},
            {"label": "Photo", "value": [{"url": "https://f.example/y"}]},
        ]}});
        let decoded = signed_2(body.to_string().as_bytes()).unwrap();
        let expected = json!({"Colour": "red,blue", "Photo": "https://f.example/y"});
        assert_eq!(Value::Object(decoded.data), expected);
    }
}
