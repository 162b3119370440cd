//! The shop's own reports: the files `*.sql` of a folder. A file of the name of a built-in report
//! takes its place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::builtin::built_in;
use super::error::ReportError;
use super::head::Report;
use crate::files::read;

/// The longest text of a report, in bytes.
const TEXT_MAX: u64 = 256 * 1024;

/// The built-in reports and those of the folder; a file that cannot be used is an error of its own.
#[must_use]
pub fn list(folder: Option<&Path>) -> (Vec<Report>, Vec<ReportError>) {
    let mut reports = built_in();
    let mut errors = Vec::new();
    let mut files = files(folder).unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    files.sort();
    for (name, path) in files {
        match read(&name, &path) {
            Ok(report) => match reports.iter_mut().find(|known| known.name == report.name) {
                Some(known) => *known = report,
                None => reports.push(report),
            },
            Err(error) => errors.push(error),
        }
    }
    (reports, errors)
}

/// The report of a name.
///
/// # Errors
/// If there is none, or its file cannot be used.
pub fn find(name: &str, folder: Option<&Path>) -> Result<Report, ReportError> {
    if let Some((_, path)) = files(folder)?.iter().find(|(known, _)| known == name) {
        return read(name, path);
    }
    let report = built_in().into_iter().find(|report| report.name == name);
    report.ok_or_else(|| {
        let why = format!("there is no report {name:?}; `shopmirror report` lists the reports");
        ReportError::Refused(why)
    })
}

/// The names and paths of the files of a folder.
fn files(folder: Option<&Path>) -> Result<Vec<(String, PathBuf)>, ReportError> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let paths = entries
        .map_err(|why| unreadable(folder, &why))?
        .into_iter()
        .map(|e| e.path());
    let sql = paths.filter(|path| path.extension().is_some_and(|end| end == "sql"));
    Ok(sql
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .collect())
}

fn read(name: &str, path: &Path) -> Result<Report, ReportError> {
    let text = read::text(path, TEXT_MAX).map_err(|error| unreadable(path, &error))?;
    let mut report = Report::parse(name, &text)
        .map_err(|why| ReportError::Unanswered(format!("{}: {why}", path.display())))?;
    report.is_own = true;
    Ok(report)
}

fn unreadable(path: &Path, why: &io::Error) -> ReportError {
    ReportError::Unanswered(format!(
        "could not read {}: {why}; check [reports] folder and its permissions",
        path.display()
    ))
}
