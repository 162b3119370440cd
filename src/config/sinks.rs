//! Reads `[sinks.NAME]`: the keys that all sinks have, then those of each type.
//!
//! Invariant: no two sinks write the same file, and no sink writes to the store.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::de::DeValue;

use super::command;
use super::conditions;
use super::email;
use super::file;
use super::findings::choice;
use super::intake::{self, Mirrored};
use super::mqtt;
use super::nats;
use super::postgres;
use super::problem::{Quote, repeated, shown};
use super::reports;
use super::s3;
use super::section::{Found, Section};
use super::webhook;
use super::{Base, FileSettings, InOrder, SinkFilter, SinkKind, SinkSettings, Start};
use crate::record::{Kind, Route};

const SINKS_MAX: usize = 64;
const NAME_LEN_MAX: usize = 64;
const MOST_AT_ONCE: u32 = 1_000_000;
const RETRIES_MAX: usize = 32;
const WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(30 * 86_400);
const TYPES: [(&str, Type); 9] = [
    ("webhook", Type::Webhook),
    ("file", Type::File),
    ("command", Type::Command),
    ("email", Type::Email),
    ("intake", Type::Intake),
    ("postgres", Type::Postgres),
    ("nats", Type::Nats),
    ("mqtt", Type::Mqtt),
    ("s3", Type::S3),
];

const IN_ORDER: [(&str, InOrder); 2] = [("record", InOrder::Record), ("sink", InOrder::Sink)];

/// The kinds that most sinks get unless they ask for others.
const NEWS: [Kind; 2] = [Kind::Created, Kind::Updated];
/// The kinds that a sink gets which starts at the beginning.
const FROM_THE_BEGINNING: [Kind; 3] = [Kind::Baseline, Kind::Created, Kind::Updated];

/// The example schedule of the Standard Webhooks specification, in seconds. The first attempt is
/// made at once.
const STANDARD_RETRY: [u64; 9] = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Webhook,
    File,
    Command,
    Email,
    Intake,
    Postgres,
    Nats,
    Mqtt,
    S3,
}

/// Every sink of the file without a problem. `mirrored` is what [workspace] says, if it can be read.
pub(super) fn read(
    section: Section<'_>,
    base: &Base,
    store: &Path,
    mirrored: Option<Mirrored<'_>>,
) -> BTreeMap<String, SinkSettings> {
    let findings = section.findings;
    let mut sinks: BTreeMap<String, SinkSettings> = BTreeMap::new();
    for (name, own) in section.named_sections() {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        let fits = (1..=NAME_LEN_MAX).contains(&name.value.len());
        if !fits || !name.value.bytes().all(legal) {
            findings.note(
                &name.place,
                format!(
                    "the name of a sink has 1 to {NAME_LEN_MAX} characters of a-z, 0-9, _ and -; this one is {}",
                    repeated(&name.value)
                ),
            );
        }
        let Some(sink) = sink(own, base, mirrored) else { continue };
        if let SinkKind::File(FileSettings { path, .. }) = &sink.kind {
            let same =
                |other: &SinkSettings| matches!(&other.kind, SinkKind::File(f) if f.path == *path);
            if reports::is_of_store(path, store) {
                findings.note(
                    &name.place,
                    "this sink would write to a file of the database of [store]: choose another path",
                );
            } else if let Some((other, _)) = sinks.iter().find(|(_, other)| same(other)) {
                let message = format!(
                    "this sink writes the same file as [sinks.{}]: choose another path",
                    shown(other)
                );
                findings.note(&name.place, message);
            }
        }
        if sinks.len() == SINKS_MAX {
            findings.note(&name.place, format!("there are more than {SINKS_MAX} sinks"));
        }
        sinks.insert(name.value, sink);
    }
    sinks
}

