//! Copies a store into one file of its own while it is in use, and checks the copy.
//!
//! The copy is made from one snapshot, in small steps with a pause between them, so that a running
//! daemon is not held up. It is written under a temporary name and gets its own name only after it
//! was checked and synced: a file under that name is always a whole, sound backup.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use tokio_util::sync::CancellationToken;

use super::backup_error::BackupError;
use super::partial::Partial;
use super::{full_text, log, open};

/// Pages copied in one step: 1 MiB.
const STEP_PAGES: i32 = 256;
/// The pause after each step, which leaves the disk to the daemon's own writes.
const STEP_PAUSE: Duration = Duration::from_millis(4);
/// Steps after which the copy is synced, so that no sync has to write much at once.
const SYNC_EVERY: u32 = 16;
/// Room that must stay free on the disk beside the copy, unless the store itself is smaller.
const ROOM_LEFT: u64 = 64 * 1024 * 1024;
/// Virtual machine instructions of SQLite between two looks at whether to stop.
const STOP_EVERY: i32 = 100_000;

/// How far a backup or a restore has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// Copying.
    Copied {
        /// Bytes copied.
        bytes: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Checking the copy.
    Checking,
}

/// What lets a caller follow and stop a copy.
pub struct CopyControl<'a> {
    /// Cancelled to stop the copy; nothing of it stays.
    pub stop: CancellationToken,
    /// Called after each step.
    pub progress: &'a mut dyn FnMut(CopyProgress),
}

/// What a sound copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFacts {
    /// Its size.
    pub bytes: u64,
    /// The last row of its log.
    pub last_seq: i64,
    /// When that row was observed; `None` if the log is empty.
    pub last_change_at: Option<String>,
}

/// Copies the store at `store` to the file `target`, with mode 0640. Works beside a running daemon
/// and without one. Blocks.
///
/// # Errors
/// [`BackupError`]. A file that was at `target` before is then as it was.
pub fn back_up(
    store: &Path,
    target: &Path,
    replace: bool,
    control: &mut CopyControl<'_>,
) -> Result<CopyFacts, BackupError> {
    refuse_unfit(store, target, replace)?;
    let (source, _) = open::open_reader_of_any_schema(store)?;
    let partial = Partial::create(target)?;
    // A copy for another folder stays root's: its owner may not be meant to read customers' data.
    if store.parent().is_some_and(|folder| is_below(target, folder)) {
        partial.give_to_folder();
    }
    let facts = copy(&source, &partial, control)?;
    drop(source);
    partial.publish(target, replace)?;
    Ok(facts)
}

