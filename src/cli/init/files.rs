//! The files that `init` writes: their places, their group and mode; all are written, or none.
//!
//! Each file is written whole beside its place and then moved there, which fails if the place is
//! taken. So no file is overwritten, and no reader sees half a file.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::Gid;
use secrecy::{ExposeSecret, SecretString};

use crate::cli::exit::{USAGE, refuse};
use crate::files::owner::folder_of;

/// The folder of the shipped units.
const SERVICE_DIR: &str = "/etc/shopmirror";

/// The places of the files, none of which is taken.
pub(super) struct Files {
    pub(super) config: PathBuf,
    /// `None` if the operator has put the key file into its place.
    new_key: Option<PathBuf>,
}

/// What the files hold.
pub(super) struct Contents {
    pub(super) config: String,
    pub(super) key: SecretString,
    /// The login at the mail server, if there is one.
    pub(super) login: Option<SecretString>,
}

impl Files {
    /// The place of the configuration: the one that is named, or the usual one.
    pub(super) fn place(named: Option<PathBuf>) -> PathBuf {
        named.unwrap_or_else(usual_place)
    }

    /// Chooses the places, and refuses those that are taken or cannot be written.
    pub(super) fn plan(config: PathBuf, key_file: Option<&Path>) -> anyhow::Result<Self> {
        let folder = folder_of(&config);
        refuse_folder(folder)?;
        if is_taken(&config) {
            return refuse(
                USAGE,
                format!(
                    "{} exists already and is kept: edit it and run `shopmirror check`, change one \
                     key with --address, --time-zone or --currency alone, or name another file with \
                     --config",
                    config.display()
                ),
            );
        }
        let key = folder.join(key_name(&config));
        if let Some(path) = key_file
            && is_same_file(path, &key)
        {
            return Ok(Self {
                config,
                new_key: None,
            });
        }
        if is_taken(&key) {
            let path = key.display();
            return refuse(
                USAGE,
                format!(
                    "{path} exists already and is kept: to use the key in it, add --key-file \
                     {path}; else move it away"
                ),
            );
        }
        Ok(Self {
            config,
            new_key: Some(key),
        })
    }

    /// The name of the key file, as the configuration names it.
    pub(super) fn key_name(&self) -> String {
        key_name(&self.config)
    }

    /// The name of the file with the login at the mail server.
    pub(super) fn login_name(&self) -> String {
        secret_name(&self.config, "mail-login", "mail-login")
    }

    /// Writes the files durably, or none; returns the group that may read them, if there is one,
    /// and the files.
    pub(super) fn write(&self, contents: &Contents) -> anyhow::Result<(Option<Gid>, Vec<PathBuf>)> {
        let folder = folder_of(&self.config);
        let group = group(folder)?;
        let key_mode = if group.is_none() { 0o600 } else { 0o640 };
        let mut secrets = Vec::new();
        if let Some(path) = &self.new_key {
            let text = format!("{}\n", contents.key.expose_secret());
            secrets.push((path.clone(), text));
        }
        if let Some(login) = &contents.login {
            let path = folder.join(self.login_name());
            secrets.push((path, login.expose_secret().to_owned()));
        }
        let mut new_files = Vec::new();
        for (path, text) in &secrets {
            if let Err(error) = create(path, text, key_mode, group) {
                remove(&new_files);
                return Err(error);
            }
            new_files.push(path.clone());
        }
        let written = create(&self.config, &contents.config, 0o640, group);
        if let Err(error) = written.and_then(|()| sync(folder)) {
            remove(&new_files);
            return Err(error);
        }
        new_files.push(self.config.clone());
        Ok((group, new_files))
    }
}

/// Removes the secrets that were written: without the configuration they would only hinder the next
/// try.
fn remove(secrets: &[PathBuf]) {
    for path in secrets {
        let _ = fs::remove_file(path);
    }
}

/// In the folder of the units for root, if it exists; otherwise in the current folder.
fn usual_place() -> PathBuf {
    let service = Path::new(SERVICE_DIR);
    if rustix::process::geteuid().is_root() && service.is_dir() {
        service.join("shopmirror.toml")
    } else {
        PathBuf::from("shopmirror.toml")
    }
}

/// The name of a file of secrets: `alone` beside `shopmirror.toml`, `NAME-ENDING` beside `NAME.toml`,
/// as the units expect.
fn secret_name(config: &Path, alone: &str, ending: &str) -> String {
    match config.file_stem().and_then(|stem| stem.to_str()) {
        Some("shopmirror") | None => alone.to_owned(),
        Some(name) => format!("{name}-{ending}"),
    }
}

fn key_name(config: &Path) -> String {
    secret_name(config, "api-key", "key")
}

/// True if something has this name, also a link to nothing.
fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// True if both paths exist and lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Fails if no file can be created in the folder.
fn refuse_folder(folder: &Path) -> anyhow::Result<()> {
    tempfile::tempfile_in(folder).with_context(|| {
        format!(
            "cannot write to the folder {}: create it, run this as root, or name another file with \
             --config",
            folder.display()
        )
    })?;
    Ok(())
}

/// The group that may read the files: if root writes them, the group of the folder, which is that
/// of the service in the folder of the units.
fn group(folder: &Path) -> std::io::Result<Option<Gid>> {
    let group = fs::metadata(folder)?.gid();
    if rustix::process::geteuid().is_root() && group != 0 {
        Ok(Some(Gid::from_raw(group)))
    } else {
        Ok(None)
    }
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> anyhow::Result<()> {
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Writes a new file durably; fails if the name is taken.
fn create(path: &Path, text: &str, mode: u32, group: Option<Gid>) -> anyhow::Result<()> {
    try_create(path, text, mode, group)
        .with_context(|| format!("cannot write {}; nothing was written", path.display()))
}

fn try_create(path: &Path, text: &str, mode: u32, group: Option<Gid>) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
    rustix::fs::fchown(&file, None, group)?;
    // After the group, so that no other group may read it for a moment.
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_has_the_name_that_the_path_unit_watches() {
        for (config, key) in [
            ("/etc/shopmirror/shopmirror.toml", "api-key"),
            ("/etc/shopmirror/north.toml", "north-key"),
            ("shopmirror.toml", "api-key"),
        ] {
            assert_eq!(key_name(Path::new(config)), key);
        }
        let single = include_str!("../../../systemd/shopmirror-key.path");
        assert!(single.contains("PathChanged=/etc/shopmirror/api-key\n"));
        let template = include_str!("../../../systemd/shopmirror-key@.path");
        assert!(template.contains("PathChanged=/etc/shopmirror/%i-key\n"));
    }
}
