//! Copies a store into one file of its own while it is in use, and checks the copy.
//!
//! The copy is written under a temporary name and gets its own name only after it was checked and
//! synced: a file under that name is always a whole, sound backup.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use crate::files::owner;
use crate::store::error::StoreError;
use crate::store::maintenance::restore;
use crate::store::maintenance::verify::soundness;
use crate::store::reader::STEPS;
use crate::store::sql::Sql;
use crate::store::{log, open};

/// How the temporary name ends.
pub(in crate::store) const PARTIAL: &str = ".partial";
/// How the name of the file ends with which SQLite rolls back.
const JOURNAL: &str = "-journal";
/// Room that must stay free on the disk beside the copy, unless the store itself is smaller.
const ROOM_LEFT: u64 = 64 * 1024 * 1024;

/// What lets a caller follow and stop a copy.
#[derive(Clone)]
pub struct CopyControl {
    /// Cancelled to stop the copy; nothing of it stays.
    pub stop: CancellationToken,
    /// Called repeatedly during the copy, with the bytes copied so far and in all.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
}

/// What a sound copy holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyFacts {
    /// Its size.
    pub bytes: u64,
    /// The last row of its log.
    pub last_seq: i64,
    /// When that row was observed; `None` if the log is empty.
    pub last_change_at: Option<String>,
}

/// Copies the store at `store` to the file `target`, with mode 0640. Works beside a running daemon
/// and without one. Removes what a killed restore left. Blocks.
///
/// # Errors
/// [`StoreError`]. A file that was at `target` before is then as it was.
pub fn back_up(
    store: &Path,
    target: &Path,
    replace: bool,
    control: &CopyControl,
) -> Result<CopyFacts, StoreError> {
    refuse_unfit(target, replace)?;
    restore::log_left(restore::remove_unused_leftovers(store));
    let copy = copy(store, target, control)?;
    // A copy for another folder stays root's: its owner may not be meant to read customers' data.
    if is_below(target, owner::folder_of(store)) {
        owner::give_to_folder(copy.as_file(), copy.path());
    }
    let facts = facts(&copy)?;
    publish(copy, target, replace)?;
    Ok(facts)
}

