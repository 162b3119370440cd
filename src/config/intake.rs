//! The keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! A field that the contract does not list is no problem: the workspace keeps it as a custom field.
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
use super::value::{seconds, timeout};
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
    /// The object that it stands in, `address` or `custom_fields`; `None`: it stands at the top.
    pub inside: Option<&'static str>,
    /// Its name, or the label of a custom field.
    pub name: String,
    /// The most characters that are sent of it.
    pub most: usize,
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
        let (inside, values) = match (name.as_str(), value) {
            ("address", Value::Table(inner)) => (Some("address"), inner),
            ("custom_fields", Value::Table(inner)) => (Some("custom_fields"), inner),
            (_, value) => (None, Map::from_iter([(name, value)])),
        };
        let made =
            values.iter().filter_map(|(name, value)| field(table, &read, inside, name, value));
        let made: Vec<IntakeField> = made.collect();
        read.fields.extend(made);
    }
    let has =
        |name: &str| read.fields.iter().any(|field| field.inside.is_none() && field.name == name);
    if !has("name") || !(has("mobile_number") || has("email")) {
        table.note("fields", "needs `name`, and `mobile_number` or `email`");
    }
    Some(read)
}

/// One field; `None` only if a problem was noted.
fn field(
    table: &Table<'_>,
    intake: &IntakeSettings,
    inside: Option<&'static str>,
    name: &str,
    value: &Value,
) -> Option<IntakeField> {
    let path: Vec<&str> = ["fields"].into_iter().chain(inside).chain([name]).collect();
    let source = match value {
        Value::String(text) => text.clone(),
        Value::Boolean(_) | Value::Datetime(_) => value.to_string(),
        _ => {
            table.note_inside(&path, "a field in `fields` must be a string in quotes");
            return None;
        }
    };
    let template = compiled(table, &path, &source, Escape::Text, &NAMES)?;
    Some(IntakeField {
        inside,
        name: name.to_owned(),
        most: most(intake.create, inside, name),
        template,
    })
}

/// The most characters of a text of which a part still means the same thing (contract, "Lead (input)" and
/// "Self check-in (input)"). Others are sent as they are: a part of a number or an address is another one.
fn most(create: Intake, inside: Option<&str>, name: &str) -> usize {
    let (lead, checkin) = match (inside, name) {
        (Some("custom_fields"), _) => (1000, 1000),
        (None, "name") => (60, 255),
        (None, "contact_person_name") => (60, 1000),
        (None, "source") => (100, 1000),
        (None, "device_type" | "device_brand" | "device_model")
        | (Some("address"), "city" | "state") => (100, 255),
        (Some("address"), "address_line") => (200, 255),
        _ => (usize::MAX, usize::MAX),
    };
    match create {
        Intake::Lead => lead,
        Intake::SelfCheckin => checkin,
    }
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
