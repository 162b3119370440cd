//! Validation: the strict rules of the record routes and the lenient ones of submit and ingest.
//!
//! Pure: takes the sent fields, returns the fields to store or what is wrong with each. Both sets
//! share one check per kind of field; the lenient rules only amend values first, and move what
//! still fails out of the way.

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde_json::{Map, Value};

use super::How;
use super::field::{Destination, Field, Kind};

/// Unlisted fields kept on a record.
const MAX_EXTRAS: usize = 20;
/// Characters kept of a value that becomes a custom field.
pub(crate) const MAX_EXTRA: usize = 1000;

/// The field that the API never returns.
const PASSWORD: &str = "device_password";

/// Fields that may be stored.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Clean {
    /// Listed fields that were sent, by name; `custom_fields` is not among them.
    pub(crate) values: Map<String, Value>,
    /// Custom fields by label.
    pub(crate) custom: Map<String, Value>,
}

/// What is wrong, as pairs of field and message.
pub(crate) type Problems = Vec<(String, String)>;

/// Accepts everything as sent, or names each field that breaks a rule.
pub(crate) fn strict(
    destination: Destination,
    data: Map<String, Value>,
    defined: &[&str],
) -> Result<Clean, Problems> {
    let mut clean = Clean::default();
    let mut problems = Problems::new();
    let mut data = data;
    for field in destination.fields() {
        let Some(value) = data.remove(field.name) else {
            continue;
        };
        if is_blank(&value) {
            continue;
        }
        match checked(field, value) {
            Ok(value) => clean.put(field, value),
            Err((_, found)) => problems.extend(found),
        }
    }
    require(&clean, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    clean.keep_extras(data, defined);
    clean.keep_password_apart(destination);
    Ok(clean)
}

/// Names what is wrong with the fields that say where a record belongs. They are checked even if
/// the rest must wait for the form's map.
pub(crate) fn addressing(destination: Destination, data: &Map<String, Value>) -> Problems {
    let fields = destination.fields().iter();
    let fields = fields.filter(|field| matches!(field.name, "form_id" | "business_id"));
    let sent = fields.filter_map(|field| Some((field, data.get(field.name)?.clone())));
    let sent = sent.filter(|(_, value)| !is_blank(value));
    sent.filter_map(|(field, value)| checked(field, value).err())
        .flat_map(|(_, wrong)| wrong)
        .collect()
}

/// The business that the data names, if it is readable as a number.
pub(crate) fn named_business(how: How, data: &Map<String, Value>) -> Option<i64> {
    let value = data.get("business_id")?;
    match value {
        Value::String(text) if how != How::Strict => text.trim().parse().ok(),
        value => value.as_i64(),
    }
}

/// Accepts what it can: trims, drops, cuts, and moves what still fails to custom fields.
pub(crate) fn lenient(
    destination: Destination,
    data: Map<String, Value>,
    defined: &[&str],
) -> Result<Clean, Problems> {
    let mut clean = Clean::default();
    let mut data: Map<String, Value> = data
        .into_iter()
        .map(|(name, value)| (name, trimmed(value)))
        .collect();
    let mut moved = Vec::new();
    for field in destination.fields() {
        let Some(value) = data.remove(field.name) else {
            continue;
        };
        if is_blank(&value) {
            continue;
        }
        match checked(field, amended(field, value)) {
            Ok(value) => clean.put(field, value),
            Err((value, _)) => moved.push((field.name, value)),
        }
    }
    let mut problems = Problems::new();
    require(&clean, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    for (name, value) in moved {
        clean.custom.entry(name).or_insert_with(|| as_extra(value));
    }
    clean.keep_extras(data, defined);
    clean.keep_password_apart(destination);
    Ok(clean)
}

impl Clean {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.kind, value) {
            (Kind::Labels, Value::Object(labels)) => self.custom.extend(labels),
            (_, value) => {
                self.values.insert(field.name.to_owned(), value);
            }
        }
    }

    /// Keeps unlisted scalars. Fields that the shop defined do not count against the limit.
    fn keep_extras(&mut self, data: Map<String, Value>, defined: &[&str]) {
        let mut kept = 0;
        for (name, value) in data {
            let scalar = value.is_string() || value.is_number() || value.is_boolean();
            if !scalar || is_blank(&value) || self.custom.contains_key(&name) {
                continue;
            }
            if !defined.contains(&name.as_str()) {
                if kept == MAX_EXTRAS {
                    continue;
                }
                kept += 1;
            }
            self.custom.insert(name, as_extra(value));
        }
    }

    /// Takes the device password out of the custom fields, which the API returns. A self check-in
    /// keeps it for staff; a lead has no place for it.
    fn keep_password_apart(&mut self, destination: Destination) {
        let Some(value) = self.custom.remove(PASSWORD) else {
            return;
        };
        let field = destination
            .fields()
            .iter()
            .find(|field| field.name == PASSWORD);
        let Some(longest) = field.and_then(|field| field.longest) else {
            return;
        };
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let kept = self.values.entry(PASSWORD);
        kept.or_insert_with(|| cut(&text, longest).into());
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }
}

