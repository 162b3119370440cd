//! Reads the keys of a sink of type `command`: the program, what it gets, and how much at once.

use std::path::Path;
use std::time::Duration;

use toml::de::DeValue;

use super::problem::{Quote, repeated};
use super::section::{Found, Section, unfit};
use super::webhook::TIMEOUT;
use super::{Base, shape};
use crate::shape::Format;

const BATCH_MAX: u32 = 10_000;

/// `type = "command"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// The program as an absolute path, and its arguments. No shell is used.
    pub argv: Vec<String>,
    /// What it gets for each change.
    pub format: Format,
    /// The most changes that one run gets; 1: one run for each change.
    pub batch: usize,
    /// The time after which the process group is killed.
    pub timeout: Duration,
}

impl CommandSettings {
    /// A program that is run once for each change, with the change as JSON.
    #[must_use]
    pub fn new(argv: Vec<String>, timeout: Duration) -> Self {
        Self { argv, format: Format::Standard, batch: 1, timeout }
    }
}

/// The sink; `None` only if a problem was noted. `source` is what CloudEvents name as their source.
pub(super) fn read(
    section: &mut Section<'_>,
    base: &Base,
    source: &str,
) -> Option<CommandSettings> {
    if !section.holds("command") {
        let advice = "the program and its arguments, for example [\"/usr/local/bin/print-label\", \"--now\"]";
        section.missing("command", advice);
    }
    let timeout = section.duration("timeout", &TIMEOUT);
    let timeout = timeout.map_or(Duration::from_secs(30), |found| found.value);
    let batch = section.integer("batch", &(1..=BATCH_MAX)).map_or(1, |found| found.value as usize);
    let format = shape::of_lines(section, base, source, batch == 1);
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
    Some(CommandSettings { argv, format: format?, batch, timeout })
}
