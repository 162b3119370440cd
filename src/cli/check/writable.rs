//! Tests whether a file can be written, for a scheduled report or a backup. Nothing is created or
//! changed.

use std::path::Path;

use rustix::fs::Access;

use super::unit::Unit;
use crate::files::owner::folder_of;
use crate::sink;

/// With less room than this, the next pages or changes may fill the disk.
const MIN_FREE: u64 = 16 * 1024 * 1024;

/// The problem that the disk of a folder is full, or nearly so.
fn full_disk(folder: &Path) -> Option<String> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= MIN_FREE {
        return None;
    }
    let free = free / (1024 * 1024);
    let folder = folder.display();
    Some(format!(
        "the disk of {folder} is full, {free} MiB are left: free some space"
    ))
}

/// Why a file cannot be written, and what to do about it. Nothing is created or changed.
pub(super) fn unwritable(file: &Path, store: &Path, unit: Option<&Unit>) -> Option<String> {
    if file.is_dir() {
        return Some(format!(
            "{} is a folder: name a file in `path`",
            file.display()
        ));
    }
    let folder = folder_of(file);
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    if let Some(unit) = unit
        && !unit.may_write(&shown)
    {
        return Some(format!(
            "the service may not write to {}: install the drop-in file-sink.conf \
             (docs/security.md) and name the folder in ReadWritePaths=",
            shown.display()
        ));
    }
    let mut existing = shown.as_path();
    // The first start creates the folder of the database, unless the unit does.
    if folder_of(store) == folder {
        if !shown.exists() && unit.is_some_and(|unit| unit.makes(&shown)) {
            return None;
        }
        existing = shown
            .ancestors()
            .find(|above| above.exists())
            .unwrap_or(&shown);
    }
    if let Some(problem) = full_disk(existing) {
        return Some(problem);
    }
    // The dot distinguishes a file in the place of the folder from a folder that is closed.
    closed(&existing.join("."), Access::WRITE_OK | Access::EXEC_OK)
}

/// Why this user may not use a path in this way, and what to do about it.
pub(super) fn closed(path: &Path, access: Access) -> Option<String> {
    let error: std::io::Error = rustix::fs::access(path, access).err()?.into();
    let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Some(format!(
        "could not write to {}: {error}{}",
        shown.display(),
        sink::file_advice(&error)
    ))
}
