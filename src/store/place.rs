//! Where a store lies, and what says that one was made there: its lock file, a note in the state
//! folder, a backup of its name.
//!
//! The database is the only history there is. One that is gone is never begun again in silence: a
//! person puts it back, restores a backup, or says that an empty one is wanted.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::StoreError;
use super::identity::Identities;
use super::open::{self, Lock};
use super::schema;
use crate::config::{BackupSettings, StoreSettings};
use crate::files::owner;
use crate::store::maintenance::backup_folder::BackupFolder;
use crate::store::maintenance::restore;

/// Where a store lies, and what else may say that there was one.
#[derive(Debug, Clone)]
pub struct StorePlace {
    /// The file.
    pub path: PathBuf,
    /// The file in the state folder that names the store. If the store is on another disk, it says
    /// so when that disk is missing.
    note: Option<PathBuf>,
    /// The folder of the daily backups.
    backups: Option<PathBuf>,
}

impl From<&Path> for StorePlace {
    fn from(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            note: None,
            backups: None,
        }
    }
}

impl From<&PathBuf> for StorePlace {
    fn from(path: &PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<&Self> for StorePlace {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

impl StorePlace {
    /// The place of the configured store.
    #[must_use]
    pub fn new(store: &StoreSettings, backup: &BackupSettings) -> Self {
        Self {
            path: store.path.clone(),
            note: store.note.clone(),
            backups: Some(backup.path.clone()),
        }
    }

    /// Refuses a place without a database where something says that there was one.
    ///
    /// # Errors
    /// [`StoreError::Lost`], or a file that cannot be read.
    pub fn refuse_lost(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            // SQLite takes an empty file for a new database, and deletes its write-ahead log.
            Ok(found) if found.len() == 0 => self.refuse_without_content(),
            Err(error) if error.kind() == ErrorKind::NotFound => self.refuse_without_content(),
            // Opening it says what is wrong.
            _ => Ok(()),
        }
    }

    /// The same where the database is known to hold nothing.
    pub(super) fn refuse_without_content(&self) -> Result<(), StoreError> {
        let newest = self.newest_backup();
        let Some(trace) = self.trace(newest.is_some())? else {
            return Ok(());
        };
        Err(StoreError::Lost {
            path: self.path.clone(),
            trace,
            newest,
        })
    }

    /// What says that there was a store here.
    fn trace(&self, has_backup: bool) -> Result<Option<String>, StoreError> {
        if open::noted_identity(&self.path).is_some() {
            return Ok(Some(
                "its lock file names one that was made there".to_owned(),
            ));
        }
        if let Some(note) = &self.note
            && let Some(path) = noted_path(note)?
        {
            let note = note.display();
            return Ok(Some(format!("{note} names one that was made at {path}")));
        }
        if has_backup {
            return Ok(Some("there is a backup of one".to_owned()));
        }
        Ok(None)
    }

    fn newest_backup(&self) -> Option<PathBuf> {
        let folder = BackupFolder::new(self.backups.as_deref()?, &self.path);
        let newest = folder.list().ok()?.into_iter().next()?;
        Some(newest.path)
    }

    /// Notes the identity of the store that is open here, where the next start looks for it. What
    /// is noted already is not written again.
    pub(super) fn note_identity(
        &self,
        connection: &Connection,
        lock: &mut Lock,
    ) -> Result<(), StoreError> {
        let identities = Identities::read(connection)?;
        let identity = identities.first();
        lock.note(&self.path, identity)?;
        if let Some(note) = &self.note {
            write_note(note, identity, &self.path).map_err(StoreError::io("write", note))?;
        }
        Ok(())
    }

    /// Takes back what says that there was a store here; backups stay.
    fn forget(&self, lock: &mut Lock) -> Result<(), StoreError> {
        lock.note(&self.path, "")?;
        let Some(note) = &self.note else {
            return Ok(());
        };
        match fs::remove_file(note) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StoreError::io("remove", note)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Makes an empty store where one was lost. It belongs to the owner of its folder. Blocks.
///
/// # Errors
/// [`StoreError::NotLost`] if there is a database; nothing is changed then.
pub fn begin_again(place: &StorePlace, now: jiff::Timestamp) -> Result<(), StoreError> {
    let folder = owner::folder_of(&place.path);
    owner::create_folder(folder).map_err(StoreError::io("make", folder))?;
    let mut lock = Lock::take(&place.path)?;
    if fs::metadata(&place.path).is_ok_and(|found| found.len() > 0) {
        return Err(StoreError::NotLost(place.path.clone()));
    }
    restore::set_aside_log(&place.path, now)?;
    place.forget(&mut lock)?;
    drop(lock);
    let without_backups = StorePlace {
        backups: None,
        ..place.clone()
    };
    schema::open(&without_backups).map(drop)
}

/// The path of the store that the state folder's note names; `None` without a note.
fn noted_path(note: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(note) {
        Ok(text) => Ok(text.lines().nth(1).map(str::to_owned)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", note)(error)),
    }
}

/// Writes the identity and the path of a store, durably.
fn write_note(note: &Path, identity: &str, store: &Path) -> std::io::Result<()> {
    let text = format!("{identity}\n{}\n", store.display());
    if fs::read_to_string(note).is_ok_and(|noted| noted == text) {
        return Ok(());
    }
    let folder = owner::folder_of(note);
    owner::create_folder(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    owner::give_to_folder(file.as_file(), file.path());
    file.persist(note).map_err(|failed| failed.error)?;
    File::open(folder)?.sync_all()
}
