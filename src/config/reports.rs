//! Reads `[reports]`: where the shop's own reports are.

use std::path::PathBuf;

use super::Base;
use super::section::Section;

/// `[reports]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportsSettings {
    /// The folder of the shop's own reports, `*.sql`.
    pub folder: Option<PathBuf>,
}

/// The section.
pub(super) fn read(mut section: Section<'_>, base: &Base) -> ReportsSettings {
    let folder = section.text("folder").map(|found| base.dir.join(found.value));
    section.finish();
    ReportsSettings { folder }
}
