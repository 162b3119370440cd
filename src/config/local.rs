//! The keys of the sinks on this machine: `file` and `command`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::shape;
use super::table::Table;
use super::value::{number, seconds, timeout, within};
use crate::shape::{CloudEvents, Columns, Format};

/// `type = "file"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The file that is appended to.
    pub path: PathBuf,
    /// The form of a line.
    pub format: FileFormat,
}

/// The form of a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON object.
    Lines(Format),
    /// One row of a table with a header.
    Csv(Columns),
}

#[derive(Deserialize)]
struct FileKeys {
    path: PathBuf,
    #[serde(default)]
    format: FormatName,
    #[serde(default)]
    columns: Vec<String>,
}

/// The value of `format`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormatName {
    #[default]
    Standard,
    CloudEvents,
    Csv,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn file(table: &Table<'_>, source: &str) -> Option<FileSettings> {
    let FileKeys {
        path,
        format,
        columns,
    } = table.read(&["path"])?;
    let format = match format {
        FormatName::Standard => FileFormat::Lines(Format::Standard),
        FormatName::CloudEvents => FileFormat::Lines(Format::CloudEvents(CloudEvents {
            source: source.to_owned(),
        })),
        FormatName::Csv => FileFormat::Csv(Columns::new(columns)),
    };
    if table.has("columns") && matches!(format, FileFormat::Lines(_)) {
        table.note(
            "columns",
            "is only for format = \"csv\": add that, or remove this",
        );
    }
    let path = table.file.base.state_path(path);
    table.claim(&path);
    Some(FileSettings { path, format })
}

/// `type = "command"`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommandSettings {
    /// The program as an absolute path, and its arguments. No shell is used.
    #[serde(rename = "command")]
    pub argv: Vec<String>,
    /// The shape of each change.
    #[serde(skip)]
    pub format: Format,
    /// The most changes that one run gets; 1: one run for each change.
    #[serde(
        default = "number::<1, _>",
        deserialize_with = "within::<1, 10_000, _, _>"
    )]
    pub batch: usize,
    /// The time after which the process group is killed.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// The sink; `None` only if a problem was noted. `source` is the source of CloudEvents.
pub(super) fn command(table: &Table<'_>, source: &str) -> Option<CommandSettings> {
    let format = shape::read(table, source);
    let read: CommandSettings = table.read(&["command"])?;
    let has_program = match read.argv.first() {
        Some(program) => Path::new(program).is_absolute(),
        None => false,
    };
    if !has_program {
        table.note(
            "command",
            "must begin with the absolute path of a program, for example \
             \"/usr/local/bin/print-label\"; no shell and no PATH is used",
        );
    }
    let format = format?;
    if read.batch > 1 && matches!(format, Format::Template { .. }) {
        table.note(
            "batch",
            "must be 1 with format = \"template\": a template writes one change",
        );
    }
    Some(CommandSettings { format, ..read })
}
