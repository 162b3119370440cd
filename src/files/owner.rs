//! Files and folders that root makes in a folder of another user belong to that user.
//!
//! The state folder belongs to the service's user. A file of root in it, made by `restore` or by a
//! first `once`, would keep the service from starting. SQLite does the same for its side files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::Path;

/// Opens a file to read and write it; if it does not exist, creates it with mode 0640.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o640);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            options.create(true).truncate(false).open(path)
        }
        made => {
            let file = made?;
            give_to_folder(&file, path);
            Ok(file)
        }
    }
}

/// Gives a file that was just created to the owner of its folder. Only for a file that `create_new`
/// created: any other could be the target of a link that the folder's owner made.
pub(crate) fn give_to_folder(file: &File, path: &Path) {
    give(path, |user, group| fchown(file, Some(user), Some(group)));
}

/// Gives a file that takes the place of another one to the owner of that one.
///
/// # Errors
/// If the owner cannot be changed.
pub(crate) fn give_as(file: &File, replaced: &fs::Metadata) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(file, Some(replaced.uid()), Some(replaced.gid()))?;
    }
    Ok(())
}

/// Gives a folder or a socket that was just created to the owner of its folder.
pub(crate) fn give_path_to_folder(path: &Path) {
    give(path, |user, group| lchown(path, Some(user), Some(group)));
}

/// The folder in which a file lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates a folder and those above it, with mode 0750, unless they exist.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_folder(parent)?;
    }
    match DirBuilder::new().mode(0o750).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => {
            made?;
            give_path_to_folder(folder);
        }
    }
    Ok(())
}

/// Calls `change` with the user and group of the folder in which `path` lies, if this process is
/// root and the folder belongs to another user. It continues if the owner cannot be changed, as
/// SQLite does.
fn give(path: &Path, change: impl FnOnce(u32, u32) -> io::Result<()>) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let changed = match fs::metadata(folder_of(path)) {
        Ok(folder) if folder.uid() == 0 => Ok(()),
        Ok(folder) => change(folder.uid(), folder.gid()),
        Err(error) => Err(error),
    };
    if let Err(error) = changed {
        let path = path.display();
        tracing::warn!(%error, %path, "could not give a new file to the owner of its folder");
    }
}