fn refuse_unfit(store: &Path, target: &Path, replace: bool) -> Result<(), BackupError> {
    let own = ["", "-wal", "-shm", "-lock"].map(|suffix| open::with_suffix(store, suffix));
    let index = full_text::path_of(store);
    if target.file_name().is_none()
        || own.iter().chain([&index]).any(|file| same_file(file, target))
    {
        return Err(BackupError::Unfit(target.to_owned()));
    }
    match std::fs::symlink_metadata(target) {
        Ok(_) if !replace => Err(BackupError::Exists(target.to_owned())),
        Ok(found) if !found.is_file() => Err(BackupError::Unfit(target.to_owned())),
        // A configuration or a key file named by mistake.
        Ok(found) if found.len() > 0 && !open::is_ours(target) => {
            Err(BackupError::Unfit(target.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Whether two paths name one file. Never opens either: to close a file drops the locks that this
/// process has on it.
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
    }
}

/// Whether a file that need not exist lies in this folder or in one below it.
fn is_below(file: &Path, folder: &Path) -> bool {
    let real = |path: &Path| Path::new(".").join(path).canonicalize().ok();
    let both = file.parent().and_then(real).zip(real(folder));
    both.is_some_and(|(of_file, folder)| of_file.starts_with(folder))
}

/// Copies one snapshot of `source` into `partial`, checks it and syncs it.
pub(super) fn copy(
    source: &Connection,
    partial: &Partial,
    control: &mut CopyControl<'_>,
) -> Result<CopyFacts, BackupError> {
    let failed = BackupError::copy(partial.path());
    // A transaction of the source's own: writes of others would otherwise start the copy anew.
    source.execute_batch("BEGIN").map_err(&failed)?;
    let copied = contents(source).map_err(&failed).and_then(|wanted| {
        copy_pages(source, partial, control)?;
        Ok(wanted)
    });
    let ended = source.execute_batch("COMMIT").map_err(&failed);
    let wanted = copied?;
    ended?;
    (control.progress)(CopyProgress::Checking);
    let found = checked(partial.path(), &control.stop)?;
    if found != wanted {
        return Err(BackupError::Unsound("its log ends elsewhere than the store's".to_owned()));
    }
    let bytes = partial.sync()?;
    Ok(CopyFacts { bytes, last_seq: found.last_seq, last_change_at: found.last_change_at })
}

fn copy_pages(
    source: &Connection,
    partial: &Partial,
    control: &mut CopyControl<'_>,
) -> Result<(), BackupError> {
    let failed = BackupError::copy(partial.path());
    let number = |pragma: &str| {
        let number = source.query_row(pragma, [], |row| row.get::<_, i64>(0));
        number.map(|number| u64::try_from(number).unwrap_or_default())
    };
    let page_size = number("PRAGMA page_size").map_err(&failed)?;
    let pages = number("PRAGMA page_count").map_err(&failed)?;
    partial.refuse_without_room(with_room(pages * page_size))?;

    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut target = Connection::open_with_flags(partial.path(), flags).map_err(&failed)?;
    // The file is synced here, and is thrown away unless it is complete.
    target
        .execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2000;",
        )
        .map_err(&failed)?;
    let backup = Backup::new(source, &mut target).map_err(&failed)?;
    for step in 1_u32.. {
        if control.stop.is_cancelled() {
            return Err(BackupError::Stopped);
        }
        let done = backup.step(STEP_PAGES).map_err(&failed)? == StepResult::Done;
        let left = u64::try_from(backup.progress().remaining).unwrap_or(0).min(pages);
        (control.progress)(CopyProgress::Copied {
            bytes: (pages - left) * page_size,
            total: pages * page_size,
        });
        if done {
            break;
        }
        if step.is_multiple_of(SYNC_EVERY) {
            partial.sync()?;
        }
        std::thread::sleep(STEP_PAUSE);
    }
    drop(backup);
    // A copy of a store in use says that a write-ahead log belongs to it; the copy is complete
    // without one, and can then be read from a folder that no user may write to.
    let mode: String =
        target.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(&failed)?;
    if mode != "delete" {
        return Err(BackupError::Unsound(format!("its journal mode stays {mode}")));
    }
    target.close().map_err(|(_, error)| failed(error))
}

/// What must be free on the disk before `bytes` are copied to it.
fn with_room(bytes: u64) -> u64 {
    bytes.saturating_add(bytes.min(ROOM_LEFT))
}

/// What tells one state of a store from another.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    identity: String,
    last_seq: i64,
    last_change_at: Option<String>,
}

fn contents(connection: &Connection) -> rusqlite::Result<Contents> {
    Ok(Contents {
        identity: connection.query_row(
            "SELECT value FROM _meta WHERE name = 'identity'",
            [],
            |row| row.get(0),
        )?,
        last_seq: log::last_seq(connection)?,
        last_change_at: connection
            .query_row("SELECT observed_at FROM changes ORDER BY seq DESC LIMIT 1", [], |row| {
                row.get(0)
            })
            .optional()?,
    })
}

/// Checks a copy from its first page to its last.
fn checked(path: &Path, stop: &CancellationToken) -> Result<Contents, BackupError> {
    let failed = BackupError::copy(path);
    let (mut connection, _) = open::open_reader_of_any_schema(path)?;
    let stop_at = stop.clone();
    connection
        .progress_handler(STOP_EVERY, Some(move || stop_at.is_cancelled()))
        .map_err(&failed)?;
    let said = super::verify::soundness(&connection);
    match said {
        _ if stop.is_cancelled() => Err(BackupError::Stopped),
        Ok(None) => contents(&connection).map_err(failed),
        Ok(Some(fault)) => Err(BackupError::Unsound(fault)),
        Err(error) => Err(failed(error)),
    }
}
