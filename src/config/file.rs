//! The keys of a sink of type `file`: where, and what a line looks like.

use std::path::PathBuf;

use serde::Deserialize;

use super::table::Table;
use crate::shape::{CloudEvents, Columns, Format};

/// `type = "file"`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileSettings {
    /// The file that is appended to.
    pub path: PathBuf,
    /// What a line looks like.
    #[serde(skip)]
    pub format: FileFormat,
}

/// What a line of a file looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON object.
    Lines(Format),
    /// One row of a table with a header.
    Csv(Columns),
}

impl Default for FileFormat {
    fn default() -> Self {
        Self::Lines(Format::Standard)
    }
}

#[derive(Deserialize)]
struct FormatKeys {
    #[serde(default)]
    format: Word,
    #[serde(default)]
    columns: Vec<String>,
}

/// The word of `format`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    #[default]
    Standard,
    CloudEvents,
    Csv,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>, source: &str) -> Option<FileSettings> {
    let format = format(table, source);
    let read: FileSettings = table.read(&[("path", "the file to append to")])?;
    let path = table.report.base.state_path(&read.path);
    if path.to_string_lossy().ends_with('/') {
        table.note("path", "must be the path of a file, not of a folder");
    }
    Some(FileSettings { path, format: format? })
}

fn format(table: &Table<'_>, source: &str) -> Option<FileFormat> {
    let FormatKeys { format, columns } = table.read(&[])?;
    if columns.iter().any(|name| Columns::is_own(name)) {
        table.note("columns", "holds a column that is in every file, such as event_id: remove it");
    }
    let format = match format {
        Word::Csv => return Some(FileFormat::Csv(Columns::new(columns))),
        Word::Standard => Format::Standard,
        Word::CloudEvents => Format::CloudEvents(CloudEvents { source: source.to_owned() }),
    };
    if table.has("columns") {
        table.note("columns", "is only for format = \"csv\": add that, or remove this");
    }
    Some(FileFormat::Lines(format))
}
