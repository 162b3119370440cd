//! The keys of a sink of type `command`: the program, what it gets, and how much at once.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::shape;
use super::table::Table;
use super::value::{number, seconds, timeout, within};
use crate::shape::Format;

/// `type = "command"`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommandSettings {
    /// The program as an absolute path, and its arguments. No shell is used.
    #[serde(rename = "command")]
    pub argv: Vec<String>,
    /// What it gets for each change.
    #[serde(skip)]
    pub format: Format,
    /// The most changes that one run gets; 1: one run for each change.
    #[serde(default = "number::<1, _>", deserialize_with = "within::<1, 10_000, _, _>")]
    pub batch: usize,
    /// The time after which the process group is killed.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
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
pub(super) fn read(table: &Table<'_>, source: &str) -> Option<CommandSettings> {
    let format = shape::read(table, source);
    let advice =
        "the program and its arguments, for example [\"/usr/local/bin/print-label\", \"--now\"]";
    let read: CommandSettings = table.read(&[("command", advice)])?;
    let program = read.argv.first().map_or("", String::as_str);
    if !Path::new(program).is_absolute() {
        table.note("command", "must begin with the absolute path of a program, for example \"/usr/local/bin/print-label\"; no shell and no PATH is used");
    }
    let format = format?;
    if read.batch > 1 && matches!(format, Format::Template { .. }) {
        table.note("batch", "must be 1 with format = \"template\": a template writes one change");
    }
    Some(CommandSettings { format, ..read })
}
