//! Puts a backup in the place of the store, and keeps the store that was there beside it.
//!
//! The backup is copied and checked first; until the last rename the store is as it was, and at no
//! moment is there none. Refused while another process uses the store. Records that were forgotten
//! after the backup was made are forgotten again.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::backup::{CopyControl, CopyFacts, copy, same_file};
use super::backup_error::BackupError;
use super::error::{OpenError, StoreError};
use super::forgotten::{self, ForgottenRecord};
use super::partial::{Partial, sync_folder_of};
use super::reader::{Reader, STEPS};
use super::{backup_folder, full_text, identity, log, open};
use crate::file_owner;

/// Names tried for the replaced store.
const NAMES_MAX: u32 = 100;

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the store holds now.
    pub facts: CopyFacts,
    /// Where the store is that was there before; `None` if there was none.
    pub kept: Option<PathBuf>,
    /// What became of the records that were forgotten after the backup was made.
    pub forgotten: ForgottenSince,
}

/// Records that `forget` removed after a backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgottenSince {
    /// The backup still held this many; they were forgotten again.
    Again(usize),
    /// There is no store that could tell, or it cannot be read: the backup may hold some.
    Unknown,
}

/// Puts the backup `file` in the place of the store at `store`. Blocks.
///
/// Positions, versions and event ids go on from where the backup has them, so that what is seen
/// again is delivered again under the event id it had.
///
/// # Errors
/// [`BackupError`]; the store is then as it was. A backup whose parts disagree is refused unless
/// `accept_damage` is set.
pub fn restore(
    store: &Path,
    file: &Path,
    accept_damage: bool,
    now: Timestamp,
    control: &mut CopyControl<'_>,
) -> Result<Restored, BackupError> {
    if same_file(store, file) {
        return Err(BackupError::IsTheStore(file.to_owned()));
    }
    // A pipe would be waited for.
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        let reason = "it is no regular file".to_owned();
        return Err(BackupError::NotABackup { path: file.to_owned(), reason });
    }
    let folder = store.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    file_owner::make_folder(folder).map_err(BackupError::io("make", folder))?;
    let (mut lock, was_clean) = open::Lock::take(store)?;
    let restored = copy_checked(store, file, accept_damage, control)
        .and_then(|copied| replace(store, copied, now));
    // A store that was not closed in order and stays must still be checked at its next start.
    if restored.is_ok() || was_clean {
        lock.release();
    }
    restored
}

/// A copy of a backup that is ready to take the place of the store.
struct Copied {
    partial: Partial,
    facts: CopyFacts,
    forgotten: ForgottenSince,
}

/// Copies and checks the backup, and prepares the copy, while the lock is held.
fn copy_checked(
    store: &Path,
    file: &Path,
    accept_damage: bool,
    control: &mut CopyControl<'_>,
) -> Result<Copied, BackupError> {
    let (source, _) =
        open::open_reader_of_any_schema(file).map_err(|error| not_a_backup(file, error))?;
    let partial = Partial::create(store)?;
    partial.give_as(store)?;
    let facts = copy(&source, &partial, control).map_err(|error| match error {
        BackupError::Unsound(reason)
        | BackupError::Copy { source: StoreError::Corrupt(reason), .. } => {
            BackupError::NotABackup { path: file.to_owned(), reason }
        }
        error => error,
    })?;
    drop(source);
    let mut connection = prepared(&partial)?;
    if !accept_damage && let Some(reason) = disagreement(&partial, control)? {
        return Err(BackupError::Disagrees { path: file.to_owned(), reason });
    }
    let forgotten = adapt(&mut connection, &partial, forgotten::of_store(store))?;
    let last_seq = log::last_seq(&connection).map_err(BackupError::copy(partial.path()))?;
    connection.close().map_err(|(_, error)| BackupError::copy(partial.path())(error))?;
    let facts = CopyFacts { bytes: partial.sync()?, last_seq, ..facts };
    Ok(Copied { partial, facts, forgotten })
}

