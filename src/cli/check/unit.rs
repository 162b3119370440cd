//! The systemd unit that runs a configuration, as systemd has loaded it: its user, its key, the
//! programs that it may execute and the folders that it may write to.
//!
//! `check` is run by hand, without the user, the credentials and the limits of the unit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::ExposeSecret;

use crate::config::{KeyError, KeySource};

/// The properties that `systemctl show` is asked for.
const PROPERTIES: &str = "LoadState,ExecStart,User,Group,SupplementaryGroups,Environment,\
    EnvironmentFiles,NoExecPaths,ExecPaths,ProtectSystem,ReadWritePaths,StateDirectory,\
    FragmentPath";
/// Where packages have their units.
const OF_PACKAGES: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];

/// A unit that systemd has loaded.
pub(in crate::cli) struct Unit {
    /// As `shopmirror@north.service`.
    pub(in crate::cli) name: String,
    properties: BTreeMap<String, String>,
    /// The directives of its files that name a credential, which `systemctl show` does not print.
    credentials: Vec<(String, String)>,
}

impl Unit {
    /// The unit that runs the daemon with the configuration at `config`; `None` if no unit does.
    pub(in crate::cli) fn of_config(config: &Path) -> Option<Self> {
        let config = std::path::absolute(config).ok()?;
        let name = match config.file_stem()?.to_str()? {
            "shopmirror" => "shopmirror.service".to_owned(),
            name => format!("shopmirror@{name}.service"),
        };
        let shown = systemctl(&["show", "--property", PROPERTIES, &name])?;
        let files = systemctl(&["cat", &name]).unwrap_or_default();
        let unit = Self::parse(name, &shown, &files);
        let names_config = unit
            .words("ExecStart")
            .any(|word| Path::new(word.trim_start_matches("--config=")) == config);
        if unit.value("LoadState") == "loaded" && names_config {
            Some(unit)
        } else {
            None
        }
    }

    /// The unit from the output of `systemctl show`, and from its files.
    fn parse(name: String, shown: &str, files: &str) -> Self {
        let mut credentials = directives(files);
        credentials.retain(|(name, _)| name.contains("Credential"));
        Self {
            name,
            properties: directives(shown).into_iter().collect(),
            credentials,
        }
    }

    /// The value of a property; empty if the unit does not have it.
    fn value(&self, property: &str) -> &str {
        match self.properties.get(property) {
            Some(value) => value,
            None => "",
        }
    }

    fn words(&self, property: &str) -> impl Iterator<Item = &str> {
        self.value(property).split_whitespace()
    }

    /// The user of the service, and whether this process is one of that user.
    pub(super) fn user(&self) -> (&str, bool) {
        let user = match self.value("User") {
            "" => "root",
            user => user,
        };
        let own = rustix::process::geteuid().as_raw().to_string();
        let id = printed("id", &["-u", user]).unwrap_or_default();
        (user, id.trim() == own)
    }

    /// The unit's file, and that of the package, if the first hides the second: it is older than the
    /// program then, or will be.
    pub(super) fn hidden_by(&self) -> Option<(&Path, PathBuf)> {
        self.hides_one_of(&OF_PACKAGES.map(PathBuf::from))
    }

    fn hides_one_of(&self, folders: &[PathBuf]) -> Option<(&Path, PathBuf)> {
        let own = Path::new(self.value("FragmentPath"));
        let name = own.file_name()?;
        for folder in folders {
            let packaged = folder.join(name);
            let Ok(real) = packaged.canonicalize() else {
                continue;
            };
            // `/lib` leads to `/usr/lib`.
            if own.canonicalize().is_ok_and(|own| own == real) {
                return None;
            }
            return Some((own, packaged));
        }
        None
    }

    /// This command as the user of the service, with the key that the unit gives it; `None` unless
    /// this process is root and the service is not.
    pub(super) fn own_command(&self) -> Result<Option<Command>, KeyError> {
        let (user, is_own) = self.user();
        if is_own || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let ids = printed("id", &["-G", user]).unwrap_or_default();
        let mut groups: Vec<&str> = ids.split_whitespace().collect();
        groups.extend(self.words("SupplementaryGroups"));
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--groups={}", groups.join(",")));
        match self.value("Group") {
            "" => command.arg(format!("--regid={}", groups.first().unwrap_or(&user))),
            group => command.arg(format!("--regid={group}")),
        };
        command.arg(std::env::current_exe().unwrap_or_else(|_| "shopmirror".into()));
        command.args(std::env::args_os().skip(1));
        if let Some(path) = self.credential_file() {
            let key = KeySource::File(path.into()).read()?;
            command.env("SHOPMIRROR_API_KEY", key.expose_secret());
        }
        Ok(Some(command))
    }

    /// The value of a directive of the unit for the credential `api-key`.
    fn credential(&self, directive: &str) -> Option<&str> {
        for (name, value) in self.credentials.iter().rev() {
            if name != directive {
                continue;
            }
            // An empty value clears the ones before it.
            if value.is_empty() {
                return None;
            }
            if let Some(credential) = value.strip_prefix("api-key:") {
                return Some(credential);
            }
        }
        None
    }

