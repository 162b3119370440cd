//! The body of an intake request: the configured fields of one change.
//!
//! An empty value is left out. A text that is longer than the contract allows is cut where a cut does
//! no harm; a number, an address or a date is never cut.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::config::{Intake, IntakeSettings};
use crate::record::Change;
use crate::shape::{Context, Template, TemplateError};
use crate::sink::Verdict;

/// The fields that may be cut, and how many characters they hold: in a lead, in a self check-in.
const CUT: [(&str, usize, usize); 7] = [
    ("name", 60, 255),
    ("contact_person_name", 60, 60),
    ("device_type", 100, 255),
    ("device_brand", 100, 255),
    ("device_model", 100, 255),
    ("source", 100, 100),
    ("comment", 10_000, 10_000),
];
const CUSTOM_FIELD_CHARS: usize = 1000;
const ADDRESS_CHARS: usize = 100;

/// The body as JSON.
pub(super) fn of(settings: &IntakeSettings, change: &Change) -> Result<String, Verdict> {
    let context = Context::of(change);
    let mut body = Map::new();
    for (name, template) in &settings.fields {
        let Some(text) = rendered(name, template, &context, most(settings.create, name))? else {
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
    for (name, fields, max) in [
        ("address", &settings.address, ADDRESS_CHARS),
        ("custom_fields", &settings.custom_fields, CUSTOM_FIELD_CHARS),
    ] {
        let values = nested(fields, &context, max)?;
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
    fields: &BTreeMap<String, Template>,
    context: &Context,
    max: usize,
) -> Result<Map<String, Value>, Verdict> {
    let mut values = Map::new();
    for (name, template) in fields {
        if let Some(text) = rendered(name, template, context, Some(max))? {
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
    max: Option<usize>,
) -> Result<Option<String>, Verdict> {
    let explained = |error: TemplateError| Verdict::refused(format!("fields.{name}: {error}"));
    let text = template.render(context).map_err(explained)?;
    let kept: String = text.trim().chars().take(max.unwrap_or(usize::MAX)).collect();
    Ok((!kept.is_empty()).then_some(kept))
}

fn most(create: Intake, name: &str) -> Option<usize> {
    let (_, lead, checkin) = CUT.into_iter().find(|(field, ..)| *field == name)?;
    Some(match create {
        Intake::Lead => lead,
        Intake::SelfCheckin => checkin,
    })
}

/// Yes or no, however a record says it.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}
