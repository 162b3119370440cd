//! The folder of daily backups: what they are called, which is the newest, which are removed.
//!
//! A file counts as ours only if its whole name is one that this module makes for the same store;
//! no other file in the folder is touched.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::files::owner;
use crate::store::identity::Identities;
#[cfg(feature = "s3")]
use crate::store::maintenance::backup;
use crate::store::maintenance::backup::PARTIAL;
use crate::store::open;

/// The time in a name: `20261121T033000Z`.
const STAMP: &str = "%Y%m%dT%H%M%SZ";
/// A backup dated this far ahead was made while the clock was wrong.
const CLOCK_WAS_WRONG: Duration = Duration::from_secs(86_400);

/// A time as part of a file's name: UTC, to the second, so that names sort as times.
pub(in crate::store) fn name_stamp(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::UTC)
        .strftime(STAMP)
        .to_string()
}

/// The backups of one store in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFolder {
    folder: PathBuf,
    store: PathBuf,
    stem: String,
}

/// One backup in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// The file.
    pub path: PathBuf,
    /// When it was begun, to the second.
    pub at: Timestamp,
}

impl BackupFile {
    /// Whether its time lies in the future, so that it does not say when the backup was made.
    #[must_use]
    pub fn is_from_future(&self, now: Timestamp) -> bool {
        is_from_future(self.at, now)
    }
}

impl BackupFolder {
    /// The backups of the store at `store` in `folder`.
    #[must_use]
    pub fn new(folder: &Path, store: &Path) -> Self {
        let stem = store
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self {
            folder: folder.to_owned(),
            store: store.to_owned(),
            stem,
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder lies on the disk of the store, as far as the system tells.
    #[must_use]
    pub fn is_on_disk_of_store(&self) -> bool {
        match (fs::metadata(&self.folder), fs::metadata(&self.store)) {
            (Ok(folder), Ok(store)) => folder.dev() == store.dev(),
            _ => false,
        }
    }

    /// What the names of its backups begin with: the name of the store.
    #[must_use]
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Where a backup begun at `at` is written.
    #[must_use]
    pub fn path(&self, at: Timestamp) -> PathBuf {
        self.folder
            .join(format!("{}-{}.db", self.stem, name_stamp(at)))
    }

    /// Creates the folder unless it exists, with mode 0750, and removes the backups that a killed
    /// process left unfinished. An archive may be written meanwhile.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub fn prepare(&self) -> io::Result<()> {
        owner::create_folder(&self.folder)?;
        for name in self.names()? {
            // `mirror-20261121T033000Z.db.4gT7x1.partial`, or its journal.
            if let Some((whole, _)) = name.rsplit_once(PARTIAL)
                && let Some((backup, _)) = whole.rsplit_once('.')
                && self.time_of(backup).is_some()
            {
                fs::remove_file(self.folder.join(name))?;
            }
        }
        Ok(())
    }

    /// The backups, newest first. None if there is no folder.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<BackupFile>> {
        let mut files = Vec::new();
        for name in self.names()? {
            if let Some(at) = self.time_of(&name) {
                let path = self.folder.join(name);
                files.push(BackupFile { path, at });
            }
        }
        files.sort_by_key(|file| std::cmp::Reverse(file.at));
        Ok(files)
    }

    /// Removes all but the newest `keep` backups and the newest one of each store: after a store was
    /// lost and begun again, its last backup is all that is left of it. Backups from the future
    /// count as the oldest.
    ///
    /// # Errors
    /// If a file cannot be removed; newer ones stay in any case.
    pub fn prune(&self, keep: usize, now: Timestamp) -> io::Result<()> {
        let files = self.list()?;
        if files.len() <= keep {
            return Ok(());
        }
        let mut backups = Vec::new();
        for file in files {
            let store = identity_of(&file.path);
            let BackupFile { path: place, at } = file;
            backups.push(DatedBackup { place, at, store });
        }
        for path in surplus(backups, keep, now) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The time in a name that this folder's backups have; `None` for every other name.
    fn time_of(&self, name: &str) -> Option<Timestamp> {
        let stamp = name
            .strip_prefix(&self.stem)?
            .strip_prefix('-')?
            .strip_suffix(".db")?;
        stamp_of(stamp)
    }
}

/// The archive of the off-site backup, which lies beside the backups while it is sent.
#[cfg(feature = "s3")]
impl BackupFolder {
    fn archive_name(&self) -> String {
        format!("{}-offsite.age", self.stem)
    }

    /// The file of the archive that is being sent off-site.
    pub(super) fn archive(&self) -> PathBuf {
        self.folder.join(self.archive_name())
    }

