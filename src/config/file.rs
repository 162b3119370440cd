//! Reads the keys of a sink of type `file`: where, what a line looks like, when a file is put aside.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::section::{Found, Section};
use super::{Base, shape};
use crate::shape::{CloudEvents, Columns, Format, Mode};

const COLUMNS_MAX: usize = 100;
const SIZE_MIN: u64 = 64 * 1024;
const SIZE_MAX: u64 = 1 << 40;
/// The units of a size, each with its bytes.
const UNITS: [(&str, u64); 4] = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];

/// `type = "file"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The file that is appended to.
    pub path: PathBuf,
    /// What a line looks like.
    pub format: FileFormat,
    /// A file that would grow beyond this many bytes is put aside.
    pub rotate_size: Option<u64>,
    /// A file of an earlier day is put aside.
    pub rotate_daily: bool,
    /// Whether files that were put aside are compressed.
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

#[derive(Clone, Copy)]
enum Word {
    Standard,
    CloudEvents,
    Csv,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(
    section: &mut Section<'_>,
    base: &Base,
    workspace: &str,
) -> Option<FileSettings> {
    if !section.holds("path") {
        section.missing("path", "the file to append to");
    }
    let path = section.text("path");
    let format = format(section, workspace);
    let rotate_size = rotate_size(section);
    let rotate_daily = section.boolean("rotate_daily").unwrap_or(false);
    let compress = section.boolean("compress").unwrap_or(true);
    let Found { value, place } = path?;
    if value.ends_with('/') {
        section.findings.note(&place, "`path` must be the path of a file, not of a folder");
    }
    Some(FileSettings {
        path: base.state_path(value),
        format: format?,
        rotate_size,
        rotate_daily,
        compress,
    })
}

fn format(section: &mut Section<'_>, workspace: &str) -> Option<FileFormat> {
    let words =
        [("standard", Word::Standard), ("cloudevents", Word::CloudEvents), ("csv", Word::Csv)];
    let held = section.holds("format");
    match section.word("format", &words) {
        None if held => None,
        None | Some(Word::Standard) => Some(FileFormat::Lines(Format::Standard)),
        Some(Word::CloudEvents) => {
            let source = shape::source(section, workspace);
            let events = CloudEvents { mode: Mode::Structured, source };
            Some(FileFormat::Lines(Format::CloudEvents(events)))
        }
        Some(Word::Csv) => Some(FileFormat::Csv(columns(section))),
    }
}

fn columns(section: &mut Section<'_>) -> Columns {
    let Some(list) = section.texts("columns") else { return Columns::new(Vec::new()) };
    let mut names = BTreeSet::new();
    for Found { value, place } in &list.value {
        if Columns::is_own(value) {
            let message = format!("the column {value:?} is in every file: remove it");
            section.findings.note(place, message);
        } else if !names.insert(*value) {
            section.findings.note(place, format!("{value:?} appears twice in `columns`"));
        }
    }
    if list.value.is_empty() || list.value.len() > COLUMNS_MAX {
        let message = format!(
            "`columns` must name 1 to {COLUMNS_MAX} fields of the record; without it, one column holds the whole record"
        );
        section.findings.note(&list.place, message);
    }
    Columns::new(list.value.iter().map(|found| found.value.to_owned()).collect())
}

/// A size with its unit, for example `100MB`.
fn rotate_size(section: &mut Section<'_>) -> Option<u64> {
    let Found { value, place } = section.text("rotate_size")?;
    let read = || {
        let (number, bytes) =
            UNITS.into_iter().find_map(|(unit, bytes)| Some((value.strip_suffix(unit)?, bytes)))?;
        number.trim().parse::<u64>().ok()?.checked_mul(bytes)
    };
    let size = read().filter(|size| (SIZE_MIN..=SIZE_MAX).contains(size));
    if size.is_none() {
        let message = "`rotate_size` must be a size of at least 64 KiB with its unit, for example \"500kB\", \"100MB\" or \"2GB\"";
        section.findings.note(&place, message);
    }
    size
}
