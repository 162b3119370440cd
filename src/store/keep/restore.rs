//! Puts a backup in the place of the store, and keeps the store that was there beside it.
//!
//! The backup is copied and checked first; until the last rename the store is as it was, and at no
//! moment is there none. Refused while another process uses the store. Records that were forgotten
//! after the backup was made are forgotten again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::files::owner;
use crate::store::error::StoreError;
use crate::store::keep::backup::{self, CopyControl, CopyFacts};
use crate::store::keep::{backup_folder, checkpoint, forget};
use crate::store::{identity, open, schema, search_index};

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What the store holds now.
    #[serde(flatten)]
    pub facts: CopyFacts,
    /// Where the store is that was there before; `None` if there was none.
    pub kept: Option<PathBuf>,
    /// How many records the backup held that `forget` had removed since, and that were forgotten
    /// again. `None` if no store can tell: the backup may hold some.
    pub forgotten_again: Option<usize>,
}

/// Puts the backup `file` in the place of the store at `store`. Blocks.
///
/// Positions, versions and event ids go on from where the backup has them, so that what is seen
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
    let folder = owner::folder_of(store);
    owner::make_folder(folder).map_err(StoreError::io("make", folder))?;
    let _lock = open::Lock::take(store)?;
    let copy = backup::copy(file, store, control).map_err(|error| not_a_backup(file, error))?;
    match fs::metadata(store) {
        Ok(replaced) => owner::give_as(copy.as_file(), &replaced)
            .map_err(StoreError::io("give its owner", copy.path()))?,
        Err(_) => owner::give_to_folder(copy.as_file(), copy.path()),
    }
    let forgotten_again = adapt(&copy, store)?;
    let facts = backup::facts(&copy)?;
    // It follows another log, and may hold words that this one has not.
    search_index::remove(store)?;
    let kept = swap(store, copy, now)?;
    Ok(Restored {
        facts,
        kept,
        forgotten_again,
    })
}

/// Brings the copy to the schema of this program; forgets records in it; and gives it
/// another identity for what follows.
fn adapt(copy: &NamedTempFile, store: &Path) -> Result<Option<usize>, StoreError> {
    let mut connection = open::connect(copy.path(), open::LOCK_WAIT)?;
    // Nothing of it stays beside a copy that is thrown away.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    schema::bring_up_to_date(&mut connection)?;
    let records = forget::tombstones(store);
    let again = records
        .map(|records| forget::forget_again(&mut connection, &records))
        .transpose()?;
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

/// Gives the copy the name of the store, which gets a dated one.
fn swap(store: &Path, copy: NamedTempFile, now: Timestamp) -> Result<Option<PathBuf>, StoreError> {
    if !store.exists() {
        backup::publish(copy, store, false)?;
        return Ok(None);
    }
    settle(store)?;
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-replaced-{}.db", backup_folder::name_stamp(now));
    let kept = store.with_file_name(name);
    fs::hard_link(store, &kept).map_err(StoreError::io("keep the store as", &kept))?;
    // A log left here would be taken for one of the restored store.
    let moved = move_side_files(store, &kept);
    let moved = moved.map_err(StoreError::io("keep the log of", store));
    let synced = moved.and_then(|()| backup::sync_folder_of(store));
    let swapped = synced.and_then(|()| backup::publish(copy, store, true));
    if swapped.is_err() {
        let _ = move_side_files(&kept, store).and_then(|()| fs::remove_file(&kept));
    }
    swapped.map(|()| Some(kept))
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

/// Moves the content of the write-ahead log into the store itself. A damaged store is what a
/// restore is for: it is kept as it is, with its log.
fn settle(store: &Path) -> Result<(), StoreError> {
    let connection = open::connect(store, open::LOCK_WAIT).map_err(StoreError::from);
    match connection.and_then(|connection| checkpoint::run(&connection, "TRUNCATE")) {
        Ok(false) => Err(StoreError::Busy),
        Err(error) => {
            tracing::debug!(%error, "could not settle the write-ahead log of the store to be replaced");
            Ok(())
        }
        Ok(true) => Ok(()),
    }
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
}