fn require(clean: &Clean, problems: &mut Problems) {
    let wrong = |problems: &Problems, name: &str| problems.iter().any(|(field, _)| field == name);
    let sent = |name: &str| clean.values.contains_key(name);
    if !sent("name") && !wrong(problems, "name") {
        problems.push(("name".to_owned(), "The name field is required.".to_owned()));
    }
    let contacts = ["mobile_number", "email"];
    if !contacts
        .iter()
        .any(|name| sent(name) || wrong(problems, name))
    {
        for (name, other) in [("mobile_number", "email"), ("email", "mobile_number")] {
            let message = format!("The {name} field is required when {other} is not present.");
            problems.push((name.to_owned(), message));
        }
    }
}

/// What counts as not sent: null and the empty string.
fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The value as it is stored, or the value itself with what is wrong with it.
fn checked(field: &Field, value: Value) -> Result<Value, (Value, Problems)> {
    let name = field.name;
    let problem = |message: &str| vec![(name.to_owned(), format!("The {name} field {message}."))];
    let found = match (field.kind, &value) {
        (Kind::Text | Kind::Email | Kind::When, Value::String(text)) => {
            let long = field
                .longest
                .filter(|longest| text.chars().count() > *longest);
            if let Some(longest) = long {
                problem(&format!("may not be longer than {longest} characters"))
            } else if matches!(field.kind, Kind::Email) && !is_email(text) {
                problem("must be a valid e-mail address")
            } else if matches!(field.kind, Kind::When) && !is_when(text) {
                problem("must be a date or a date-time")
            } else {
                return Ok(value);
            }
        }
        (Kind::Text | Kind::Email | Kind::When, _) => problem("must be a string"),
        (Kind::Flag, Value::Bool(_)) => return Ok(value),
        (Kind::Flag, _) => problem("must be true or false"),
        (Kind::Integer, Value::Number(number)) if number.is_i64() => return Ok(value),
        (Kind::Integer, _) => problem("must be an integer"),
        (Kind::Names, Value::String(text)) => {
            let names = text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            return Ok(names.map(Value::from).collect());
        }
        (Kind::Names, Value::Array(items)) if items.iter().all(Value::is_string) => {
            return Ok(value);
        }
        (Kind::Names, _) => problem("must be a list of strings or a comma-separated string"),
        (Kind::Object(parts), Value::Object(object)) => match members(field, parts, object) {
            Ok(object) => return Ok(object),
            Err(problems) => problems,
        },
        (Kind::Labels, Value::Object(labels)) => match label_problems(field, labels) {
            problems if problems.is_empty() => return Ok(value),
            problems => problems,
        },
        (Kind::Object(_) | Kind::Labels, _) => problem("must be an object"),
    };
    Err((value, found))
}

