//! Reads the keys of a sink of type `intake`: a workspace, what is made in it, and from which fields.
//!
//! It refuses what would feed itself: a lead made of each lead of the same workspace, or a check-in
//! of each job, without end.

mod input;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use url::Url;

use super::base::Base;
use super::problem::{Quote, shown};
use super::secret_text;
use super::section::{Found, Section};
use super::webhook::TIMEOUT;
use super::{Auth, KeySource, SinkFilter, address};
use crate::record::Route;
use crate::shape::{Escape, NAMES, Template};
use input::ADDRESS;
pub use input::{IntakeLimit, IntakePart};

const CUSTOM_FIELDS_MAX: usize = 20;
const PACE_MAX: u32 = 60_000;
const USUAL_PACE: u32 = 20;

/// `type = "intake"`
#[derive(Debug, Clone)]
pub struct IntakeSettings {
    /// The address of the workspace, ending in `/api`.
    pub base_url: Url,
    /// Where the key is read from, at each attempt.
    pub key: KeySource,
    /// How the key is sent.
    pub auth: Auth,
    /// What is made.
    pub create: Intake,
    /// The business (branch) it is made in; `None` is the workspace's default.
    pub business: Option<String>,
    /// The text fields, by name.
    pub fields: BTreeMap<String, Template>,
    /// The parts of the address.
    pub address: BTreeMap<String, Template>,
    /// The custom fields, by label.
    pub custom_fields: BTreeMap<String, Template>,
    /// The most requests in a minute.
    pub requests_per_minute: u32,
    /// The longest time that one request may take.
    pub timeout: Duration,
}

/// What an intake sink makes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// A lead.
    Lead,
    /// A self check-in.
    SelfCheckin,
}

impl PartialEq for IntakeSettings {
    fn eq(&self, other: &Self) -> bool {
        let plain = |sink: &Self| {
            let KeySource::File(path) = &sink.key else { return None };
            let maps = [sink.fields.clone(), sink.address.clone(), sink.custom_fields.clone()];
            let place = (sink.base_url.clone(), path.clone(), sink.auth, sink.create);
            Some((place, sink.business.clone(), maps, sink.requests_per_minute, sink.timeout))
        };
        plain(self) == plain(other)
    }
}

impl IntakeSettings {
    /// What `check` says of fixed texts that are longer than a workspace takes, and are cut.
    #[must_use]
    pub fn cut_texts(&self) -> Vec<String> {
        let maps = [
            ("fields", &self.fields, IntakePart::Own),
            ("fields.address", &self.address, IntakePart::Address),
            ("fields.custom_fields", &self.custom_fields, IntakePart::Custom),
        ];
        let mut said = Vec::new();
        for (map, fields, part) in maps {
            for (name, template) in fields {
                let most = self.create.limit(part, name).filter(|limit| limit.is_cut);
                let Some((most, text)) = most.zip(template.fixed()) else { continue };
                let (most, length) = (most.most, text.trim().chars().count());
                if length > most {
                    said.push(format!(
                        "`{map}.{}` has {length} characters, and a workspace takes at most {most}: the rest is cut off, so shorten it",
                        shown(name)
                    ));
                }
            }
        }
        said
    }
}

/// What is known of the workspace that is mirrored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mirrored<'a> {
    pub(super) base_url: &'a Url,
    pub(super) key: &'a KeySource,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(
    section: &mut Section<'_>,
    base: &Base,
    filter: &SinkFilter,
    mirrored: Option<Mirrored<'_>>,
) -> Option<IntakeSettings> {
    let base_url = base_url(section);
    let key = key_file(section, base);
    let auths = [("bearer", Auth::Bearer), ("x-api-key", Auth::XApiKey)];
    let auth = section.word("auth", &auths).unwrap_or(Auth::Bearer);
    if !section.holds("create") {
        section.missing("create", "\"lead\" or \"self_checkin\"");
    }
    let words = [("lead", Intake::Lead), ("self_checkin", Intake::SelfCheckin)];
    let create = section.word("create", &words);
    let business = section.text("business").map(|found| found.value.to_owned());
    let pace = section.integer("requests_per_minute", &(1..=PACE_MAX));
    let timeout = section.duration("timeout", &TIMEOUT);
    let maps = fields(section, create);
    let (base_url, (key, key_place), create) = (base_url?, key?, create?);
    if let Some(mirrored) = mirrored {
        refuse_loop(section, create, filter, &base_url, mirrored);
        if matches!(mirrored.key, KeySource::File(path) if *path == key) {
            let message = "`api_key_file` is the key of [workspace], whose requests the polls use: create another key in the portal, of the type REST API";
            section.findings.note(&key_place, message);
        }
    }
    let [fields, address, custom_fields] = maps?;
    Some(IntakeSettings {
        base_url,
        key: KeySource::File(key),
        auth,
        create,
        business,
        fields,
        address,
        custom_fields,
        requests_per_minute: pace.map_or(USUAL_PACE, |found| found.value),
        timeout: timeout.map_or(Duration::from_secs(20), |found| found.value),
    })
}

