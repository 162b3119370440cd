//! The body of an intake request: the configured fields of one change.
//!
//! The lenient route gets them in an envelope. An empty value is left out. A text that is longer than the contract allows is cut where a cut
//! does no harm; otherwise the workspace refuses the change and names the field.

use serde_json::{Map, Value};
use shopmirror_core::record::Change;

use crate::config::{Intake, IntakeField, IntakeSettings};
use crate::shape::Context;
use crate::sink::Verdict;

/// The body as JSON.
pub(super) fn body(settings: &IntakeSettings, change: &Change) -> Result<String, Verdict> {
    let context = Context::for_change(change);
    let mut body = Map::new();
    for field in &settings.fields {
        let Some(text) = rendered(field, &context)? else {
            continue;
        };
        let Some(part_name) = field.inside else {
            let is_boolean = ["is_recovery", "is_pickup_booked"].contains(&field.name.as_str());
            if !is_boolean {
                body.insert(field.name.clone(), Value::from(text));
            } else if let Some(value) = parse_boolean(&text) {
                body.insert(field.name.clone(), Value::from(value));
            }
            continue;
        };
        let part = body.entry(part_name).or_insert_with(|| Map::new().into());
        if let Some(part) = part.as_object_mut() {
            part.insert(field.name.clone(), Value::from(text));
        }
    }
    let has_contact = body.contains_key("mobile_number") || body.contains_key("email");
    if !body.contains_key("name") || !has_contact {
        return Err(Verdict::refused_for_good(
            "the record has no name, or neither a mobile number nor an e-mail address: nothing was \
             sent",
        ));
    }
    if settings.strict {
        return Ok(Value::Object(body).to_string());
    }
    let mut envelope = Map::new();
    // They say where the fields go, and are none.
    for name in ["form_id", "business_id"] {
        if let Some(value) = body.remove(name) {
            envelope.insert(name.to_owned(), value);
        }
    }
    let destination = match settings.create {
        Intake::Lead => "lead",
        Intake::SelfCheckin => "self_checkin",
    };
    envelope.insert("destination".to_owned(), destination.into());
    envelope.insert("data".to_owned(), body.into());
    Ok(Value::Object(envelope).to_string())
}

/// The text of one field; `None` if it is empty.
fn rendered(field: &IntakeField, context: &Context) -> Result<Option<String>, Verdict> {
    let text = field
        .template
        .render(context)
        .map_err(|error| Verdict::refused(format!("fields.{}: {error}", field.name)))?;
    let cut: String = text.trim().chars().take(field.most).collect();
    if cut.is_empty() {
        Ok(None)
    } else {
        Ok(Some(cut))
    }
}

/// Yes or no, in each spelling that records have.
fn parse_boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}
