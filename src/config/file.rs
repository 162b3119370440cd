//! The keys of a sink of type `file`: where, what a line looks like, when a file is put aside.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use super::table::Table;
use super::value::parsed;
use crate::config::polling::yes;
use crate::shape::{CloudEvents, Columns, Format};

const SIZE_MIN: u64 = 64 * 1024;
const SIZE_MAX: u64 = 1 << 40;
/// The units of a size, each with its bytes. One that ends in another stands before it.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// `type = "file"`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileSettings {
    /// The file that is appended to.
    pub path: PathBuf,
    /// What a line looks like.
    #[serde(skip)]
    pub format: FileFormat,
    /// A file that would grow beyond this many bytes is put aside.
    #[serde(default, deserialize_with = "size")]
    pub rotate_size: Option<u64>,
    /// A file of an earlier day is put aside.
    #[serde(default)]
    pub rotate_daily: bool,
    /// Whether files that were put aside are compressed.
    #[serde(default = "yes")]
    pub compress: bool,
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
    if read.path.to_string_lossy().ends_with('/') {
        table.note("path", "must be the path of a file, not of a folder");
    }
    let path = table.report.base.state_path(&read.path);
    Some(FileSettings { path, format: format?, ..read })
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

/// A size with its unit, for example `100MB`.
fn size<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    parsed(d, |text| {
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
        let size =
            unit.and_then(|(number, bytes)| number.trim().parse::<u64>().ok()?.checked_mul(*bytes));
        match size.filter(|size| (SIZE_MIN..=SIZE_MAX).contains(size)) {
            None => Err("must be a size of at least 64KiB with its unit (kB, MB, GB, KiB, MiB, GiB), for example \"500kB\" or \"100MB\"".into()),
            size => Ok(size),
        }
    })
}
