//! `[backup]`: when the daemon copies its store, where to, and how many copies it keeps.

use std::path::{Path, PathBuf};

use jiff::civil::Time;

use super::Base;
use super::section::{Found, Section};

/// A year of daily backups.
const KEEP_MAX: u32 = 366;

/// `[backup]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSettings {
    /// How many daily backups are kept; 0 makes none.
    pub keep: usize,
    /// When the daily backup is made, by the machine's time zone.
    pub at: Time,
    /// The folder they are written to.
    pub path: PathBuf,
}

/// Reads the section; `store` is where the store is.
pub(super) fn read(mut section: Section<'_>, base: &Base, store: &Path) -> BackupSettings {
    let keep = section.integer("keep", &(0..=KEEP_MAX)).map_or(7, |found| found.value);
    let at = time_of_day(&mut section);
    let path = section.text("path").map(|found| base.state_path(found.value));
    section.finish();
    BackupSettings {
        keep: keep as usize,
        at: at.unwrap_or(Time::constant(3, 30, 0, 0)),
        path: path.unwrap_or_else(|| store.with_file_name("backups")),
    }
}

/// The key `at`: a time of day.
pub(super) fn time_of_day(section: &mut Section<'_>) -> Option<Time> {
    let Found { value, place } = section.text("at")?;
    let at = Time::strptime("%H:%M", value).ok();
    if at.is_none() {
        let message = "`at` must be a time of day from \"00:00\" to \"23:59\"";
        section.findings.note(&place, message);
    }
    at
}
