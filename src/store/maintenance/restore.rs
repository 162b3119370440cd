//! Puts a backup in the place of the store; the store that was there stays beside it.
//!
//! The backup is copied and checked first; until the last rename the store is as it was, and at no
//! moment is there none. Refused while another process uses the store. Records that were forgotten
//! after the backup was made are forgotten again.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::files::owner;
use crate::store::error::StoreError;
use crate::store::maintenance::backup::{self, CopyControl, CopyFacts};
use crate::store::maintenance::{self, backup_folder, forget};
use crate::store::mirror::free_name;
use crate::store::open::{self, Lock};
use crate::store::{identity, schema, search_index};

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What the store holds now.
    #[serde(flatten)]
    pub facts: CopyFacts,
    /// Where the store is that was there before; `None` if there was none.
    pub kept: Option<PathBuf>,
    /// How many records of the backup `forget` had removed since, and were forgotten again. `None`
    /// if no store says so: the backup may hold some.
    pub forgotten_again: Option<usize>,
}

/// Puts the backup `file` in the place of the store at `store`. Blocks.
///
/// Positions, versions and event ids continue from where the backup has them, so that what is seen
/// again is delivered again under the event id it had.
///
/// # Errors
/// [`StoreError`]; the store is then as it was.
pub fn restore(
    store: &Path,
    file: &Path,
    now: Timestamp,
    control: &CopyControl,
) -> Result<Restored, StoreError> {
    let is_no_file = fs::metadata(file).is_ok_and(|found| !found.is_file());
    if is_no_file || backup::same_file(store, file) {
        let reason = "it is the store in use, or no regular file".to_owned();
        return Err(StoreError::NotABackup {
            path: file.to_owned(),
            reason,
        });
    }
    owner::refuse_foreign_link(store).map_err(StoreError::io("replace", store))?;
    let folder = owner::folder_of(store);
    owner::create_folder(folder).map_err(StoreError::io("make", folder))?;
    // Before the lock makes its file.
    refuse_foreign(store)?;
    let lock = Lock::take(store)?;
    remove_leftovers(store, &lock)?;
    let copy = backup::copy(file, store, control).map_err(|error| not_a_backup(file, error))?;
    match fs::metadata(store) {
        Ok(replaced) => owner::give_as(copy.as_file(), &replaced)
            .map_err(StoreError::io("give its owner", copy.path()))?,
        Err(_) => owner::give_to_folder(copy.as_file(), copy.path()),
    }
    let held = hold(store)?;
    let forgotten_again = adapt(&copy, store)?;
    let facts = backup::facts(&copy)?;
    // It belongs to another log, and may hold words that this one does not have.
    search_index::remove(store)?;
    let kept = swap(store, copy, now)?;
    drop(held);
    Ok(Restored {
        facts,
        kept,
        forgotten_again,
    })
}

/// Puts the backup `file` at `target`, where nothing may be yet, to look at it. Records that were
/// forgotten in the store at `store` since are forgotten in the copy too. Blocks.
///
/// # Errors
/// [`StoreError`]; nothing is at `target` then.
pub fn restore_beside(
    store: &Path,
    file: &Path,
    target: &Path,
    control: &CopyControl,
) -> Result<CopyFacts, StoreError> {
    if target.exists() {
        return Err(StoreError::Exists(target.to_owned()));
    }
    let folder = owner::folder_of(target);
    owner::create_folder(folder).map_err(StoreError::io("make", folder))?;
    let copy = backup::copy(file, target, control).map_err(|error| not_a_backup(file, error))?;
    adapt(&copy, store)?;
    let facts = backup::facts(&copy)?;
    backup::publish(copy, target, false)?;
    Ok(facts)
}

/// Refuses to replace a file that was never a store, as `path` in `[store]` may name by mistake. An
/// empty file is none: a first start that died leaves one.
fn refuse_foreign(store: &Path) -> Result<(), StoreError> {
    let is_to_lose = fs::metadata(store).is_ok_and(|found| found.len() > 0);
    if is_to_lose && !open::was_ours(store) {
        return Err(StoreError::NotReplaced(store.to_owned()));
    }
    Ok(())
}

/// Removes the unfinished copies that a killed restore left beside the store. They may hold the
/// data of people who were forgotten since the backup was made. The lock shows that no restore uses
/// them.
pub(in crate::store) fn remove_leftovers(store: &Path, _lock: &Lock) -> Result<(), StoreError> {
    for leftover in leftovers(store)? {
        fs::remove_file(&leftover).map_err(StoreError::io("remove", &leftover))?;
    }
    Ok(())
}

