//! The keys of a sink of type `intake`: a workspace, the type of the record that is created in it,
//! and its fields.
//!
//! A field that the contract does not list is no problem: the workspace stores it as a custom
//! field.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::proxy::{self, Proxy};
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
    /// The proxy through which the workspace is reached.
    #[serde(skip)]
    pub proxy: Option<Proxy>,
    /// The type of the record that is created.
    pub create: Intake,
    /// The business (branch) in which it is created; `None` is the workspace's default.
    pub business: Option<String>,
    /// Whether the workspace refuses a record of which one field breaks a rule. If not, it keeps such
    /// a field as a custom field.
    #[serde(default = "strict")]
    pub strict: bool,
    /// Its fields: first those at the top, then those of the address, then the custom fields.
    #[serde(skip)]
    pub fields: Vec<IntakeField>,
    /// The longest time that one request may take.
    #[serde(default = "seconds::<20>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// One field of the record.
#[derive(Debug, Clone, PartialEq)]
pub struct IntakeField {
    /// The object that contains it, `address` or `custom_fields`; `None`: it is at the top.
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
    fields: FieldTexts,
}

/// The texts of the fields.
#[derive(Deserialize)]
struct FieldTexts {
    #[serde(default)]
    address: BTreeMap<String, String>,
    #[serde(default)]
    custom_fields: BTreeMap<String, String>,
    #[serde(flatten)]
    others: BTreeMap<String, String>,
}

/// The type of the record that an intake sink creates for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intake {
    /// A lead.
    Lead,
    /// A self check-in.
    SelfCheckin,
}

fn strict() -> bool {
    true
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<IntakeSettings> {
    let fields = table.read::<FieldsKey>(&["fields"]);
    let proxy = proxy::read(table);
    let mut read: IntakeSettings = table.read(&["base_url", "api_key_file", "create"])?;
    if read.base_url.scheme() == "http" {
        proxy::note_plain(table, proxy.as_ref());
    }
    read.proxy = proxy;
    let FieldTexts {
        address,
        custom_fields,
        others,
    } = fields?.fields;
    let has_contact = others.contains_key("mobile_number") || others.contains_key("email");
    if !others.contains_key("name") || !has_contact {
        table.note("fields", "needs `name`, and `mobile_number` or `email`");
    }
    for (inside, values) in [
        (None, others),
        (Some("address"), address),
        (Some("custom_fields"), custom_fields),
    ] {
        for (name, text) in values {
            let mut path = vec!["fields"];
            path.extend(inside);
            path.push(&name);
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

/// The most characters of a text that may be cut (contract, "Lead (input)" and "Self check-in
/// (input)"). Other texts are sent whole: a part of a number or an address is another one.
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