/// Swaps the copy for the store.
fn replace(store: &Path, copied: Copied, now: Timestamp) -> Result<Restored, BackupError> {
    let Copied { partial, facts, forgotten } = copied;
    // It follows another log, and may hold words that this one has not.
    full_text::remove(store)
        .map_err(|source| BackupError::Copy { path: store.to_owned(), source })?;
    let replaced = set_aside(store, now).and_then(|kept| {
        partial.publish(store, true)?;
        Ok(kept)
    });
    if replaced.is_err() {
        take_back(store);
    }
    Ok(Restored { facts, kept: replaced?, forgotten })
}

/// Takes the second names away that a restore gave the store and did not come to use, because it failed or
/// was killed. Only while no other process has the store's lock.
pub(super) fn take_back(store: &Path) {
    for kept in second_names(store) {
        let (log, kept_log) = (open::with_suffix(store, "-wal"), open::with_suffix(&kept, "-wal"));
        // The log may have its second name only.
        let settled =
            if log.exists() { fs::remove_file(&kept_log) } else { fs::rename(&kept_log, &log) };
        let settled = settled.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        if let Err(error) = settled.and_then(|()| fs::remove_file(&kept)) {
            tracing::warn!(%error, path = %kept.display(), "could not take back the name of an unfinished restore");
        }
    }
}

/// The names beside the store that a restore has given to the same file.
pub(super) fn second_names(store: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::metadata(store) else { return Vec::new() };
    if found.nlink() < 2 {
        return Vec::new();
    }
    let folder = store.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let begin = format!("{}-replaced-", store.file_stem().unwrap_or_default().to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            let is_kept =
                name.to_str().is_some_and(|name| name.starts_with(&begin) && name.ends_with(".db"));
            let same =
                |entry: fs::Metadata| (entry.dev(), entry.ino()) == (found.dev(), found.ino());
            is_kept && entry.metadata().is_ok_and(same)
        })
        .map(|entry| entry.path())
        .collect()
}

/// Opens the copy and brings it to the schema of this program, which the checks know.
fn prepared(partial: &Partial) -> Result<Connection, BackupError> {
    let failed = BackupError::copy(partial.path());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(partial.path(), flags).map_err(&failed)?;
    open::bring_up_to_date(&mut connection).map_err(&failed)?;
    Ok(connection)
}

/// What `verify` finds wrong with the copy, which SQLite's own check cannot see.
fn disagreement(
    partial: &Partial,
    control: &CopyControl<'_>,
) -> Result<Option<String>, BackupError> {
    let mut reader = Reader::open(partial.path())?;
    let stop = control.stop.clone();
    let failed = |source| BackupError::Copy { path: partial.path().to_owned(), source };
    reader
        .connection
        .progress_handler(STEPS, Some(move || stop.is_cancelled()))
        .map_err(BackupError::copy(partial.path()))?;
    let found = match reader.verify(&mut |_, _| {}) {
        _ if control.stop.is_cancelled() => return Err(BackupError::Stopped),
        found => found.map_err(failed)?,
    };
    let wrong = found.findings.into_iter().find(|finding| !finding.ok);
    Ok(wrong.map(|finding| format!("{}: {}", finding.what, finding.said)))
}

/// Forgets records in the copy, and gives it another identity for what follows.
fn adapt(
    connection: &mut Connection,
    partial: &Partial,
    forgotten: Option<Vec<ForgottenRecord>>,
) -> Result<ForgottenSince, BackupError> {
    let failed = |source| BackupError::Copy { path: partial.path().to_owned(), source };
    let since = match forgotten {
        Some(records) => {
            ForgottenSince::Again(forgotten::forget_again(connection, &records).map_err(failed)?)
        }
        None => ForgottenSince::Unknown,
    };
    identity::renew(connection).map_err(BackupError::copy(partial.path()))?;
    Ok(since)
}

fn not_a_backup(file: &Path, error: OpenError) -> BackupError {
    let reason = match error {
        OpenError::Foreign { reason, .. } => format!("shopmirror did not write it ({reason})"),
        OpenError::Missing(_) => "there is no such file, or it is empty".to_owned(),
        OpenError::Newer { found, known, .. } => {
            format!("a newer shopmirror wrote it (schema {found}, this one knows up to {known})")
        }
        OpenError::Sqlite { source: StoreError::Corrupt(reason), .. } => reason,
        error => return error.into(),
    };
    BackupError::NotABackup { path: file.to_owned(), reason }
}