    /// The file that says how far that archive was sent.
    pub(super) fn archive_note(&self) -> PathBuf {
        self.folder.join(format!("{}-offsite.json", self.stem))
    }

    /// Creates the folder unless it exists, with mode 0750, and removes the archives that a killed
    /// process left unfinished. A backup may be written meanwhile.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub(super) fn prepare_for_archive(&self) -> io::Result<()> {
        owner::create_folder(&self.folder)?;
        for name in self.names()? {
            if backup::is_partial_of(&self.archive_name(), &name) {
                fs::remove_file(self.folder.join(&name))?;
            }
        }
        Ok(())
    }
}

/// The time that [`name_stamp`] writes so; `None` for every other text.
pub(super) fn stamp_of(text: &str) -> Option<Timestamp> {
    let at = jiff::civil::DateTime::strptime(STAMP, text).ok()?;
    let at = at.to_zoned_datetime(TimeZone::UTC).ok()?.timestamp();
    // A text that only parses as a time is not one of ours.
    if name_stamp(at) == text {
        Some(at)
    } else {
        None
    }
}

/// A backup anywhere, as the rule of removal sees it.
pub(super) struct DatedBackup<P> {
    /// Its file or object.
    pub(super) place: P,
    /// When it was begun.
    pub(super) at: Timestamp,
    /// Which store it is of; `None` if it cannot be read.
    pub(super) store: Option<String>,
}

/// The places of the backups that go: all but the newest `keep` and the newest one of each store.
/// Those from the future count as the oldest.
pub(super) fn surplus<P>(mut backups: Vec<DatedBackup<P>>, keep: usize, now: Timestamp) -> Vec<P> {
    backups.sort_by_key(|backup| (is_from_future(backup.at, now), std::cmp::Reverse(backup.at)));
    let mut stores = HashSet::new();
    let mut surplus = Vec::new();
    for (number, backup) in backups.into_iter().enumerate() {
        let is_newest_of_store = match backup.store {
            Some(store) => stores.insert(store),
            None => false,
        };
        if number >= keep && !is_newest_of_store {
            surplus.push(backup.place);
        }
    }
    surplus
}

/// Whether a time lies so far ahead that the clock was wrong when it was noted.
pub(super) fn is_from_future(at: Timestamp, now: Timestamp) -> bool {
    at > now.saturating_add(CLOCK_WAS_WRONG).unwrap_or(now)
}

/// The identity of the store in a backup; `None` if it cannot be read.
pub(super) fn identity_of(backup: &Path) -> Option<String> {
    let connection = open::open_reader(backup).ok()?;
    let identities = Identities::read(&connection).ok()?;
    Some(identities.first().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::store::fixtures;
    use crate::store::{CopyControl, Store, back_up};

    #[test]
    fn backups_from_the_future_are_the_first_that_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = BackupFolder::new(dir.path(), Path::new("mirror.db"));
        let now: Timestamp = "2026-05-04T00:00:00Z".parse().unwrap();
        let past = now - Duration::from_secs(86_400);
        for at in [now, past, "2099-01-01T00:00:00Z".parse().unwrap()] {
            fs::write(folder.path(at), "").unwrap();
        }
        folder.prune(2, now).unwrap();
        let left: Vec<_> = folder.list().unwrap().iter().map(|file| file.at).collect();
        assert_eq!(left, [now, past]);
    }
    #[tokio::test]
    async fn the_newest_backup_of_a_store_that_was_begun_again_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("mirror.db");
        let folder = BackupFolder::new(&dir.path().join("backups"), &store);
        folder.prepare().unwrap();
        let control = CopyControl {
            stop: CancellationToken::new(),
            progress: Arc::new(|_, _| ()),
        };
        let mut at: Timestamp = "2026-05-04T00:00:00Z".parse().unwrap();
        for _ in 0..2 {
            for name in ["mirror.db", "mirror.db-wal", "mirror.db-lock"] {
                let _ = fs::remove_file(dir.path().join(name));
            }
            let opened = Store::open(&store).unwrap();
            fixtures::Poll::USUAL
                .shows(&opened, &[fixtures::record(1, "N")])
                .await;
            opened.close().await.unwrap();
            drop(opened);
            for _ in 0..3 {
                back_up(&store, &folder.path(at), false, &control).unwrap();
                folder.prune(2, at).unwrap();
                at += Duration::from_secs(86_400);
            }
        }
        let left: Vec<_> = folder.list().unwrap().iter().map(|file| file.at).collect();
        let days = [6, 5, 3].map(|day| at - Duration::from_secs((7 - day) * 86_400));
        assert_eq!(left, days, "two of the second store, one of the first");
    }
}
