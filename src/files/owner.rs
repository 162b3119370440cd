//! Files and folders that root makes in a folder of another user belong to that user.
//!
//! The state folder belongs to the service's user. A file of root in it, made by `restore` or by a
//! first `once`, would keep the service from starting. SQLite does the same for its side files. That
//! user could also lay a link there, so root follows none in such a folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// True if this process is root, and the folder in which `path` lies belongs to another user.
pub(crate) fn is_in_foreign_folder(path: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    match fs::metadata(folder_of(path)) {
        Ok(folder) => folder.uid() != 0,
        Err(_) => false,
    }
}

/// Refuses a link that root would follow in a folder of another user, who may lead it anywhere.
///
/// # Errors
/// If `path` is one; the error says what to do.
pub(crate) fn refuse_foreign_link(path: &Path) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link && is_in_foreign_folder(path) {
        return Err(foreign_link(path));
    }
    Ok(())
}

fn foreign_link(path: &Path) -> io::Error {
    let user = match fs::metadata(folder_of(path)) {
        Ok(folder) => folder.uid().to_string(),
        Err(_) => "USER".to_owned(),
    };
    io::Error::other(format!(
        "it is a link in a folder of another user, and root follows none there: run the command as \
         that user (sudo -u '#{user}'), or name the real place as `path` in [store]"
    ))
}

/// Opens a file to read and write it; if it does not exist, creates it with mode 0640. Root follows
/// no link in a folder of another user.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let is_foreign = is_in_foreign_folder(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o640);
    if is_foreign {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let opened = options.create(true).truncate(false).open(path);
            match opened {
                Err(error) if is_foreign && is_loop(&error) => Err(foreign_link(path)),
                opened => opened,
            }
        }
        made => {
            let file = made?;
            give_to_folder(&file, path);
            Ok(file)
        }
    }
}

/// True if a link was met that was not to be followed.
fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
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

/// Gives a folder that was just created to the owner of the one above it.
fn give_path_to_folder(path: &Path) {
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