/// One sink; `None` only if a problem was noted.
fn sink(
    mut section: Section<'_>,
    base: &Base,
    mirrored: Option<Mirrored<'_>>,
) -> Option<SinkSettings> {
    if !section.holds("type") {
        section.missing(
            "type",
            "one of webhook, file, command, email, intake, postgres, nats, mqtt, s3",
        );
    }
    let kind = section.word("type", &TYPES);
    // A copy of everything is what a database is for.
    let is_copy = kind == Some(Type::Postgres);
    let start = start(&mut section, if is_copy { Start::Beginning } else { Start::Now });
    let usual: &[Kind] = match (kind, start) {
        (Some(Type::Postgres), _) => &Kind::ALL,
        // Another lead at each edit of a record is not wanted.
        (Some(Type::Intake), _) => &NEWS[..1],
        // Who asks for the beginning wants all there is.
        (_, Start::Beginning) => &FROM_THE_BEGINNING,
        _ => &NEWS,
    };
    let mut filter = filter(&mut section, usual);
    let in_order = section.word("in_order", &IN_ORDER).unwrap_or(InOrder::Record);
    let hold_above = section.integer("hold_above", &(1..=MOST_AT_ONCE)).map(|found| found.value);
    let retry = section.durations("retry", &WAIT);
    if let Some(Found { value, place }) = &retry
        && value.len() > RETRIES_MAX
    {
        section.findings.note(place, format!("`retry` holds more than {RETRIES_MAX} waits"));
    }
    let retry =
        retry.map_or_else(|| STANDARD_RETRY.map(Duration::from_secs).to_vec(), |found| found.value);
    let source = mirrored.map_or("shopmirror", |it| it.base_url.as_str());
    let kind = match kind {
        Some(Type::Webhook) => webhook::read(&mut section, base, source).map(SinkKind::Webhook),
        Some(Type::File) => file::read(&mut section, base, source).map(SinkKind::File),
        Some(Type::Command) => command::read(&mut section, base, source).map(SinkKind::Command),
        Some(Type::S3) => s3::read(&mut section, base).map(SinkKind::S3),
        Some(Type::Mqtt) => mqtt::read(&mut section, base).map(SinkKind::Mqtt),
        Some(Type::Nats) => nats::read(&mut section, base).map(SinkKind::Nats),
        Some(Type::Postgres) => postgres::read(&mut section, base).map(SinkKind::Postgres),
        Some(Type::Email) => email::read(&mut section, base).map(SinkKind::Email),
        Some(Type::Intake) => {
            intake::read(&mut section, base, &filter, mirrored).map(SinkKind::Intake)
        }
        // The other keys are checked when the type is known.
        None => return None,
    };
    if let Some(SinkKind::Mqtt(broker)) = &kind
        && broker.state_topic.is_some()
        && !filter.changes.contains(&Kind::Forgotten)
    {
        // Otherwise the broker would keep the state of a forgotten record for ever.
        filter.changes.push(Kind::Forgotten);
    }
    section.finish();
    Some(SinkSettings { filter, start, in_order, hold_above, retry: Arc::from(retry), kind: kind? })
}

fn filter(section: &mut Section<'_>, usual_changes: &[Kind]) -> SinkFilter {
    let all = "remove the key to forward all";
    let routes = section.words("routes", &Route::ALL, all);
    let usual = "remove the key to forward created and updated";
    let changes = section.words("changes", &Kind::ALL, usual);
    SinkFilter {
        routes: routes.unwrap_or_else(|| Route::ALL.to_vec()),
        changes: changes.unwrap_or_else(|| usual_changes.to_vec()),
        businesses: businesses(section),
        conditions: conditions::read(section),
    }
}

fn businesses(section: &mut Section<'_>) -> Vec<String> {
    let Some(list) = section.list("businesses") else { return Vec::new() };
    let mut businesses = Vec::new();
    for Found { value, place } in &list.value {
        match value {
            DeValue::String(text) => businesses.push(text.to_string()),
            DeValue::Integer(number) => businesses.push(number.to_string()),
            other => {
                let wanted = "a list of the ids of businesses";
                section.wrong_type("businesses", wanted, other, place, Quote::Shown);
            }
        }
    }
    businesses
}

fn start(section: &mut Section<'_>, usual: Start) -> Start {
    let Some(Found { value, place }) = section.value("start") else { return usual };
    let text = match value {
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Datetime(time) => time.to_string(),
        other => {
            let wanted = "\"now\", \"beginning\" or a time";
            section.wrong_type("start", wanted, other, &place, Quote::Shown);
            return Start::Now;
        }
    };
    match text.as_str() {
        "now" => Start::Now,
        "beginning" => Start::Beginning,
        _ => match text.parse() {
            Ok(time) => Start::At(time),
            Err(_) => {
                let hint = match choice(&text, &["now", "beginning"]) {
                    hint if hint.starts_with("did") => hint,
                    _ => "use \"now\", \"beginning\" or a time with its offset, \
                         for example \"2026-03-01T08:00:00Z\""
                        .to_owned(),
                };
                let message = format!("`start` cannot be {}; {hint}", repeated(&text));
                section.findings.note(&place, message);
                Start::Now
            }
        },
    }
}