fn refuse_unfit(target: &Path, replace: bool) -> Result<(), StoreError> {
    // A store: it may be in use, and its write-ahead log would be taken for that of the copy.
    let is_store = ["-wal", "-lock"]
        .iter()
        .any(|suffix| open::with_suffix(target, suffix).exists());
    match fs::symlink_metadata(target) {
        _ if is_store => Err(StoreError::Unfit(target.to_owned())),
        Ok(_) if !replace => Err(StoreError::Exists(target.to_owned())),
        // A configuration or a key file named by mistake.
        Ok(found) if !found.is_file() || !open::has_our_header(target) => {
            Err(StoreError::Unfit(target.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Whether two paths name one file. Never opens either: to close a file drops the locks that this
/// process has on it.
pub(in crate::store) fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
    }
}

/// Whether a file that need not exist lies in this folder or in one below it.
fn is_below(file: &Path, folder: &Path) -> bool {
    match (owner::folder_of(file).canonicalize(), folder.canonicalize()) {
        (Ok(folder_of_file), Ok(folder)) => folder_of_file.starts_with(folder),
        _ => false,
    }
}

/// Copies one snapshot of the store at `source` into a temporary file beside `target`, and checks
/// it.
pub(in crate::store) fn copy(
    source: &Path,
    target: &Path,
    control: &CopyControl,
) -> Result<NamedTempFile, StoreError> {
    let mut connection = open::open_reader(source)?;
    let page_size = number(&connection, "PRAGMA page_size")?;
    let total = page_size * number(&connection, "PRAGMA page_count")?;
    let partial = partial(target)?;
    refuse_without_room(&partial, total)?;
    let path = partial.path().to_owned();
    let progress = Arc::clone(&control.progress);
    let stop = control.stop.clone();
    let watch = move || {
        let bytes = match fs::metadata(&path) {
            Ok(file) => file.len().min(total),
            Err(_) => 0,
        };
        progress(bytes, total);
        stop.is_cancelled()
    };
    connection.progress_handler(STEPS, Some(watch))?;
    let copied = match partial.path().to_str() {
        Some(path) => connection.execute("VACUUM INTO ?", [path]),
        None => return Err(StoreError::Unfit(target.to_owned())),
    };
    if copied.is_err() {
        // SQLite leaves it where it may not write.
        let _ = fs::remove_file(open::with_suffix(partial.path(), JOURNAL));
    }
    // It may not stay open while the store is opened again, and to check the copy takes a while.
    drop(connection);
    let checked = match copied {
        Ok(_) => check(&partial, control),
        Err(error) => Err(error.into()),
    };
    if control.stop.is_cancelled() {
        return Err(StoreError::Stopped);
    }
    checked?;
    Ok(partial)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    let number: i64 = connection.value(pragma, [])?;
    Ok(u64::try_from(number).unwrap_or_default())
}

/// Reads a copy for damage.
fn check(copy: &NamedTempFile, control: &CopyControl) -> Result<(), StoreError> {
    let mut connection = open::open_reader(copy.path())?;
    let stop = control.stop.clone();
    connection.progress_handler(STEPS, Some(move || stop.is_cancelled()))?;
    match soundness(&connection)? {
        Some(fault) => Err(StoreError::Corrupt(fault)),
        None => Ok(()),
    }
}

/// A temporary file for owner and group; it is removed unless it gets its name.
pub(in crate::store) fn partial(target: &Path) -> Result<NamedTempFile, StoreError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let partial = tempfile::Builder::new()
        .prefix(&format!("{name}."))
        .suffix(PARTIAL)
        .tempfile_in(owner::folder_of(target))
        .map_err(StoreError::io("write", target))?;
    let set = partial
        .as_file()
        .set_permissions(Permissions::from_mode(0o640));
    set.map_err(StoreError::io("set the mode of", partial.path()))?;
    Ok(partial)
}

/// Whether a name is one that [`partial`] makes for a file of this name, or that of its journal.
pub(in crate::store) fn is_partial_of(target: &str, name: &str) -> bool {
    let name = name.strip_suffix(JOURNAL).unwrap_or(name);
    let Some(name) = name.strip_suffix(PARTIAL) else {
        return false;
    };
    let Some((before, random)) = name.rsplit_once('.') else {
        return false;
    };
    before == target && random.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Refuses a copy of so many bytes for which the disk has no room.
pub(in crate::store) fn refuse_without_room(
    partial: &NamedTempFile,
    bytes: u64,
) -> Result<(), StoreError> {
    let Ok(disk) = rustix::fs::fstatvfs(partial.as_file()) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed = bytes.saturating_add(bytes.min(ROOM_LEFT));
    if free < needed {
        return Err(StoreError::NoRoom {
            path: partial.path().to_owned(),
            needed,
            free,
        });
    }
    Ok(())
}

/// Syncs a copy and reads what it holds.
pub(in crate::store) fn facts(copy: &NamedTempFile) -> Result<CopyFacts, StoreError> {
    let synced = copy
        .as_file()
        .sync_all()
        .and_then(|()| copy.as_file().metadata());
    let bytes = synced.map_err(StoreError::io("write", copy.path()))?.len();
    let connection = open::open_reader(copy.path())?;
    let last_seq = log::last_seq(&connection)?;
    let observed = "SELECT observed_at FROM changes WHERE seq = ?";
    let last_change_at = connection.value(observed, [last_seq]).optional()?;
    Ok(CopyFacts {
        bytes,
        last_seq,
        last_change_at,
    })
}

/// Gives a synced copy its name, durably.
pub(in crate::store) fn publish(
    copy: NamedTempFile,
    target: &Path,
    replace: bool,
) -> Result<(), StoreError> {
    let named = if replace {
        copy.persist(target)
    } else {
        copy.persist_noclobber(target)
    };
    named.map_err(|failed| match failed.error.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists(target.to_owned()),
        _ => StoreError::io("write", target)(failed.error),
    })?;
    sync_folder_of(target)
}

/// Makes the names in the folder of `path` durable.
pub(in crate::store) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = owner::folder_of(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(StoreError::io("sync", folder))
}
