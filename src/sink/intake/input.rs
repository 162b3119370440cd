//! The body of an intake request: the configured fields of one change.
//!
//! An empty value is left out. A text that is longer than the contract allows is cut where a cut
//! does no harm; of others that are too long the workspace refuses the change and names the field.

use serde_json::{Map, Value};
use shopmirror_core::record::Change;

use crate::config::{IntakeField, IntakeSettings};
use crate::shape::{Context, TemplateError};
use crate::sink::Verdict;

/// The body as JSON.
pub(super) fn of(settings: &IntakeSettings, change: &Change) -> Result<String, Verdict> {
    let context = Context::of(change);
    let mut body = Map::new();
    for field in &settings.fields {
        let Some(text) = rendered(field, &context)? else {
            continue;
        };
        let value = match (field.inside, field.name.as_str()) {
            (None, "is_recovery" | "is_pickup_booked") => truth(&text).map(Value::from),
            _ => Some(Value::from(text)),
        };
        let part = match field.inside {
            None => Some(&mut body),
            Some(name) => body
                .entry(name)
                .or_insert_with(|| Map::new().into())
                .as_object_mut(),
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
    let IntakeField {
        name,
        most,
        template,
        ..
    } = field;
    let explained = |error: TemplateError| Verdict::refused(format!("fields.{name}: {error}"));
    let text = template.render(context).map_err(explained)?;
    let kept: String = text.trim().chars().take(*most).collect();
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