/// The same for a process without the lock. Another process that has it removed them when it took
/// the lock.
pub(in crate::store) fn remove_unused_leftovers(store: &Path) -> Result<(), StoreError> {
    if leftovers(store)?.is_empty() {
        return Ok(());
    }
    match Lock::take(store) {
        Err(StoreError::Held { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(lock) => remove_leftovers(store, &lock),
    }
}

/// Logs that leftovers could not be removed, where that must not stop the caller.
pub(in crate::store) fn log_left(removed: Result<(), StoreError>) {
    if let Err(error) = removed {
        let cause = error.source().map(ToString::to_string);
        tracing::warn!(%error, cause, "a killed restore left an unfinished copy");
    }
}

fn leftovers(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let folder = owner::folder_of(store);
    let failed = StoreError::io("read", folder);
    let Some(store) = store.file_name().and_then(OsStr::to_str) else {
        return Ok(Vec::new());
    };
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if let Some(name) = entry.file_name().to_str()
            && backup::is_partial_of(store, name)
        {
            leftovers.push(entry.path());
        }
    }
    Ok(leftovers)
}

/// Brings the copy to the schema of this program; forgets records in it; and gives it
/// another identity for what follows.
fn adapt(copy: &NamedTempFile, store: &Path) -> Result<Option<usize>, StoreError> {
    let mut connection = open::connect(copy.path(), open::LOCK_WAIT)?;
    // Nothing of it stays beside a copy that is thrown away.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    schema::bring_up_to_date(&mut connection)?;
    let again = match forget::tombstones(store) {
        Some(records) => Some(forget::forget_again(&mut connection, &records)?),
        None => None,
    };
    identity::renew(&connection)?;
    // Since the backup, files of sinks have grown by lines that were acknowledged.
    connection.execute("UPDATE _sinks SET mark = NULL", ())?;
    Ok(again)
}

/// Tells a file that is no sound backup from a copy that failed for another reason.
fn not_a_backup(file: &Path, error: StoreError) -> StoreError {
    let reason = match error {
        StoreError::Foreign { reason, .. } => format!("shopmirror did not write it ({reason})"),
        StoreError::Missing(_) => "there is no such file, or it is empty".to_owned(),
        StoreError::Newer { found, known, .. } => {
            format!("a newer shopmirror wrote it (schema {found}, this one knows up to {known})")
        }
        StoreError::Corrupt(reason) => reason,
        error => return error,
    };
    StoreError::NotABackup {
        path: file.to_owned(),
        reason,
    }
}

/// Keeps other processes from writing to a store that is to be replaced, as long as the connection
/// is open: what they write would be lost. First moves the content of its write-ahead log into the
/// store itself. A store that takes no transaction, because it is damaged, takes none of theirs.
pub(in crate::store) fn hold(store: &Path) -> Result<Option<Connection>, StoreError> {
    if !store.exists() {
        return Ok(None);
    }
    settle(store)?;
    let held = begin(store).map_err(StoreError::from);
    match held {
        Ok(held) => Ok(Some(held)),
        Err(StoreError::Busy) => Err(StoreError::Busy),
        Err(error) => {
            tracing::debug!(%error, "could not take the write lock of the store to be replaced");
            Ok(None)
        }
    }
}

fn begin(store: &Path) -> rusqlite::Result<Connection> {
    let connection = open::connect(store, open::COMMAND_WAIT)?;
    // It would remove the log of the file that has the name of the store then.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    Ok(connection)
}

/// Gives the copy the name of the store, which gets a dated one.
pub(in crate::store) fn swap(
    store: &Path,
    copy: NamedTempFile,
    now: Timestamp,
) -> Result<Option<PathBuf>, StoreError> {
    if !store.exists() {
        set_aside_log(store, now)?;
        backup::publish(copy, store, false)?;
        return Ok(None);
    }
    let kept = kept_name(store, now);
    fs::hard_link(store, &kept).map_err(StoreError::io("keep the store as", &kept))?;
    // A log left here would be taken for one of the restored store.
    let swapped = move_log_and_publish(store, &kept, copy);
    if swapped.is_err() && move_side_files(&kept, store).is_ok() {
        let _ = fs::remove_file(&kept);
    }
    swapped?;
    Ok(Some(kept))
}

/// Moves the write-ahead log of a store that is gone away. It would be taken for one of the store
/// that comes in its place.
pub(in crate::store) fn set_aside_log(store: &Path, now: Timestamp) -> Result<(), StoreError> {
    let moved = move_side_files(store, &kept_name(store, now));
    moved.map_err(StoreError::io("move away the log of", store))
}

/// The name of a store that was replaced.
fn kept_name(store: &Path, now: Timestamp) -> PathBuf {
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-replaced-{}", backup_folder::name_stamp(now));
    // Two may be replaced within a second.
    let free = free_name(&name, |name| {
        store.with_file_name(format!("{name}.db")).exists()
    });
    store.with_file_name(format!("{free}.db"))
}

fn move_log_and_publish(store: &Path, kept: &Path, copy: NamedTempFile) -> Result<(), StoreError> {
    move_side_files(store, kept).map_err(StoreError::io("keep the log of", store))?;
    backup::sync_folder_of(store)?;
    backup::publish(copy, store, true)
}

fn move_side_files(from: &Path, to: &Path) -> io::Result<()> {
    for side in ["-wal", "-shm"] {
        match fs::rename(open::with_suffix(from, side), open::with_suffix(to, side)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Moves the content of the write-ahead log into the store itself. A damaged store, for which a
/// restore is made, stays as it is, with its log.
fn settle(store: &Path) -> Result<(), StoreError> {
    match empty_log(store) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Busy),
        Err(error) => {
            tracing::debug!(
                %error,
                "could not settle the write-ahead log of the store to be replaced"
            );
            Ok(())
        }
    }
}

fn empty_log(store: &Path) -> Result<bool, StoreError> {
    let connection = open::connect(store, open::LOCK_WAIT)?;
    maintenance::checkpoint(&connection, "TRUNCATE")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::store::fixtures::{self, Poll, record};
    use crate::store::reader::Reader;
    use crate::store::{Operator, Store, back_up};
    use shopmirror_core::record::Route;

    #[tokio::test]
    async fn a_record_that_was_forgotten_after_the_backup_does_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, backup) = (dir.path().join("mirror.db"), dir.path().join("backup.db"));
        let control = CopyControl {
            stop: CancellationToken::new(),
            progress: Arc::new(|_, _| ()),
        };
        let both = [record(2, "Younger Quetzal"), record(1, "Older Quetzal")];
        let store = Store::open(&path).unwrap();
        Poll::USUAL.shows(&store, &both[1..]).await;
        store.close().await.unwrap();
        drop(store);
        back_up(&path, &backup, false, &control).unwrap();
        let store = Store::open(&path).unwrap();
        Poll::USUAL.shows(&store, &both).await;
        store.close().await.unwrap();
        drop(store);
        let mut operator = Operator::open(&path).unwrap();
        for id in ["1", "2"] {
            fixtures::forget(&mut operator, id, "2026");
        }
        drop(operator);

        let restored = restore(
            &path,
            &backup,
            "2026-01-01T00:00:00Z".parse().unwrap(),
            &control,
        )
        .unwrap();
        assert_eq!(restored.forgotten_again, Some(1));
        let file = fs::read(&path).unwrap();
        assert!(
            !file.windows(7).any(|window| window == b"Quetzal"),
            "a name is still in the file"
        );
        let store = Store::open(&path).unwrap();
        let shown = Poll::USUAL.shows(&store, &both).await;
        assert_eq!((shown.created, shown.updated), (0, 0));
        store.close().await.unwrap();
        drop(store);
        let reader = Reader::open(&path).unwrap();
        assert!(
            reader
                .verify(&mut |_, _| {})
                .unwrap()
                .iter()
                .all(|finding| finding.ok)
        );
        assert!(reader.counts().unwrap().contains(&(Route::Leads, 0)));

        fs::write(&path, b"damaged").unwrap();
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let restored = restore(&path, &backup, now, &control).unwrap();
        assert_eq!(restored.forgotten_again, None);
    }

    /// How many files of a folder hold this text.
    fn count(folder: &Path, text: &[u8]) -> usize {
        let mut files = 0;
        for entry in fs::read_dir(folder).unwrap() {
            if fs::read(entry.unwrap().path()).unwrap() == text {
                files += 1;
            }
        }
        files
    }

    #[tokio::test]
    async fn what_a_killed_restore_left_goes_with_the_next_start_backup_verify_or_forget() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        Poll::USUAL.shows(&store, &[record(1, "N")]).await;
        store.close().await.unwrap();
        drop(store);
        let leave = || {
            let (file, left) = backup::partial(&path).unwrap().keep().unwrap();
            drop(file);
            fs::write(&left, b"left").unwrap();
            fs::write(open::with_suffix(&left, "-journal"), b"left").unwrap();
            assert_eq!(count(dir.path(), b"left"), 2);
        };
        for other in [
            "mirror.db.partial",
            "mirror.db.a1B2c3.partial.txt",
            "other.db.a1B2c3.partial",
            "mirror.db.old.a1B2c3.partial",
        ] {
            fs::write(dir.path().join(other), b"another's").unwrap();
        }

        leave();
        drop(Store::open(&path).unwrap());
        assert_eq!(count(dir.path(), b"left"), 0, "start");
        leave();
        let control = CopyControl {
            stop: CancellationToken::new(),
            progress: Arc::new(|_, _| ()),
        };
        back_up(&path, &dir.path().join("backup.db"), false, &control).unwrap();
        assert_eq!(count(dir.path(), b"left"), 0, "backup");
        leave();
        let reader = Reader::open(&path).unwrap();
        reader.verify(&mut |_, _| ()).unwrap();
        assert_eq!(count(dir.path(), b"left"), 0, "verify");
        leave();
        Operator::open(&path).unwrap().purge().unwrap();
        assert_eq!(count(dir.path(), b"left"), 0, "forget");
        assert_eq!(count(dir.path(), b"another's"), 4);

        let held = Lock::take(&path).unwrap();
        leave();
        Operator::open(&path).unwrap().purge().unwrap();
        assert_eq!(count(dir.path(), b"left"), 2, "a restore may run");
        drop(held);
    }
}
