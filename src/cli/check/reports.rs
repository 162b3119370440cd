//! `check` of the reports: each file of the folder can be used, and each scheduled report names a report
//! that exists, with parameters that it has, and a file that can be written.

use std::path::Path;

use jiff::Timestamp;

use rustix::fs::Access;

use super::CheckReport;
use super::unit::Unit;
use crate::cli::{exit, moment};
use crate::clock::stamp;
use crate::config::{Config, ReportFormat, ReportTarget, ScheduledReport};
use crate::report::{self, Timetable};
use crate::sink;

/// Tests each scheduled report; with `are_files_tested` the files and folders too.
pub(super) fn check(
    path: &Path,
    config: &Config,
    are_files_tested: bool,
    report: &mut CheckReport,
) {
    if are_files_tested {
        for error in report::list(config.reports.folder.as_deref()).1 {
            report.wrong(exit::CONFIG, "reports", error.to_string());
        }
    }
    let unit = Unit::of_config(path);
    let now = Timestamp::now();
    for (name, settings) in &config.reports.schedule {
        let what = format!("report {name}");
        let problem = problem(config, settings).or_else(|| {
            let ReportTarget::File(file) = &settings.to else { return None };
            are_files_tested.then(|| unwritable(file, &config.store.path, unit.as_ref())).flatten()
        });
        match problem {
            Some(problem) => report.wrong(exit::CONFIG, what, problem),
            None => {
                let zone = &config.workspace.time_zone;
                let table = Timetable { at: settings.at, days: &settings.days, zone };
                let next = moment::shown(&stamp(table.next(now)));
                report.ok(what, format!("{}, next at {next}", settings.report));
            }
        }
    }
}

fn problem(config: &Config, settings: &ScheduledReport) -> Option<String> {
    let found = match report::find(&settings.report, config.reports.folder.as_deref()) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    if settings.format == ReportFormat::Svg && found.chart.is_none() {
        return Some(format!(
            "the report {} declares no chart: set format to \"html\" or \"csv\"",
            found.name
        ));
    }
    report::refused_parameter(&found, &settings.parameters).map(|error| error.to_string())
}

/// Why a file cannot be written, and what to do about it. Nothing is created or changed.
pub(super) fn unwritable(file: &Path, store: &Path, unit: Option<&Unit>) -> Option<String> {
    if file.is_dir() {
        return Some(format!("{} is a folder: name a file in `path`", file.display()));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    if unit.is_some_and(|unit| !unit.may_write(folder)) {
        return Some(format!(
            "the service may not write to {}: copy systemd/drop-ins/file-sink.conf and name the folder in ReadWritePaths=",
            shown.display()
        ));
    }
    // The unit, or the first start, creates this folder for the database.
    if !folder.exists() && store.parent() == Some(folder) {
        return None;
    }
    // With the dot, a file in the place of the folder is told from a folder that is closed.
    let error: std::io::Error =
        rustix::fs::access(folder.join("."), Access::WRITE_OK | Access::EXEC_OK).err()?.into();
    let advice = sink::file_advice(&error);
    Some(format!("could not write to {}: {error}{advice}", shown.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_writable_only_in_a_folder_that_exists_and_takes_files() {
        let dir = tempfile::tempdir().unwrap();
        let store = Path::new("/no/such/folder/mirror.db");
        let said = |file: &Path| unwritable(file, store, None);
        assert_eq!(said(&dir.path().join("till.html")), None);
        let absent = said(&dir.path().join("absent/till.html")).unwrap();
        assert!(absent.ends_with("; create the folder"), "{absent}");
        let folder = said(dir.path()).unwrap();
        assert!(folder.contains("is a folder: name a file"), "{folder}");
        std::fs::write(dir.path().join("file"), "").unwrap();
        let below = said(&dir.path().join("file/till.html")).unwrap();
        assert!(below.ends_with("; name another path"), "{below}");
        // The first start creates the folder of the database.
        assert_eq!(said(Path::new("/no/such/folder/till.html")), None);
    }
}
