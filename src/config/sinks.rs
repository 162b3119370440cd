//! Reads `[sinks.NAME]`: the keys that all sinks have, then those of each type.
//!
//! Invariant: no two sinks write the same file, and no sink writes to the store.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::de::DeValue;

use super::conditions;
use super::findings::choice;
use super::mqtt;
use super::nats;
use super::postgres;
use super::problem::{Quote, repeated, shown};
use super::s3;
use super::section::{Found, Section, unfit};
use super::webhook::{self, TIMEOUT};
use super::{
    Base, CommandSettings, FileSettings, InOrder, SinkFilter, SinkKind, SinkSettings, Start,
};
use crate::record::{Kind, Route};

const SINKS_MAX: usize = 64;
const NAME_LEN_MAX: usize = 64;
const RETRIES_MAX: usize = 32;
const WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(30 * 86_400);
const TYPES: [(&str, Type); 7] = [
    ("webhook", Type::Webhook),
    ("file", Type::File),
    ("command", Type::Command),
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
    Postgres,
    Nats,
    Mqtt,
    S3,
}

/// Every sink of the file without a problem.
/// `workspace` is what CloudEvents name as their source.
pub(super) fn read(
    section: Section<'_>,
    base: &Base,
    store: &Path,
    workspace: &str,
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
        let Some(sink) = sink(own, base, workspace) else { continue };
        if let SinkKind::File(FileSettings { path }) = &sink.kind {
            let same =
                |other: &SinkSettings| matches!(&other.kind, SinkKind::File(f) if f.path == *path);
            if path == store {
                findings.note(
                    &name.place,
                    "this sink would write to the database of [store]: choose another path",
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
fn sink(mut section: Section<'_>, base: &Base, workspace: &str) -> Option<SinkSettings> {
    if !section.holds("type") {
        section.missing("type", "one of webhook, file, command, postgres, nats, mqtt, s3");
    }
    let kind = section.word("type", &TYPES);
    // A copy of everything is what a database is for.
    let is_copy = kind == Some(Type::Postgres);
    let start = start(&mut section, if is_copy { Start::Beginning } else { Start::Now });
    // Who asks for the beginning wants all there is.
    let usual: &[Kind] = match (is_copy, start) {
        (true, _) => &Kind::ALL,
        (false, Start::Beginning) => &FROM_THE_BEGINNING,
        (false, _) => &NEWS,
    };
    let filter = filter(&mut section, usual);
    let in_order = section.word("in_order", &IN_ORDER).unwrap_or(InOrder::Record);
    let retry = section.durations("retry", &WAIT);
    if let Some(Found { value, place }) = &retry
        && value.len() > RETRIES_MAX
    {
        section.findings.note(place, format!("`retry` holds more than {RETRIES_MAX} waits"));
    }
    let retry =
        retry.map_or_else(|| STANDARD_RETRY.map(Duration::from_secs).to_vec(), |found| found.value);
    let kind = match kind {
        Some(Type::Webhook) => webhook::read(&mut section, base, workspace).map(SinkKind::Webhook),
        Some(Type::File) => file(&mut section, base).map(SinkKind::File),
        Some(Type::Command) => command(&mut section).map(SinkKind::Command),
        Some(Type::S3) => s3::read(&mut section, base).map(SinkKind::S3),
        Some(Type::Mqtt) => mqtt::read(&mut section, base).map(SinkKind::Mqtt),
        Some(Type::Nats) => nats::read(&mut section, base).map(SinkKind::Nats),
        Some(Type::Postgres) => postgres::read(&mut section, base).map(SinkKind::Postgres),
        // The other keys are checked when the type is known.
        None => return None,
    };
    section.finish();
    Some(SinkSettings { filter, start, in_order, retry: Arc::from(retry), kind: kind? })
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

fn file(section: &mut Section<'_>, base: &Base) -> Option<FileSettings> {
    if !section.holds("path") {
        section.missing("path", "the NDJSON file to append to");
    }
    let Found { value, place } = section.text("path")?;
    if value.ends_with('/') {
        section.findings.note(&place, "`path` must be the path of a file, not of a folder");
    }
    Some(FileSettings { path: base.state_path(value) })
}

fn command(section: &mut Section<'_>) -> Option<CommandSettings> {
    if !section.holds("command") {
        let advice = "the program and its arguments, for example [\"/usr/local/bin/print-label\", \"--now\"]";
        section.missing("command", advice);
    }
    let timeout = section.duration("timeout", &TIMEOUT);
    let timeout = timeout.map_or(Duration::from_secs(30), |found| found.value);
    let list = section.list("command")?;
    let mut argv = Vec::new();
    for Found { value, place } in &list.value {
        match value {
            DeValue::String(word) if word.contains('\0') => {
                section.findings.note(place, "an argument cannot hold a NUL character");
            }
            DeValue::String(word) => argv.push(word.clone().into_owned()),
            other => {
                let wanted = "a list of strings in quotes";
                section.wrong_type("command", wanted, other, place, Quote::Shown);
            }
        }
    }
    let Some(program) = list.value.first() else {
        section.findings.note(&list.place, "`command` is empty: name a program");
        return None;
    };
    if let DeValue::String(name) = program.value {
        if !Path::new(name.as_ref()).is_absolute() {
            let message = format!(
                "the program must be an absolute path, for example \"/usr/local/bin/print-label\", not {}; no shell and no PATH is used",
                repeated(name)
            );
            section.findings.note(&program.place, message);
        } else if let Some(why) = unfit(name) {
            section.findings.note(&program.place, format!("the program's path {why}"));
        }
    }
    Some(CommandSettings { argv, timeout })
}
