//! The shop's own reports: the files `*.sql` of a folder. A file of the name of a built-in report
//! takes its place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::builtin::built_in;
use super::head::{HeadError, Report};
use crate::small_file;

/// The longest text of a report, in bytes.
const TEXT_MAX: u64 = 256 * 1024;
/// The most files of a folder that are read.
const FILES_MAX: usize = 500;

/// Why a report of the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder or a file cannot be read.
    #[error("could not read {}: {why}; check [reports] folder and its permissions", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The comment at the start of a file has a problem.
    #[error("{}: {why}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: HeadError,
    },
    /// There is no report of this name.
    #[error("there is no report {0:?}; `shopmirror report` lists the reports")]
    Unknown(String),
}

/// The built-in reports and those of the folder; a file that cannot be used is an error of its own.
#[must_use]
pub fn list(folder: Option<&Path>) -> (Vec<Report>, Vec<FolderError>) {
    let mut reports = built_in();
    let mut errors = Vec::new();
    let Some(folder) = folder else { return (reports, errors) };
    let mut files = match files(folder) {
        Ok(files) => files,
        Err(why) => {
            errors.push(FolderError::Read { path: folder.to_owned(), why });
            return (reports, errors);
        }
    };
    files.sort();
    for (name, path) in files.into_iter().take(FILES_MAX) {
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
pub fn find(name: &str, folder: Option<&Path>) -> Result<Report, FolderError> {
    if let Some(folder) = folder {
        let files =
            files(folder).map_err(|why| FolderError::Read { path: folder.to_owned(), why })?;
        if let Some((_, path)) = files.iter().find(|(known, _)| known == name) {
            return read(name, path);
        }
    }
    let report = built_in().into_iter().find(|report| report.name == name);
    report.ok_or_else(|| FolderError::Unknown(name.to_owned()))
}

fn files(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "sql")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
        {
            found.push((name.to_owned(), path));
        }
    }
    Ok(found)
}

fn read(name: &str, path: &Path) -> Result<Report, FolderError> {
    let text = small_file::text(path, TEXT_MAX)
        .map_err(|error| FolderError::Read { path: path.to_owned(), why: error.into() })?;
    let mut report = Report::parse(name, &text)
        .map_err(|why| FolderError::Head { path: path.to_owned(), why })?;
    report.is_own = true;
    Ok(report)
}
