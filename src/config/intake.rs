//! The keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! It refuses what would feed itself: a lead made of each lead of the same workspace, or a check-in
//! of each job, without end.

mod input;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::SinkFilter;
use super::key::KeySource;
use super::shape::compiled;
use super::table::Table;
use super::value::{filled, seconds, timeout};
use super::workspace::{Auth, WorkspaceSettings, base_url};
use crate::record::Route;
use crate::shape::{Escape, NAMES, Template};
pub use input::{IntakeLimit, IntakePart};

const CUSTOM_FIELDS_MAX: usize = 20;

/// `type = "intake"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct IntakeSettings {
    /// The address of the workspace, ending in `/api`.
    #[serde(deserialize_with = "base_url")]
    pub base_url: Url,
    /// Where the key is read from, at each attempt.
    #[serde(rename = "api_key_file")]
    pub key: KeySource,
    /// How the key is sent.
    #[serde(default)]
    pub auth: Auth,
    /// What is made.
    pub create: Intake,
    /// The business (branch) it is made in; `None` is the workspace's default.
    #[serde(default, deserialize_with = "filled")]
    pub business: Option<String>,
    /// What it is made of; of address fields and custom fields, all of one kind are together.
    #[serde(skip)]
    pub fields: Vec<IntakeField>,
    /// The longest time that one request may take.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// One field of what is made.
#[derive(Debug, Clone, PartialEq)]
pub struct IntakeField {
    /// Where it stands.
    pub part: IntakePart,
    /// Its name, or the label of a custom field.
    pub name: String,
    /// What may be sent of it.
    pub limit: IntakeLimit,
    /// Its text.
    pub template: Template,
}

/// The values of the fields; a table inside is `address` or `custom_fields`.
#[derive(Deserialize)]
struct FieldsKey {
    fields: BTreeMap<String, Value>,
}

/// What an intake sink makes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intake {
    /// A lead.
    Lead,
    /// A self check-in.
    SelfCheckin,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<IntakeSettings> {
    let fields =
        "a table of the values that a lead or check-in gets: name, and mobile_number or email";
    let fields = table.read::<FieldsKey>(&[("fields", fields)]);
    let mut read: IntakeSettings = table.read(&[
        ("base_url", "the workspace's address ending in /api"),
        ("api_key_file", "a file with a key of that workspace, of the type REST API, mode 0640"),
        ("create", "\"lead\" or \"self_checkin\""),
    ])?;
    for (name, value) in fields?.fields {
        let (part, values) = match (name.as_str(), value) {
            ("address", Value::Object(inner)) => (IntakePart::Address, inner),
            ("custom_fields", Value::Object(inner)) => (IntakePart::Custom, inner),
            (_, value) => (IntakePart::Own, Map::from_iter([(name, value)])),
        };
        if part == IntakePart::Custom && values.len() > CUSTOM_FIELDS_MAX {
            table.note("fields", format!("holds more than {CUSTOM_FIELDS_MAX} custom fields"));
        }
        let fields =
            values.iter().filter_map(|(name, value)| field(table, read.create, part, name, value));
        read.fields.extend(fields);
    }
    let has = |name: &str| {
        read.fields.iter().any(|field| field.part == IntakePart::Own && field.name == name)
    };
    if !has("name") || !(has("mobile_number") || has("email")) {
        table.note("fields", "needs `name`, and `mobile_number` or `email`");
    }
    Some(read)
}

/// One field; `None` only if a problem was noted.
fn field(
    table: &Table<'_>,
    create: Intake,
    part: IntakePart,
    name: &str,
    value: &Value,
) -> Option<IntakeField> {
    let path = match part {
        IntakePart::Own => &["fields", name][..],
        IntakePart::Address => &["fields", "address", name],
        IntakePart::Custom => &["fields", "custom_fields", name],
    };
    let Some(limit) = create.limit(part, name) else {
        table.note_inside(path, match part {
            IntakePart::Address => {
                "an address has no such field; its fields are: address_line, city, state, zip_code"
            }
            _ => "there is no such input field here; put a field of your own into `custom_fields`",
        });
        return None;
    };
    let source = match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => yes.to_string(),
        _ => {
            table.note_inside(path, "a field in `fields` must be a string in quotes");
            return None;
        }
    };
    if !limit.is_cut && !source.contains('{') && source.chars().count() > limit.most {
        table.note_inside(path, format!("this text has more than {} characters", limit.most));
        return None;
    }
    let template = compiled(table, path, &source, Escape::Text, &NAMES)?;
    Some(IntakeField { part, name: name.to_owned(), limit, template })
}

/// Notes what would feed itself, or spend the requests of the polls.
pub(super) fn check_mirrored(
    table: &Table<'_>,
    intake: &IntakeSettings,
    filter: &SinkFilter,
    workspace: Option<&WorkspaceSettings>,
) {
    let Some(mirrored) = workspace else { return };
    let place =
        |url: &Url| (url.host_str().map(str::to_ascii_lowercase), url.port_or_known_default());
    let (route, made) = match intake.create {
        Intake::Lead => (Route::Leads, "a lead"),
        Intake::SelfCheckin => (Route::Jobs, "a check-in"),
    };
    if place(&intake.base_url) == place(&mirrored.base_url) && filter.routes.contains(&route) {
        table.note_here(format!(
            "this sink would make {made} of each record of `{route}` in the same workspace, and again of what comes of it, without end: set `routes` without \"{route}\", or name another workspace"
        ));
    }
    if intake.key == mirrored.key {
        table.note("api_key_file", "is the key of [workspace], whose requests the polls use: create another key in the portal, of the type REST API");
    }
}
