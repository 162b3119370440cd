//! The keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! It refuses what would feed itself: a lead made of each lead of the same workspace, or a check-in
//! of each job, without end.

mod input;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::SinkFilter;
use super::key::KeySource;
use super::shape::compiled;
use super::table::Table;
use super::value::{seconds, timeout};
use super::workspace::{Auth, WorkspaceSettings, base_url};
use crate::record::Route;
use crate::shape::{Escape, NAMES, Template};
use input::ADDRESS;
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
    pub business: Option<String>,
    /// The text fields, by name.
    #[serde(skip)]
    pub fields: BTreeMap<String, Template>,
    /// The parts of the address.
    #[serde(skip)]
    pub address: BTreeMap<String, Template>,
    /// The custom fields, by label.
    #[serde(skip)]
    pub custom_fields: BTreeMap<String, Template>,
    /// The longest time that one request may take.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
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
        match (name.as_str(), value) {
            ("address", Value::Object(inner)) => {
                for (name, value) in &inner {
                    let template = field(table, read.create, IntakePart::Address, name, value);
                    read.address.extend(template.map(|template| (name.clone(), template)));
                }
            }
            ("custom_fields", Value::Object(inner)) => {
                for (name, value) in &inner {
                    let template = field(table, read.create, IntakePart::Custom, name, value);
                    read.custom_fields.extend(template.map(|template| (name.clone(), template)));
                }
            }
            (_, value) => {
                let template = field(table, read.create, IntakePart::Own, &name, &value);
                read.fields.extend(template.map(|template| (name, template)));
            }
        }
    }
    if read.custom_fields.len() > CUSTOM_FIELDS_MAX {
        table.note("fields", format!("holds more than {CUSTOM_FIELDS_MAX} custom fields"));
    }
    let has = |name: &str| read.fields.contains_key(name);
    if !has("name") || !(has("mobile_number") || has("email")) {
        table.note("fields", "needs `name`, and `mobile_number` or `email`");
    }
    Some(read)
}

/// The template of one field; `None` only if a problem was noted.
fn field(
    table: &Table<'_>,
    create: Intake,
    part: IntakePart,
    name: &str,
    value: &Value,
) -> Option<Template> {
    let path = match part {
        IntakePart::Own => &["fields", name][..],
        IntakePart::Address => &["fields", "address", name],
        IntakePart::Custom => &["fields", "custom_fields", name],
    };
    let Some(limit) = create.limit(part, name) else {
        let message = match part {
            IntakePart::Address => {
                format!("an address has no such field; its fields are: {}", ADDRESS.join(", "))
            }
            _ => "there is no such input field here; put a field of your own into `custom_fields`"
                .to_owned(),
        };
        table.note_inside(path, message);
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
    let length = source.trim().chars().count();
    if length > limit.most && !source.contains('{') {
        table.note_inside(
            path,
            format!(
                "this field has {length} characters, and a workspace takes at most {}: shorten it",
                limit.most
            ),
        );
    }
    compiled(table, path, &source, Escape::Text, &NAMES)
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
