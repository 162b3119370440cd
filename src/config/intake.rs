//! The keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! A field that the contract does not list is no problem: the workspace keeps it as a custom field.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::shape::compiled;
use super::table::Table;
use super::value::{seconds, timeout};
use super::workspace::{KeySource, base_url};
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

#[derive(Deserialize)]
struct FieldsKey {
    fields: Fields,
}

/// The values of the fields.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    address: BTreeMap<String, String>,
    #[serde(default)]
    custom_fields: BTreeMap<String, String>,
    #[serde(flatten)]
    others: BTreeMap<String, String>,
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
    let fields = table.read::<FieldsKey>(&["fields"]);
    let mut read: IntakeSettings = table.read(&["base_url", "api_key_file", "create"])?;
    let Fields {
        address,
        custom_fields,
        others,
    } = fields?.fields;
    let has = |name: &str| others.contains_key(name);
    if !has("name") || !(has("mobile_number") || has("email")) {
        table.note("fields", "needs `name`, and `mobile_number` or `email`");
    }
    for (inside, values) in [
        (None, others),
        (Some("address"), address),
        (Some("custom_fields"), custom_fields),
    ] {
        for (name, text) in values {
            let path: Vec<&str> = ["fields"]
                .into_iter()
                .chain(inside)
                .chain([&*name])
                .collect();
            let template = compiled(table, &path, &text, Escape::Text, &NAMES)?;
            let most = most(read.create, inside, &name);
            read.fields.push(IntakeField {
                inside,
                name,
                most,
                template,
            });
        }
    }
    Some(read)
}

/// The most characters of a text of which a part still means the same thing (contract, "Lead
/// (input)" and "Self check-in (input)"). Others are sent as they are: a part of a number or an
/// address is another one.
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
