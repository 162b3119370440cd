//! A file that is being written under a temporary name: locked, removed if it is not completed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::backup_error::BackupError;
use super::open;
use crate::file_lock::lock_soon;
use crate::file_owner;

/// What a file that is being written is called beside its own name.
pub(super) const SUFFIX: &str = ".partial";

/// A file that is being written. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    /// Held open for its lock.
    file: File,
    published: bool,
}

impl Partial {
    /// Makes the file that is to become `target`, beside it. One that a killed process left is
    /// replaced.
    pub(super) fn create(target: &Path) -> Result<Self, BackupError> {
        let path = open::with_suffix(target, SUFFIX);
        let failed = |error| BackupError::io("write", &path)(error);
        if !remove_abandoned(&path).map_err(failed)? {
            return Err(BackupError::UnderWay(target.to_owned()));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(&path)
            .map_err(failed)?;
        file.try_lock().map_err(|_| BackupError::UnderWay(target.to_owned()))?;
        // Whatever the process's umask is.
        let partial = Self { path, file, published: false };
        partial
            .file
            .set_permissions(fs::Permissions::from_mode(0o640))
            .map_err(BackupError::io("set the mode of", &partial.path))?;
        Ok(partial)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses to begin unless the disk has `needed` free bytes.
    pub(super) fn refuse_without_room(&self, needed: u64) -> Result<(), BackupError> {
        let Ok(disk) = rustix::fs::fstatvfs(&self.file) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < needed {
            return Err(BackupError::NoRoom { path: self.path.clone(), needed, free });
        }
        Ok(())
    }

    /// Writes everything to the disk and returns the size.
    pub(super) fn sync(&self) -> Result<u64, BackupError> {
        let synced = self.file.sync_all().and_then(|()| self.file.metadata());
        Ok(synced.map_err(BackupError::io("write", &self.path))?.len())
    }

    /// Gives the file to the owner of its folder, if this process is root.
    pub(super) fn give_to_folder(&self) {
        file_owner::give_to_folder(&self.file, &self.path);
    }

    /// Gives the file to the owner of the store that it replaces; without one, to the owner of its folder.
    pub(super) fn give_as(&self, store: &Path) -> Result<(), BackupError> {
        match fs::metadata(store) {
            Ok(replaced) => file_owner::give_as(&self.file, &replaced)
                .map_err(BackupError::io("give its owner", &self.path)),
            Err(_) => {
                self.give_to_folder();
                Ok(())
            }
        }
    }

    /// Gives the synced file its name, durably.
    pub(super) fn publish(mut self, target: &Path, replace: bool) -> Result<(), BackupError> {
        if replace {
            fs::rename(&self.path, target).map_err(BackupError::io("write", target))?;
        } else {
            rename_to_free_name(&self.path, target)?;
        }
        self.published = true;
        sync_folder_of(target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.published {
            // What cannot be removed now is removed by the next backup to the same name.
            for suffix in ["-journal", "-wal", "-shm", ""] {
                let _ = fs::remove_file(open::with_suffix(&self.path, suffix));
            }
        }
    }
}

/// Removes what a killed process left at `path`; false if another process is writing it.
pub(super) fn remove_abandoned(path: &Path) -> io::Result<bool> {
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    match OpenOptions::new().read(true).custom_flags(no_link).open(path) {
        Ok(file) => match lock_soon(&file) {
            Ok(()) if is_named(&file, path)? => {}
            // It was completed or removed meanwhile. What stands there now is another process's.
            Ok(()) => return Ok(!path.exists()),
            Err(fs::TryLockError::WouldBlock) => return Ok(false),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    }
    for suffix in ["-journal", "-wal", "-shm", ""] {
        match fs::remove_file(open::with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(true)
}

/// Whether the path names this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let file = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (file.dev(), file.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn rename_to_free_name(from: &Path, to: &Path) -> Result<(), BackupError> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(BackupError::Exists(to.to_owned())),
        // A file system that does not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => {
            fs::rename(from, to).map_err(BackupError::io("write", to))
        }
        Err(Errno::INVAL | Errno::NOSYS) => Err(BackupError::Exists(to.to_owned())),
        Err(error) => Err(BackupError::io("write", to)(error.into())),
    }
}

/// Makes the names in the folder of `path` durable.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), BackupError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(BackupError::io("sync", folder))
}
