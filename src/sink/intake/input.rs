//! The body of an intake request: the configured fields of one change.
//!
//! An empty value is left out. A text that is longer than the contract allows is cut where a cut does
//! no harm; otherwise the change is refused before anything is sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::{IntakeLimit, IntakePart as Part, IntakeSettings};
use crate::record::Change;
use crate::shape::{Context, Template, TemplateError};
use crate::sink::Verdict;

/// The body as JSON.
pub(super) fn of(settings: &IntakeSettings, change: &Change) -> Result<String, Verdict> {
    let context = Context::of(change);
    let mut body = Map::new();
    for (name, template) in &settings.fields {
        let limit = settings.create.limit(Part::Own, name);
        let Some(text) = rendered(name, template, &context, limit)? else {
            continue;
        };
        let value = match name.as_str() {
            "is_recovery" | "is_pickup_booked" => truth(&text).map(Value::from),
            _ => Some(Value::from(text)),
        };
        if let Some(value) = value {
            body.insert(name.clone(), value);
        }
    }
    for (name, fields, part) in [
        ("address", &settings.address, Part::Address),
        ("custom_fields", &settings.custom_fields, Part::Custom),
    ] {
        let values = nested(settings, fields, &context, part)?;
        if !values.is_empty() {
            body.insert(name.to_owned(), values.into());
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

fn nested(
    settings: &IntakeSettings,
    fields: &BTreeMap<String, Template>,
    context: &Context,
    part: Part,
) -> Result<Map<String, Value>, Verdict> {
    let mut values = Map::new();
    for (name, template) in fields {
        let limit = settings.create.limit(part, name);
        if let Some(text) = rendered(name, template, context, limit)? {
            values.insert(name.clone(), Value::from(text));
        }
    }
    Ok(values)
}

/// The text of one field; `None` if it is empty.
fn rendered(
    name: &str,
    template: &Template,
    context: &Context,
    limit: Option<IntakeLimit>,
) -> Result<Option<String>, Verdict> {
    let explained = |error: TemplateError| Verdict::refused(format!("fields.{name}: {error}"));
    let text = template.render(context).map_err(explained)?;
    let text = text.trim();
    let Some(limit) = limit else { return Ok((!text.is_empty()).then(|| text.to_owned())) };
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
