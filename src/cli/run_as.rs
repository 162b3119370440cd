//! What polls and delivers as root does so as the user to whom the folder of the store belongs.
//!
//! That user may lay links in the folder, and name programs and files in its configuration. Root
//! would follow them, and would leave files that the service cannot use.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::{Gid, Uid, User, initgroups, setgroups, setresgid, setresuid};

use super::read_config;
use crate::config::Config;
use crate::files::owner;

/// Reads the configuration. As root, then becomes the user to whom the folder of the store belongs,
/// and reads it again, so that what that user cannot read is said now and not by a later reload.
pub(super) fn read_config_and_become_owner(path: &Path) -> anyhow::Result<Config> {
    let config = read_config(path)?;
    if !rustix::process::geteuid().is_root() {
        return Ok(config);
    }
    let Some((folder, found)) = folder_to_be(&config.store.path) else {
        return Ok(config);
    };
    if found.uid() == 0 {
        return Ok(config);
    }
    let user = User::from_uid(Uid::from_raw(found.uid())).map_err(io::Error::from)?;
    let name = match &user {
        Some(user) => user.name.clone(),
        None => format!("user {}", found.uid()),
    };
    let folder = folder.display();
    become_user(&found, user).with_context(|| {
        let id = found.uid();
        format!(
            "could not become {name}, to whom {folder} belongs: run the command as that user \
             (sudo -u '#{id}')"
        )
    })?;
    tracing::info!("runs as {name}, to whom {folder} belongs");
    read_all(path).with_context(|| format!("as {name}, to whom {folder} belongs"))
}

/// The folder in which the store lies; if it is still to be made, the one in which that is done.
fn folder_to_be(store: &Path) -> Option<(PathBuf, fs::Metadata)> {
    let folder = std::path::absolute(owner::folder_of(store)).ok()?;
    for folder in folder.ancestors() {
        if let Ok(found) = fs::metadata(folder) {
            return Some((folder.to_owned(), found));
        }
    }
    None
}

/// Takes the ids of a user for good, in all threads; those of the folder if no list names the user.
fn become_user(folder: &fs::Metadata, user: Option<User>) -> io::Result<()> {
    let id = Uid::from_raw(folder.uid());
    let group = match user {
        Some(user) => {
            initgroups(&CString::new(user.name)?, user.gid)?;
            user.gid
        }
        None => {
            let group = Gid::from_raw(folder.gid());
            setgroups(&[group])?;
            group
        }
    };
    setresgid(group, group, group)?;
    setresuid(id, id, id)?;
    Ok(())
}

/// Reads the configuration and the key.
fn read_all(path: &Path) -> anyhow::Result<Config> {
    let config = read_config(path)?;
    config.workspace.key.read()?;
    Ok(config)
}