fn base_url(section: &mut Section<'_>) -> Option<Url> {
    if !section.holds("base_url") {
        section.missing("base_url", "the workspace's address ending in /api");
    }
    let Found { value, place } = section.text("base_url")?;
    address::workspace(value)
        .map_err(|why| section.findings.note_secret(&place, format!("`base_url` {why}")))
        .ok()
}

fn key_file(section: &mut Section<'_>, base: &Base) -> Option<(PathBuf, Range<usize>)> {
    if !section.holds("api_key_file") {
        let advice = "a file with a key of that workspace, of the type REST API, mode 0640";
        section.missing("api_key_file", advice);
    }
    let Found { value, place } = secret_text::file(section, base, "api_key_file")?;
    Some((base.dir.join(value), place))
}

fn refuse_loop(
    section: &Section<'_>,
    create: Intake,
    filter: &SinkFilter,
    base_url: &Url,
    mirrored: Mirrored<'_>,
) {
    let place =
        |url: &Url| (url.host_str().map(str::to_ascii_lowercase), url.port_or_known_default());
    let (route, made) = match create {
        Intake::Lead => (Route::Leads, "a lead"),
        Intake::SelfCheckin => (Route::Jobs, "a check-in"),
    };
    if place(base_url) == place(mirrored.base_url) && filter.routes.contains(&route) {
        section.note(format!(
            "this sink would make {made} of each record of `{route}` in the same workspace, and again of what comes of it, without end: set `routes` without \"{route}\", or name another workspace"
        ));
    }
}

type Fields = BTreeMap<String, Template>;

/// The maps `fields`, `fields.address` and `fields.custom_fields`.
fn fields(section: &mut Section<'_>, create: Option<Intake>) -> Option<[Fields; 3]> {
    if !section.holds("fields") {
        section.missing(
            "fields",
            "a table of the values that a lead or check-in gets: name, and mobile_number or email",
        );
    }
    let found = section.value("fields")?;
    let DeValue::Table(table) = found.value else {
        section.wrong_type("fields", "a table", found.value, &found.place, Quote::Masked);
        return None;
    };
    let mut maps: [Fields; 3] = Default::default();
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        match (name, value.get_ref()) {
            ("address" | "custom_fields", DeValue::Table(inner)) => {
                let (map, part) = match name {
                    "address" => (&mut maps[1], IntakePart::Address),
                    _ => (&mut maps[2], IntakePart::Custom),
                };
                for (key, value) in inner {
                    let label = key.get_ref().as_ref();
                    let limit = create.and_then(|create| create.limit(part, label));
                    if part == IntakePart::Address && !ADDRESS.contains(&label) {
                        let message = format!(
                            "an address has no `{}`; its fields are: {}",
                            shown(label),
                            ADDRESS.join(", ")
                        );
                        section.findings.note(&key.span(), message);
                    }
                    put(section, map, (label, limit), value.get_ref(), &value.span());
                }
            }
            // Without `create` it is not known which fields there are.
            _ if create.is_none_or(|create| create.limit(IntakePart::Own, name).is_some()) => {
                let limit = create.and_then(|create| create.limit(IntakePart::Own, name));
                put(section, &mut maps[0], (name, limit), value.get_ref(), &value.span());
            }
            _ => {
                let message = format!(
                    "there is no input field `{}` here; put a field of your own into `custom_fields`",
                    shown(name)
                );
                section.findings.note(&key.span(), message);
            }
        }
    }
    if maps[2].len() > CUSTOM_FIELDS_MAX {
        let message = format!("`custom_fields` holds more than {CUSTOM_FIELDS_MAX} fields");
        section.findings.note(&found.place, message);
    }
    let has = |name: &str| maps[0].contains_key(name);
    if !has("name") || !(has("mobile_number") || has("email")) {
        let message = "`fields` needs `name`, and `mobile_number` or `email`";
        section.findings.note_secret(&found.place, message);
        return None;
    }
    Some(maps)
}

fn put(
    section: &Section<'_>,
    map: &mut Fields,
    (name, limit): (&str, Option<IntakeLimit>),
    value: &DeValue<'_>,
    place: &Range<usize>,
) {
    let source = match value {
        DeValue::String(text) => text.as_ref().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        other => {
            let key = format!("fields.{}", shown(name));
            section.wrong_type(&key, "a string in quotes", other, place, Quote::Shown);
            return;
        }
    };
    let length = source.trim().chars().count();
    let is_too_long = |limit: &IntakeLimit| length > limit.most && !limit.is_cut;
    if let Some(limit) = limit.filter(|limit| is_too_long(limit) && !source.contains('{')) {
        let message = format!(
            "`fields.{}` has {length} characters, and a workspace takes at most {}: shorten it",
            shown(name),
            limit.most
        );
        section.findings.note_secret(place, message);
    }
    match Template::compile(&source, Escape::Text, &NAMES) {
        Ok(template) => {
            map.insert(name.to_owned(), template);
        }
        Err(error) => {
            let message = format!("`fields.{}`: {error}", shown(name));
            section.findings.note_secret(place, message);
        }
    }
}
