//! Reads `[reports]`: where the shop's own reports are.

use super::section::Section;
use super::{Base, ReportsSettings};

/// The section.
pub(super) fn read(mut section: Section<'_>, base: &Base) -> ReportsSettings {
    let folder = section.text("folder").map(|found| base.dir.join(found.value));
    section.finish();
    ReportsSettings { folder }
}
