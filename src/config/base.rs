//! The environment in which a configuration file is read: its folder, the state folder, the other
//! sources of the key.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use secrecy::SecretString;

use crate::files::owner::{folder_of, is_in_foreign_folder};
use crate::text::locale::Locale;

/// Where the shipped units keep the configuration and the state.
const CONFIG_DIR: &str = "/etc/shopmirror";
const STATE_DIR: &str = "/var/lib/shopmirror";

/// The folders that relative paths start from, and where a key may come from.
#[derive(Debug, Clone, Default)]
pub struct Base {
    /// The file.
    pub file: PathBuf,
    /// The folder of the file. Files that are only read are relative to it.
    pub dir: PathBuf,
    /// The folder of the service's state. Files that are written are relative to it, or to `dir`
    /// if that is not set.
    pub state_dir: Option<PathBuf>,
    /// `$CREDENTIALS_DIRECTORY`, which may hold the file `api-key`.
    pub credentials_dir: Option<PathBuf>,
    /// The value of `SHOPMIRROR_API_KEY`.
    pub env_key: Option<SecretString>,
    /// The time zone of the machine, which is the shop's unless the file names another; `None` is
    /// UTC.
    pub time_zone: Option<TimeZone>,
    /// How this machine writes numbers and days, by its variable `LANG`.
    pub locale: Locale,
}

impl Base {
    /// The base for the file at `path`, with the environment variables `$STATE_DIRECTORY`,
    /// `$CREDENTIALS_DIRECTORY` and `SHOPMIRROR_API_KEY`. Without the first, a file in
    /// `/etc/shopmirror` has its state where the shipped units put it.
    pub(super) fn for_file(path: &Path) -> Self {
        let credentials_dir = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let env_key = std::env::var("SHOPMIRROR_API_KEY").ok();
        let env_key = env_key.map(SecretString::from);
        Self {
            file: path.to_owned(),
            dir: folder_of(path).to_owned(),
            state_dir: service_state_dir().or_else(|| installed_state_dir(path)),
            credentials_dir,
            env_key,
            time_zone: Some(TimeZone::system()),
            locale: Locale::of_machine(std::env::var("LANG").ok().as_deref()),
        }
    }

    /// The path of a file that this process writes.
    pub(super) fn state_path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.state_dir.as_deref().unwrap_or(&self.dir).join(path)
    }

    /// The path of the store; if it is a link, the file that it leads to. The lock and the socket
    /// lie beside that file, so that they are found through every link. A link that root may not
    /// follow stays: opening it is refused.
    pub(super) fn store_path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.state_path(path);
        match std::fs::read_link(&path) {
            Ok(_) if is_in_foreign_folder(&path) => path,
            Ok(target) => std::fs::canonicalize(&path).unwrap_or(path.with_file_name(target)),
            Err(_) => path,
        }
    }
}

/// The state folder that systemd has given to this process.
fn service_state_dir() -> Option<PathBuf> {
    let dirs = std::env::var("STATE_DIRECTORY").ok()?;
    // systemd lists every folder of StateDirectory=, separated by colons. The first is ours.
    let first = PathBuf::from(dirs.split(':').next()?);
    if first.is_absolute() {
        Some(first)
    } else {
        None
    }
}

/// The state folder of the shipped units for a configuration of theirs, so that a command typed by
/// hand finds the database of the service.
fn installed_state_dir(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    if path.parent()? != Path::new(CONFIG_DIR) {
        return None;
    }
    let state = Path::new(STATE_DIR);
    match path.file_stem() {
        Some(name) if name != "shopmirror" => Some(state.join(name)),
        _ => Some(state.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_typed_by_hand_finds_the_database_of_the_service() {
        let state = |path: &str| installed_state_dir(Path::new(path));
        assert_eq!(
            state("/etc/shopmirror/shopmirror.toml"),
            Some("/var/lib/shopmirror".into())
        );
        assert_eq!(
            state("/etc/shopmirror/north.toml"),
            Some("/var/lib/shopmirror/north".into())
        );
        assert_eq!(state("/etc/shopmirror/old/shopmirror.toml"), None);
        assert_eq!(state("shopmirror.toml"), None);
    }

    #[test]
    fn the_database_has_one_path_through_every_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, dir.path().join(name)).unwrap();
        };
        link("mirror.db", "link.db");
        link("link.db", "far.db");
        let base = Base {
            dir: dir.path().to_owned(),
            ..Base::default()
        };
        let store = dir.path().join("mirror.db");
        assert_eq!(
            base.store_path("link.db"),
            store,
            "the file is yet to be made"
        );
        std::fs::write(&store, "").unwrap();
        for name in ["mirror.db", "link.db", "far.db"] {
            assert_eq!(
                base.store_path(name),
                dir.path().join("mirror.db"),
                "{name}"
            );
        }
    }
}