/// Gives the store a second, dated name, so that it stays when another takes its own.
fn set_aside(store: &Path, now: Timestamp) -> Result<Option<PathBuf>, BackupError> {
    if !store.exists() {
        return Ok(None);
    }
    settle(store);
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-replaced-{}", backup_folder::name_stamp(now));
    let mut kept = store.with_file_name(format!("{name}.db"));
    // Another restore within the same second has taken the first name.
    for number in 2..=NAMES_MAX {
        match fs::hard_link(store, &kept) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < NAMES_MAX => {
                kept = store.with_file_name(format!("{name}-{number}.db"));
            }
            linked => {
                linked.map_err(BackupError::io("keep the store as", &kept))?;
                break;
            }
        }
    }
    let log = open::with_suffix(store, "-wal");
    if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        let kept_log = open::with_suffix(&kept, "-wal");
        fs::hard_link(&log, &kept_log).map_err(BackupError::io("keep the store as", &kept_log))?;
    }
    sync_folder_of(store)?;
    // A log left here would be taken for one of the restored store.
    for side in ["-wal", "-shm"] {
        let side = open::with_suffix(store, side);
        match fs::remove_file(&side) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(BackupError::io("remove", &side)(error));
            }
            _ => {}
        }
    }
    Ok(Some(kept))
}

/// Moves the content of the write-ahead log into the store itself, if the store can still be read.
fn settle(store: &Path) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let settled = Connection::open_with_flags(store, flags).and_then(|connection| {
        connection.busy_timeout(open::LOCK_WAIT)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
    });
    if let Err(error) = settled {
        // A damaged store is what a restore is for: it is kept as it is, with its log.
        tracing::debug!(%error, "could not settle the write-ahead log of the store to be replaced");
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::record::Route;
    use crate::store::fixtures::{Poll, record};
    use crate::store::{Operator, Store, back_up};

    #[tokio::test]
    async fn a_record_that_was_forgotten_after_the_backup_does_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, backup) = (dir.path().join("mirror.db"), dir.path().join("backup.db"));
        let mut ignored = |_| {};
        let mut control = CopyControl { stop: CancellationToken::new(), progress: &mut ignored };
        let both = [record(2, "Younger Quetzal"), record(1, "Older Quetzal")];
        let store = Store::open(&path).unwrap();
        Poll::USUAL.shows(&store, &both[1..]).await;
        store.close().await.unwrap();
        drop(store);
        back_up(&path, &backup, false, &mut control).unwrap();
        let store = Store::open(&path).unwrap();
        Poll::USUAL.shows(&store, &both).await;
        store.close().await.unwrap();
        drop(store);
        let mut operator = Operator::open(&path).unwrap();
        for id in ["1", "2"] {
            operator.forget(Route::Leads, id, "2026").unwrap();
        }
        drop(operator);

        let restored =
            restore(&path, &backup, false, "2026-01-01T00:00:00Z".parse().unwrap(), &mut control)
                .unwrap();
        assert_eq!(restored.forgotten, ForgottenSince::Again(1));
        let file = fs::read(&path).unwrap();
        assert!(!file.windows(7).any(|window| window == b"Quetzal"), "a name is still in the file");
        let store = Store::open(&path).unwrap();
        let shown = Poll::USUAL.shows(&store, &both).await;
        assert_eq!((shown.created, shown.updated), (0, 0));
        store.close().await.unwrap();
        drop(store);
        let reader = Reader::open(&path).unwrap();
        assert!(reader.verify(&mut |_, _| {}).unwrap().is_sound());
        assert!(reader.counts().unwrap().contains(&(Route::Leads, 0)));

        fs::write(&path, b"damaged").unwrap();
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let restored = restore(&path, &backup, false, now, &mut control).unwrap();
        assert_eq!(restored.forgotten, ForgottenSince::Unknown);
    }
}
