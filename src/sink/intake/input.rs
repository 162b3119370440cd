//! The body of an intake request: the configured fields of one change.
//!
//! An empty value is left out. A text that is longer than the contract allows is cut where a cut does
//! no harm; otherwise the change is refused before anything is sent.

use serde_json::{Map, Value};

use crate::config::{IntakeField, IntakePart, IntakeSettings};
use crate::record::Change;
use crate::shape::{Context, TemplateError};
use crate::sink::Verdict;

/// The body as JSON.
pub(super) fn of(settings: &IntakeSettings, change: &Change) -> Result<String, Verdict> {
    let context = Context::of(change);
    let mut body = Map::new();
    for field in &settings.fields {
        let Some(text) = rendered(field, &context)? else { continue };
        let value = match (field.part, field.name.as_str()) {
            (IntakePart::Own, "is_recovery" | "is_pickup_booked") => truth(&text).map(Value::from),
            _ => Some(Value::from(text)),
        };
        let whole = match field.part {
            IntakePart::Own => None,
            IntakePart::Address => Some("address"),
            IntakePart::Custom => Some("custom_fields"),
        };
        let part = match whole {
            None => Some(&mut body),
            Some(name) => body.entry(name).or_insert_with(|| Map::new().into()).as_object_mut(),
        };
        if let (Some(part), Some(value)) = (part, value) {
            part.insert(field.name.clone(), value);
        }
    }
    let has = |name: &str| body.contains_key(name);
    if !has("name") || !(has("mobile_number") || has("email")) {
        return Err(Verdict::refused_for_good(
            "the record has no name, or neither a mobile number nor an e-mail address: nothing was sent",
        ));
    }
    Ok(Value::Object(body).to_string())
}

/// The text of one field; `None` if it is empty.
fn rendered(field: &IntakeField, context: &Context) -> Result<Option<String>, Verdict> {
    let IntakeField { name, limit, template, .. } = field;
    let explained = |error: TemplateError| Verdict::refused(format!("fields.{name}: {error}"));
    let text = template.render(context).map_err(explained)?;
    let text = text.trim();
    let length = text.chars().count();
    if length > limit.most && !limit.is_cut {
        return Err(Verdict::refused_for_good(format!(
            "fields.{name} has {length} characters, and the workspace takes at most {}: nothing was sent; shorten it in the template",
            limit.most
        )));
    }
    let kept: String = text.chars().take(limit.most).collect();
    Ok((!kept.is_empty()).then_some(kept))
}

/// Yes or no, however a record says it.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}
