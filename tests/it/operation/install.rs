//! What the installation promises: `release/install.sh`, and the files of `systemd/` as text.
//! `release/try` tests a whole package, `.ci/units` the units with systemd.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive for systems without Debian packages, unpacked, and a root to install it into.
struct Archive {
    dir: TempDir,
}

impl Archive {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(root().join("release/install.sh"), dir.path().join("install.sh")).unwrap();
        Archive { dir }
    }

    /// What the archive ships: paths, each with its text.
    fn ships(&self, files: &[(&str, &str)]) {
        let folder = self.dir.path().join("files");
        let _ = fs::remove_dir_all(&folder);
        for (path, text) in files {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new("sh")
            .arg(self.dir.path().join("install.sh"))
            .args(arguments)
            .env("DESTDIR", self.dir.path().join("root"))
            .output()
            .unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
    }

    /// It fails with a message that has this text.
    fn refuses(&self, arguments: &[&str], why: &str) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }

    /// The text of a file of the root; `None` if it is not there.
    fn installed(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join("root").join(path)).ok()
    }

    /// Puts a file into the root that the archive does not ship.
    fn put(&self, path: &str) {
        let file = self.dir.path().join("root").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "made by the admin").unwrap();
    }
}

const PROGRAM: &str = "usr/bin/shopmirror";
const GONE: &str = "usr/share/doc/shopmirror/examples/gone.toml";
const NEW: &str = "usr/share/man/man1/shopmirror-new.1.gz";

#[test]
fn the_archive_installs_updates_and_removes_its_own_files_only() {
    let archive = Archive::new();
    archive.ships(&[(PROGRAM, "1"), (GONE, "1")]);
    archive.succeeds(&[]);
    assert_eq!(archive.installed(PROGRAM).as_deref(), Some("1"));

    archive.ships(&[(PROGRAM, "2"), (NEW, "2")]);
    archive.succeeds(&[]);
    assert_eq!(archive.installed(PROGRAM).as_deref(), Some("2"));
    assert_eq!(archive.installed(GONE), None, "it is no longer shipped");
    assert!(archive.installed(NEW).is_some());

    let kept = [
        "etc/shopmirror/shopmirror.toml",
        "etc/systemd/system/multi-user.target.wants/shopmirror-report.timer",
        "var/lib/shopmirror/mirror.db",
    ];
    let enabled = [
        "etc/systemd/system/multi-user.target.wants/shopmirror.service",
        "etc/systemd/system/multi-user.target.wants/shopmirror@north.service",
        "etc/systemd/system/paths.target.wants/shopmirror-key@north.path",
    ];
    kept.iter().chain(&enabled).for_each(|path| archive.put(path));
    archive.succeeds(&["--remove"]);
    assert!(kept.iter().all(|path| archive.installed(path).is_some()));
    for path in enabled.iter().chain(&[PROGRAM, NEW]) {
        assert_eq!(archive.installed(path), None, "{path}");
    }
    archive.refuses(&["--remove"], "was not installed by this script");
}

#[test]
fn the_archive_does_not_touch_what_the_debian_package_installed() {
    let archive = Archive::new();
    archive.ships(&[(PROGRAM, "1")]);
    archive.put("var/lib/dpkg/info/shopmirror.list");
    for arguments in [&[][..], &["--remove"]] {
        archive.refuses(arguments, "the Debian package of shopmirror is installed");
    }
    assert_eq!(archive.installed(PROGRAM), None);
}

/// The directives of a file of `systemd/`, without comments.
fn directives(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("systemd").join(name)).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_template_differs_from_the_unit_only_in_its_name() {
    let as_single = |line: &String| {
        line.replace("/etc/shopmirror/%i.toml", "/etc/shopmirror/shopmirror.toml")
            .replace("shopmirror %i:", "shopmirror:")
            .replace("shopmirror/%i", "shopmirror")
            .replace("shopmirror-%i", "shopmirror")
    };
    let template = directives("shopmirror@.service");
    let renamed: Vec<String> = template.iter().map(as_single).collect();
    assert_eq!(renamed, directives("shopmirror.service"));
    assert!(template.contains(&"StateDirectory=shopmirror/%i".to_owned()));
}

#[test]
fn readers_of_the_mirror_and_readers_of_the_secrets_are_two_groups() {
    let has = |file: &str, line: &str| directives(file).iter().any(|found| found == line);
    assert!(has("shopmirror.service", "Group=shopmirror"));
    assert!(has("shopmirror.service", "SupplementaryGroups=shopmirror-secrets"));
    assert!(has("shopmirror.sysusers", "g shopmirror-secrets -"));
    assert!(has("shopmirror.sysusers", "m shopmirror shopmirror-secrets"));
    let files = directives("shopmirror.tmpfiles");
    let of_etc: Vec<_> = files.iter().filter(|line| line.contains("/etc/shopmirror")).collect();
    assert!(!of_etc.is_empty());
    for line in of_etc {
        assert!(line.ends_with("root shopmirror-secrets -"), "{line}");
    }
}
