//! Reads `[alerts]`: which sinks are told when something is wrong.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::findings::choice;
use super::problem::{Quote, repeated};
use super::section::{Found, Section};
use super::{SinkKind, SinkSettings};

/// `[alerts]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlertsSettings {
    /// The sinks that are told; empty if none is.
    pub sinks: Vec<String>,
}

/// The section. `named` are the names of all sinks of the file, `sinks` those without a problem.
pub(super) fn read(
    mut section: Section<'_>,
    named: &[String],
    sinks: &BTreeMap<String, SinkSettings>,
) -> AlertsSettings {
    let mut told: Vec<String> = Vec::new();
    for Found { value, place } in names(&mut section) {
        let message = match sinks.get(&value).map(|sink| &sink.kind) {
            None if !named.contains(&value) => Some(match named {
                [] => format!("there is no sink {}: add [sinks.NAME]", repeated(&value)),
                named => {
                    let named: Vec<&str> = named.iter().map(String::as_str).collect();
                    format!("there is no sink {}; {}", repeated(&value), choice(&value, &named))
                }
            }),
            Some(kind @ (SinkKind::Postgres(_) | SinkKind::Intake(_))) => Some(format!(
                "a sink of type {} takes records only and cannot be told of alerts: name one of type webhook, email, command, file, nats, mqtt or s3",
                kind.type_name()
            )),
            _ if told.contains(&value) => {
                Some("`sink` names this sink twice: remove one of them".to_owned())
            }
            _ => None,
        };
        match message {
            Some(message) => section.findings.note(&place, message),
            None => told.push(value),
        }
    }
    section.finish();
    AlertsSettings { sinks: told }
}

/// One name, or a list of names.
fn names(section: &mut Section<'_>) -> Vec<Found<String>> {
    let Some(found) = section.value("sink") else { return Vec::new() };
    match found.value {
        DeValue::Array(_) => {
            let list = section.texts("sink").map(|list| list.value).unwrap_or_default();
            list.into_iter()
                .map(|it| Found { value: it.value.to_owned(), place: it.place })
                .collect()
        }
        DeValue::String(_) => {
            let text = section.text("sink");
            text.into_iter()
                .map(|it| Found { value: it.value.to_owned(), place: it.place })
                .collect()
        }
        other => {
            let wanted = "the name of a sink, or a list of names";
            section.wrong_type("sink", wanted, other, &found.place, Quote::Shown);
            Vec::new()
        }
    }
}
