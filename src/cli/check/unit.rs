//! What the systemd unit of a configuration gives the daemon: its key, the programs it may run and the
//! folders it may write to.
//!
//! `check` is run by hand, without the credentials and the limits of the unit. It reads the unit and
//! its drop-ins instead, as text; nothing is asked of systemd.

use std::fs;
use std::path::{Path, PathBuf};

/// Where systemd looks for units and drop-ins.
const UNIT_DIRS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
];

/// The directives of a unit and of its drop-ins.
pub(in crate::cli) struct Unit {
    directives: Vec<(String, String)>,
}

/// Where the unit takes the API key from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnitKey {
    /// A credential from this file, as it is.
    File(PathBuf),
    /// A credential that only systemd can read: encrypted, or written into the unit.
    Sealed,
    /// The variable `SHOPMIRROR_API_KEY`.
    Variable,
}

impl Unit {
    /// The unit that runs the daemon with the configuration at `config`; `None` if no unit does.
    pub(in crate::cli) fn of_config(config: &Path) -> Option<Self> {
        let config = std::path::absolute(config).ok()?;
        if config.parent()? != Path::new("/etc/shopmirror") {
            return None;
        }
        let units = match config.file_stem()?.to_str()? {
            "shopmirror" => vec!["shopmirror.service".to_owned()],
            name => vec!["shopmirror@.service".to_owned(), format!("shopmirror@{name}.service")],
        };
        Self::read(&UNIT_DIRS.map(PathBuf::from), &units)
    }

    fn read(dirs: &[PathBuf], units: &[String]) -> Option<Self> {
        let mut files = Vec::new();
        for (unit, dir) in units.iter().flat_map(|unit| dirs.iter().map(move |dir| (unit, dir))) {
            files.push(dir.join(unit));
            let drop_ins = fs::read_dir(dir.join(format!("{unit}.d"))).into_iter().flatten();
            files.extend(
                drop_ins
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| path.extension().is_some_and(|extension| extension == "conf")),
            );
        }
        let texts: Vec<String> =
            files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
        let directives = texts.iter().flat_map(|text| text.lines()).filter_map(|line| {
            let (name, value) = line.trim().split_once('=')?;
            (!name.starts_with('#')).then(|| (name.to_owned(), value.trim().to_owned()))
        });
        (!texts.is_empty()).then(|| Self { directives: directives.collect() })
    }

    fn values(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        self.directives
            .iter()
            .filter(move |(name, _)| names.contains(&name.as_str()))
            .map(|(_, value)| value.as_str())
    }

    /// Where the unit takes the key from; `None` if it gives none.
    pub(super) fn key(&self) -> Option<UnitKey> {
        let is_key = |value: &&str| value.starts_with("api-key:");
        if let Some(value) = self.values(&["LoadCredential"]).find(is_key) {
            return Some(UnitKey::File(PathBuf::from(value.strip_prefix("api-key:")?)));
        }
        let sealed = ["LoadCredentialEncrypted", "SetCredential", "SetCredentialEncrypted"];
        if self.values(&sealed).any(|value| is_key(&value)) {
            return Some(UnitKey::Sealed);
        }
        let names_key = |value: &str| value.contains("SHOPMIRROR_API_KEY=");
        self.values(&["Environment"]).any(names_key).then_some(UnitKey::Variable)
    }

    /// True if the unit's service may execute this program.
    pub(super) fn may_execute(&self, program: &Path) -> bool {
        let covers = |list: &str| {
            list.split_whitespace()
                .any(|path| program.starts_with(path.trim_start_matches(['-', '+'])))
        };
        self.values(&["NoExecPaths"]).next().is_none() || self.values(&["ExecPaths"]).any(covers)
    }

    /// True if the unit's service may write to this folder, as far as the unit limits it.
    pub(super) fn may_write(&self, folder: &Path) -> bool {
        let covers = |list: &str| {
            list.split_whitespace()
                .any(|path| folder.starts_with(path.trim_start_matches(['-', '+'])))
        };
        let is_limited = self.values(&["ProtectSystem"]).last() == Some("strict");
        !is_limited
            || folder.starts_with("/var/lib/shopmirror")
            || self.values(&["ReadWritePaths"]).any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(drop_in: &str) -> Unit {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("shopmirror.service.d");
        fs::create_dir(&folder).unwrap();
        let shipped = include_str!("../../../systemd/shopmirror.service");
        fs::write(dir.path().join("shopmirror.service"), shipped).unwrap();
        fs::write(folder.join("mine.conf"), drop_in).unwrap();
        fs::write(folder.join("mine.conf.bak"), "LoadCredential=api-key:/old").unwrap();
        let units = ["shopmirror.service".to_owned()];
        Unit::read(&[dir.path().to_owned()], &units).unwrap()
    }

    #[test]
    fn the_key_of_a_unit_is_found_in_its_drop_ins() {
        assert_eq!(unit("").key(), None);
        let shipped = include_str!("../../../systemd/drop-ins/credential.conf");
        assert_eq!(unit(shipped).key(), Some(UnitKey::File("/etc/shopmirror/api-key".into())));
        let sealed = "[Service]\nLoadCredentialEncrypted=api-key:/etc/shopmirror/api-key.cred\n";
        assert_eq!(unit(sealed).key(), Some(UnitKey::Sealed));
        assert_eq!(unit("Environment=SHOPMIRROR_API_KEY=x").key(), Some(UnitKey::Variable));
    }

    #[test]
    fn a_program_outside_the_unit_s_list_may_not_be_executed() {
        let print = Path::new("/usr/local/bin/print-label");
        assert!(!unit("").may_execute(print));
        assert!(unit("").may_execute(Path::new("/usr/bin/shopmirror")));
        assert!(unit("[Service]\nExecPaths=/usr/local/bin/print-label\n").may_execute(print));
    }

    #[test]
    fn a_folder_outside_the_unit_s_list_may_not_be_written() {
        let exports = Path::new("/srv/shop-exports/daily");
        assert!(!unit("").may_write(exports));
        assert!(unit("").may_write(Path::new("/var/lib/shopmirror/reports")));
        let shipped = include_str!("../../../systemd/drop-ins/file-sink.conf");
        assert!(unit(shipped).may_write(exports));
        assert!(!unit(shipped).may_write(Path::new("/srv/shop-exports-old")));
    }
}
