//! `check` of the store and of its daily backup: the folders may be written, and the file is a
//! readable store.

use std::path::Path;

use rustix::fs::Access;

use super::CheckReport;
use super::writable::{closed, unwritable};
use crate::cli::{exit, output};
use crate::config::Config;
use crate::status::SAME_DISK;
#[cfg(feature = "s3")]
use crate::store::OffsiteBackups;
use crate::store::{BackupFolder, Reader, StoreError, StorePlace, missing_link};

pub(super) fn check(file: &Path, config: &Config, report: &mut CheckReport) {
    let path = &config.store.path;
    let shown = path.display();
    let mut problem = unwritable(path, path, report.unit.as_ref());
    if problem.is_none() && path.exists() {
        problem = closed(path, Access::WRITE_OK);
    }
    if let Some(problem) = problem {
        return report.wrong("store", format!("{problem}; see [store] path"));
    }
    let place = StorePlace::new(&config.store, &config.backup);
    if let Err(error) = place.refuse_lost() {
        let mut text = error.to_string();
        if let StoreError::Lost { newest, .. } = &error {
            text += &exit::ways_back(path, newest.as_deref(), Some(file));
        }
        return report.failed(exit::CONFIG, "store", text);
    }
    if !path.exists() {
        return report.ok(
            "store",
            format!("{shown} will be created by the first start"),
        );
    }
    if let Err(error) = check_content(config, report) {
        report.failed(exit::code_of(&error), "store", format!("{error:#}"));
    }
}

/// Counts the records, and names the fields that link records to jobs.
fn check_content(config: &Config, report: &mut CheckReport) -> anyhow::Result<()> {
    let path = &config.store.path;
    let reader = Reader::open(path)?;
    let mut records = 0;
    for (_, number) in reader.counts()? {
        records += number;
    }
    let links = reader.job_links()?;
    let unlinked = reader.unlinked_routes()?;
    let records = output::count(records, "record", "records");
    report.ok("store", format!("{}: {records}", path.display()));
    for link in links {
        report.ok("links", link.to_string());
    }
    for route in unlinked {
        match &config.reports.job_link {
            None => report.ok("links", missing_link(route)),
            Some(field) => {
                let text = format!(
                    "{route}: `{field}`, which [reports] job_link names, holds no number or id of \
                     a mirrored job"
                );
                report.wrong("links", text);
            }
        }
    }
    Ok(())
}

/// The folder of the daily backup can be made, and takes files.
pub(super) fn check_backup(config: &Config, report: &mut CheckReport) {
    let folder = &config.backup.path;
    if config.backup.keep == 0 {
        return;
    }
    let problem = if folder.exists() && !folder.is_dir() {
        Some(format!("{} is a file: name a folder", folder.display()))
    } else {
        // The daemon makes a folder that is not there in the nearest one that is, or in that of the
        // database.
        let made_in = folder
            .ancestors()
            .find(|above| above.exists() || config.store.path.parent() == Some(above))
            .unwrap_or(folder);
        unwritable(
            &made_in.join("backup.db"),
            &config.store.path,
            report.unit.as_ref(),
        )
    };
    if let Some(problem) = problem {
        report.wrong("backup", format!("{problem}; see [backup] path"));
    }
    let backups = BackupFolder::new(folder, &config.store.path);
    if config.backup.offsite.is_none() && backups.is_on_disk_of_store() {
        report.warn("backup", SAME_DISK);
    }
}

/// The bucket of the off-site backup is there, and may be listed; stores nothing.
#[cfg(feature = "s3")]
pub(super) async fn check_offsite(config: &Config, report: &mut CheckReport) {
    let Some(settings) = &config.backup.offsite else {
        return;
    };
    let backups = match OffsiteBackups::open(settings) {
        Ok(backups) => backups,
        Err(error) => return report.wrong("off-site", error.to_string()),
    };
    match backups.list().await {
        Ok(there) => {
            let number = output::count(there.len(), "backup", "backups");
            report.ok("off-site", format!("the bucket is there, with {number}"));
        }
        Err(error) => report.failed(exit::UNAVAILABLE, "off-site", error.to_string()),
    }
}
