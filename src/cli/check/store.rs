//! `check` of the store and of its daily backup: the folders may be written, and the file is a readable store.

use std::path::Path;

use super::CheckReport;
use super::unit::Unit;
use super::writable::{full_disk, unwritable};
use crate::cli::{exit, output};
use crate::config::Config;
use crate::record::Route;
use crate::store::{MISSING_TABLE, Reader, StoreError, missing_link};

pub(super) fn check(config: &Config, report: &mut CheckReport) {
    let path = &config.store.path;
    // The nearest path that exists decides whether the rest can be created.
    let existing = path
        .ancestors()
        .map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p })
        .find(|p| p.exists())
        .unwrap_or(Path::new("/"));
    let folder = if existing == path { path.parent().unwrap_or(path) } else { existing };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let closed = |p: &&Path| rustix::fs::access(*p, rustix::fs::Access::WRITE_OK).is_err();
    if let Some(closed) = [existing, folder].iter().find(|p| closed(p)) {
        let text = format!(
            "this user may not write to {}: run check as the user of the service, change the owner, or change [store] path",
            std::path::absolute(closed).unwrap_or_else(|_| closed.to_path_buf()).display()
        );
        return report.wrong(exit::CONFIG, "store", text);
    }
    if let Some(problem) = full_disk(folder) {
        return report.wrong(exit::CONFIG, "store", problem);
    }
    if existing != path {
        let text = format!("{} will be created by the first start", path.display());
        return report.ok("store", text);
    }
    let found = Reader::open(path).map_err(anyhow::Error::new).and_then(|reader| {
        let links = (reader.job_links()?, reader.unlinked_routes()?);
        Ok((reader.counts()?, links))
    });
    match found {
        Ok((counts, (links, unlinked))) => {
            let records: i64 = counts.iter().map(|(_, count)| count).sum();
            let records = output::count(records, "record", "records");
            report.ok("store", format!("{}: {records}", path.display()));
            for route in Route::ALL {
                if !counts.iter().any(|(counted, _)| *counted == route) {
                    report.wrong(exit::DATA, "store", format!("{route}: {MISSING_TABLE}"));
                }
            }
            for link in links {
                report.ok("links", link.to_string());
            }
            for route in unlinked {
                match &config.reports.job_link {
                    Some(field) => report.wrong(
                        exit::CONFIG,
                        "links",
                        format!("{route}: `{field}`, which [reports] job_link names, holds no number or id of a mirrored job"),
                    ),
                    None => report.ok("links", missing_link(route)),
                }
            }
        }
        Err(error) => match error.downcast_ref() {
            Some(StoreError::Older { found, .. }) => {
                let path = path.display();
                let text =
                    format!("{path}: the next start brings it up to date from schema {found}");
                report.ok("store", text);
            }
            _ => report.wrong(exit::code_of(&error), "store", format!("{error:#}")),
        },
    }
}

/// The folder of the daily backup can be made, and takes files.
pub(super) fn check_backup(config: &Config, unit: Option<&Unit>, report: &mut CheckReport) {
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