    /// The file of the credential `api-key`, if it is not encrypted.
    pub(super) fn credential_file(&self) -> Option<&str> {
        self.credential("LoadCredential")
    }

    /// True if the unit gives its service a key, which this process does not get.
    pub(super) fn gives_key(&self) -> bool {
        self.credential_file().is_some()
            || self.credential("LoadCredentialEncrypted").is_some()
            || self.credential("SetCredential").is_some()
            || self.credential("SetCredentialEncrypted").is_some()
            || self.value("Environment").contains("SHOPMIRROR_API_KEY=")
            || !self.value("EnvironmentFiles").is_empty()
    }

    /// True if the unit's service may execute this program.
    pub(super) fn may_execute(&self, program: &Path) -> bool {
        depth(program, self.words("ExecPaths")) >= depth(program, self.words("NoExecPaths"))
    }

    /// True if the unit's service may write to this folder, as far as the unit limits it.
    pub(super) fn may_write(&self, folder: &Path) -> bool {
        self.value("ProtectSystem") != "strict"
            || self.makes(folder)
            || depth(folder, self.words("ReadWritePaths")) > 0
    }

    /// True if systemd makes this folder, or one above it, for the unit's service.
    pub(super) fn makes(&self, folder: &Path) -> bool {
        let state = Path::new("/var/lib");
        self.words("StateDirectory")
            .any(|name| folder.starts_with(state.join(name)))
    }
}

/// The number of parts of the longest of these paths that contains `inner`; 0 if no path does.
fn depth<'a>(inner: &Path, paths: impl Iterator<Item = &'a str>) -> usize {
    let mut depth = 0;
    for path in paths {
        let path = Path::new(path.trim_start_matches(['-', '+']));
        if inner.starts_with(path) {
            depth = depth.max(path.components().count());
        }
    }
    depth
}

/// The lines `NAME=VALUE` of a text, without comments.
fn directives(text: &str) -> Vec<(String, String)> {
    let mut directives = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.trim().split_once('=')
            && !name.starts_with(['#', ';'])
        {
            directives.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    directives
}

/// The output of systemctl; `None` where systemd does not run.
fn systemctl(arguments: &[&str]) -> Option<String> {
    printed("systemctl", arguments)
}

/// The output of a program; `None` if it fails.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shipped unit with further lines, as `systemctl` would show it.
    fn unit(more: &str) -> Unit {
        let text = format!(
            "{}\n{more}",
            include_str!("../../../systemd/shopmirror.service")
        );
        Unit::parse("shopmirror.service".to_owned(), &text, &text)
    }

    #[test]
    fn the_key_of_a_unit_is_found_in_its_files() {
        assert!(!unit("").gives_key());
        let shipped = include_str!("../../../systemd/drop-ins/credential.conf");
        assert_eq!(
            unit(shipped).credential_file(),
            Some("/etc/shopmirror/api-key")
        );
        assert!(!unit(&format!("{shipped}\nLoadCredential=")).gives_key());
        assert!(unit("LoadCredentialEncrypted=api-key:/etc/shopmirror/api-key.cred").gives_key());
        assert!(unit("Environment=SHOPMIRROR_API_KEY=x").gives_key());
    }

    #[test]
    fn a_unit_of_its_own_that_hides_the_one_of_the_package_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["etc", "lib"].map(|name| dir.path().join(name));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
        }
        let [own, packaged] = folders
            .each_ref()
            .map(|folder| folder.join("shopmirror.service"));
        std::fs::write(&own, "").unwrap();
        let unit = |path: &Path| unit(&format!("FragmentPath={}", path.display()));
        let packages = &folders[1..];
        assert_eq!(
            unit(&own).hides_one_of(packages),
            None,
            "there is no package"
        );
        std::fs::write(&packaged, "").unwrap();
        let hides = unit(&own);
        assert_eq!(
            hides.hides_one_of(packages),
            Some((&*own, packaged.clone()))
        );
        assert_eq!(unit(&packaged).hides_one_of(packages), None);
    }

    #[test]
    fn a_program_outside_the_unit_s_list_may_not_be_executed() {
        let print = Path::new("/usr/local/bin/print-label");
        assert!(!unit("").may_execute(print));
        assert!(unit("").may_execute(Path::new("/usr/bin/shopmirror")));
        assert!(unit("ExecPaths=/usr/local/bin/print-label").may_execute(print));
        assert!(unit("NoExecPaths=").may_execute(print));
    }

    #[test]
    fn a_folder_outside_the_unit_s_list_may_not_be_written() {
        let exports = Path::new("/srv/shop-exports/daily");
        assert!(!unit("").may_write(exports));
        assert!(unit("").may_write(Path::new("/var/lib/shopmirror/reports")));
        let shipped = include_str!("../../../systemd/drop-ins/file-sink.conf");
        assert!(unit(shipped).may_write(exports));
        assert!(!unit(shipped).may_write(Path::new("/srv/shop-exports-old")));
        assert!(unit("ProtectSystem=full").may_write(exports));
    }
}
