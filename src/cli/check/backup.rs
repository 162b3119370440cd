//! `check` of the daily backup: its folder can be made, and takes files.

use super::CheckReport;
use super::unit::Unit;
use super::writable::unwritable;
use crate::cli::exit;
use crate::config::Config;

pub(super) fn check(config: &Config, unit: Option<&Unit>, report: &mut CheckReport) {
    let folder = &config.backup.path;
    if config.backup.keep == 0 {
        return;
    }
    let problem = if folder.exists() && !folder.is_dir() {
        Some(format!("{} is a file: name a folder", folder.display()))
    } else {
        // The daemon makes a folder that is not there in the nearest one that is, or in that of the database.
        let made_in = folder
            .ancestors()
            .find(|above| above.exists() || config.store.path.parent() == Some(above))
            .unwrap_or(folder);
        unwritable(&made_in.join("backup.db"), &config.store.path, unit)
    };
    if let Some(problem) = problem {
        report.wrong(exit::CONFIG, "backup", format!("{problem}; see [backup] path"));
    }
}