/// All members of an object, absent ones as null.
fn members(field: &Field, parts: &[Field], object: &Map<String, Value>) -> Result<Value, Problems> {
    let mut stored = Map::new();
    let mut problems = Problems::new();
    for part in parts {
        let value = object
            .get(part.name)
            .filter(|value| !is_blank(value))
            .cloned();
        match value.map(|value| checked(part, value)) {
            None => stored.insert(part.name.to_owned(), Value::Null),
            Some(Ok(value)) => stored.insert(part.name.to_owned(), value),
            Some(Err((_, found))) => {
                problems.extend(
                    found
                        .into_iter()
                        .map(|(name, message)| (format!("{}.{name}", field.name), message)),
                );
                None
            }
        };
    }
    if problems.is_empty() {
        Ok(Value::Object(stored))
    } else {
        Err(problems)
    }
}

fn label_problems(field: &Field, labels: &Map<String, Value>) -> Problems {
    let mut problems = Problems::new();
    for (label, value) in labels {
        let message = match value {
            Value::Array(_) | Value::Object(_) => "must be a single value.".to_owned(),
            Value::String(text) => match field.longest {
                Some(longest) if text.chars().count() > longest => {
                    format!("may not be longer than {longest} characters.")
                }
                _ => continue,
            },
            _ => continue,
        };
        problems.push((
            format!("{}.{label}", field.name),
            format!("The value {message}"),
        ));
    }
    problems
}

/// Text without white space around it, and lists of such text without the empty ones.
fn trimmed(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.trim().to_owned()),
        Value::Array(items) => items
            .into_iter()
            .map(trimmed)
            .filter(|item| item.as_str() != Some(""))
            .collect(),
        other => other,
    }
}

fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

/// The value adapted to the field's rules where that is possible.
fn amended(field: &Field, value: Value) -> Value {
    match (field.kind, value) {
        (Kind::Flag, Value::String(text)) if text.eq_ignore_ascii_case("yes") => true.into(),
        (Kind::Flag, Value::String(text)) if text.eq_ignore_ascii_case("no") => false.into(),
        (Kind::Integer, Value::String(text)) => {
            text.parse::<i64>().map_or(Value::String(text), Value::from)
        }
        (Kind::Object(parts), Value::Object(object)) => Value::Object(
            object
                .into_iter()
                .map(|(name, value)| {
                    let part = parts.iter().find(|part| part.name == name);
                    let value = trimmed(value);
                    let value = part.map_or(value.clone(), |part| amended(part, value));
                    (name, value)
                })
                .collect(),
        ),
        (Kind::Labels, Value::Object(labels)) => Value::Object(
            labels
                .into_iter()
                .map(|(label, value)| (label, trimmed(value)))
                .filter(|(_, value)| !is_blank(value))
                .map(|(label, value)| (label, as_extra(value)))
                .collect(),
        ),
        (_, Value::String(text)) => match field.longest {
            Some(longest) => cut(&text, longest).into(),
            None => text.into(),
        },
        (_, value) => value,
    }
}

/// A value as it is kept among the custom fields: single, and cut.
fn as_extra(value: Value) -> Value {
    match value {
        Value::String(text) => cut(&text, MAX_EXTRA).into(),
        Value::Array(_) | Value::Object(_) => cut(&value.to_string(), MAX_EXTRA).into(),
        single => single,
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let dots = |part: &str| part.starts_with('.') || part.ends_with('.') || part.contains("..");
    let named = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    !local.is_empty()
        && local.len() <= 64
        && !domain.is_empty()
        && !dots(local)
        && !dots(domain)
        && domain.chars().all(named)
        && !local
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || "@,;:<>()[]\\\"".contains(c))
}

fn is_when(text: &str) -> bool {
    text.parse::<DateTime>().is_ok() || text.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests;
