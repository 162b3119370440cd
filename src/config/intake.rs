//! The keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! It refuses what would feed itself: a lead made of each lead of the same workspace, or a check-in
//! of each job, without end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use toml::{Table as Map, Value};
use url::Url;

use super::SinkFilter;
use super::shape::compiled;
use super::table::Table;
use super::value::{filled, seconds, timeout};
use super::workspace::{Auth, KeySource, WorkspaceSettings, base_url};
use crate::record::Route;
use crate::shape::{Escape, NAMES, Template};

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
            ("address", Value::Table(inner)) => (IntakePart::Address, inner),
            ("custom_fields", Value::Table(inner)) => (IntakePart::Custom, inner),
            (_, value) => (IntakePart::Own, Map::from_iter([(name, value)])),
        };
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
        table.note_inside(path, "there is no such input field here; put a field of your own into `custom_fields`; an address has address_line, city, state and zip_code");
        return None;
    };
    let source = match value {
        Value::String(text) => text.clone(),
        Value::Boolean(_) | Value::Datetime(_) => value.to_string(),
        _ => {
            table.note_inside(path, "a field in `fields` must be a string in quotes");
            return None;
        }
    };
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
    let (route, made) = match intake.create {
        Intake::Lead => (Route::Leads, "a lead"),
        Intake::SelfCheckin => (Route::Jobs, "a check-in"),
    };
    if intake.base_url.origin() == mirrored.base_url.origin() && filter.routes.contains(&route) {
        table.note_here(format!(
            "this sink would make {made} of each record of `{route}` in the same workspace, and again of what comes of it, without end: set `routes` without \"{route}\", or name another workspace"
        ));
    }
    if intake.key == mirrored.key {
        table.note("api_key_file", "is the key of [workspace], whose requests the polls use: create another key in the portal, of the type REST API");
    }
}

// The input fields of the contract ("Lead (input)", "Self check-in (input)") and how long each may be. A text
// that is too long is cut where a part of it still means the same thing; a number, an address or a code is not,
// because the rest would be another one.

/// No limit is stated.
const ANY: usize = usize::MAX;

/// What may be sent of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntakeLimit {
    /// The most characters.
    pub most: usize,
    /// Whether a longer text is cut; otherwise it is not sent.
    pub is_cut: bool,
}

/// One field: its limits in a lead and in a self check-in; 0 where the route has no such field.
struct Field(&'static str, usize, usize, bool);

const FIELDS: [Field; 19] = [
    Field("name", 60, 255, true),
    Field("mobile_number", 20, 20, false),
    Field("email", 255, 255, false),
    Field("mobile_country_code", 10, 10, false),
    Field("device_type", 100, 255, true),
    Field("device_brand", 100, 255, true),
    Field("device_model", 100, 255, true),
    // Free text for the contract; no person writes more.
    Field("comment", 10_000, 10_000, true),
    Field("phone_number", 20, 0, false),
    Field("contact_person_name", 60, 0, true),
    Field("source", 100, 0, true),
    Field("next_follow_up", ANY, 0, false),
    Field("serial_number", 0, 255, false),
    Field("serial_number_2", 0, 191, false),
    Field("device_password", 0, 191, false),
    Field("accessories", 0, ANY, false),
    Field("is_recovery", 0, ANY, false),
    Field("is_pickup_booked", 0, ANY, false),
    Field("scheduled_on", 0, ANY, false),
];

const ADDRESS_FIELDS: [Field; 4] = [
    Field("address_line", 200, 255, true),
    Field("city", 100, 255, true),
    Field("state", 100, 255, true),
    Field("zip_code", 20, 20, false),
];

/// Which of the maps a field stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakePart {
    /// `fields`
    Own,
    /// `fields.address`
    Address,
    /// `fields.custom_fields`
    Custom,
}

impl Intake {
    /// What may be sent of a field; `None` if there is no such field.
    #[must_use]
    pub fn limit(self, part: IntakePart, name: &str) -> Option<IntakeLimit> {
        let fields: &[Field] = match part {
            IntakePart::Own => &FIELDS,
            IntakePart::Address => &ADDRESS_FIELDS,
            IntakePart::Custom => return Some(IntakeLimit { most: 1_000, is_cut: true }),
        };
        let Field(_, lead, checkin, is_cut) = fields.iter().find(|field| field.0 == name)?;
        let most = match self {
            Self::Lead => *lead,
            Self::SelfCheckin => *checkin,
        };
        (most > 0).then_some(IntakeLimit { most, is_cut: *is_cut })
    }
}
