//! The scripts of `release/` that need no build; `release/try` tests a whole package.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The bill of materials and the licences, made in a folder of its own.
fn bill_of_materials() -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(root().join("release/sbom"))
        .args(["1.2.3", "sbom", "licences"].map(|name| match name {
            "1.2.3" => name.into(),
            name => dir.path().join(name),
        }))
        .current_dir(root())
        .env("SOURCE_DATE_EPOCH", "1795305600")
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let sbom = fs::read_to_string(dir.path().join("sbom")).unwrap();
    (serde_json::from_str(&sbom).unwrap(), fs::read_to_string(dir.path().join("licences")).unwrap())
}

#[test]
fn the_bill_of_materials_names_what_is_compiled_in_and_is_the_same_each_time() {
    let (sbom, licences) = bill_of_materials();
    assert_eq!((sbom.clone(), licences.clone()), bill_of_materials());
    let components = sbom["components"].as_array().unwrap();
    let names: BTreeSet<&str> =
        components.iter().map(|component| component["name"].as_str().unwrap()).collect();
    for name in
        ["tokio", "rusqlite", "rustls", "ring", "shopmirror-sandbox", "sqlite", "async-nats"]
    {
        assert!(names.contains(name), "{name} is missing");
    }
    assert!(!names.contains("proptest"), "it is used by tests only");
    for component in components {
        assert!(component["licenses"][0].is_object(), "{component}");
        let ours = ["shopmirror-sandbox", "sqlite"].contains(&component["name"].as_str().unwrap());
        assert_eq!(component["hashes"].is_array(), !ours, "{component}");
    }
    let known: BTreeSet<&str> = sbom["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["ref"].as_str().unwrap())
        .collect();
    assert_eq!(known.len() + 1, components.len() + 1, "each crate and the program, but not SQLite");
    assert!(licences.contains("Permission is hereby granted"));
}

/// A folder in which `release/stage` laid out the files of a package.
fn staged() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(root().join("release/stage"))
        .args([env!("CARGO_BIN_EXE_shopmirror").into(), dir.path().to_owned()])
        .args(["1.2.3", "A Maintainer <maintainer@example.com>"])
        .env("SOURCE_DATE_EPOCH", "1795305600")
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    dir
}

/// Where the links of a document lead, but for those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    // A regular expression in a code block looks like a link.
    let is_link = |target: &&str| !target.is_empty() && !target.contains([':', '[']);
    targets.filter(is_link).collect()
}

#[test]
fn what_is_installed_is_complete() {
    let dir = staged();
    let installed = dir.path().join("root/usr");
    let documents = installed.join("share/doc/shopmirror");
    let mut read = 0;
    for folder in [documents.clone(), documents.join("docs")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = fs::read_to_string(&path).unwrap();
                for link in links(&text) {
                    assert!(folder.join(link).exists(), "{} leads to {link}", path.display());
                    read += 1;
                }
            }
        }
    }
    assert!(read > 20, "only {read} links were found");
    for file in ["config.example.toml", "systemd/drop-ins/command-sink.conf", "sbom.cdx.json.gz"] {
        assert!(documents.join(file).exists(), "{file}");
    }
    for page in ["shopmirror.1.gz", "shopmirror-run.1.gz", "shopmirror-init.1.gz"] {
        assert!(installed.join("share/man/man1").join(page).exists(), "{page}");
    }
    for script in ["bash-completion/completions/shopmirror", "zsh/vendor-completions/_shopmirror"] {
        let text = fs::read_to_string(installed.join("share").join(script)).unwrap();
        assert!(text.contains("shopmirror"), "{script}");
    }
    assert!(dir.path().join("debug/usr/lib/debug/.build-id").exists(), "the symbols are apart");
}

#[test]
fn the_readme_of_the_archive_leads_to_files_of_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let readme = |documents: &str| {
        let arguments = [dir.path().to_str().unwrap(), documents];
        Command::new(root().join("release/readme")).args(arguments).output().unwrap()
    };
    // As release/package lays it out.
    let documents = "files/usr/share/doc/shopmirror";
    fs::create_dir_all(dir.path().join(documents)).unwrap();
    let failed = readme(documents);
    assert!(!failed.status.success(), "there are no documents yet");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("which is not there"), "{said}");
    symlink(root().join("docs"), dir.path().join(documents).join("docs")).unwrap();
    let written = readme(documents);
    assert!(written.status.success(), "{written:?}");
    let text = fs::read_to_string(dir.path().join("README.md")).unwrap();
    assert!(links(&text).len() > 10 && !text.contains("development.md"), "{text}");
    for link in links(&text) {
        assert!(dir.path().join(link).is_file(), "the archive's README leads to {link}");
    }
    assert!(text.contains("The licence is MIT or Apache-2.0"), "{text}");
    assert!(
        read("release/package").contains(&format!("release/readme \"$stage/$name\" {documents}\n"))
    );
}

#[test]
fn every_shipped_file_of_systemd_is_staged_and_no_script_starts_what_does_not_run() {
    let stage = read("release/stage");
    for file in fs::read_dir(root().join("systemd")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let is_staged =
            name.ends_with(".service") || name.ends_with(".path") || stage.contains(&name);
        assert!(is_staged, "release/stage does not know systemd/{name}");
    }
    for script in ["release/deb/postinst", "release/install.sh"] {
        let text = read(script);
        for word in ["enable", "--now", "systemctl start"] {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', '*']));
            let found: Vec<&str> = lines
                .filter(|line| line.contains(word))
                .filter(|line| !line.contains("disable") && !line.contains("echo"))
                .collect();
            assert!(found.is_empty(), "{script}: {found:?}");
        }
    }
}

#[test]
fn every_script_of_a_release_can_be_parsed() {
    for (shell, scripts) in [
        ("bash", &["build", "cut", "stage", "package", "try"][..]),
        ("sh", &["install.sh", "link-cc", "deb/postinst", "deb/prerm", "deb/postrm"]),
    ] {
        for script in scripts {
            let path = root().join("release").join(script);
            let output = Command::new(shell).arg("-n").arg(&path).output().unwrap();
            assert!(output.status.success(), "{script}: {output:?}");
        }
    }
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

    /// Every file of the root with its text, but for the list of the installed files.
    fn installed(&self) -> Vec<(String, String)> {
        let top = self.dir.path().join("root");
        let (mut found, mut folders) = (Vec::new(), vec![top.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("installed-files") {
                    let name = path.strip_prefix(&top).unwrap().display().to_string();
                    found.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.dir.path().join("root").join(path)).is_ok()
    }

    /// Puts a file into the root that the archive does not ship.
    fn put(&self, path: &str) {
        let file = self.dir.path().join("root").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "made by the admin").unwrap();
    }
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

const OLDER: [(&str, &str); 4] = [
    ("usr/bin/shopmirror", "1"),
    ("usr/share/doc/shopmirror/README.md", "1"),
    ("usr/share/doc/shopmirror/examples/gone.toml", "1"),
    ("usr/share/man/man1/shopmirror-gone.1.gz", "1"),
];
const NEWER: [(&str, &str); 4] = [
    ("usr/bin/shopmirror", "2"),
    ("usr/share/doc/shopmirror/README.md", "2"),
    ("usr/share/man/man1/shopmirror-new.1.gz", "2"),
    ("usr/share/zsh/_shopmirror", "2"),
];

#[test]
fn an_update_by_the_archive_removes_the_files_that_are_no_longer_shipped() {
    let archive = Archive::new();
    archive.ships(&OLDER);
    let output = archive.run(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(archive.installed(), owned(&OLDER));

    archive.ships(&NEWER);
    let output = archive.run(&[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(archive.installed(), owned(&NEWER));
    assert!(!archive.has("usr/share/doc/shopmirror/examples"), "an empty folder is left");
    assert!(archive.has("usr/share/man/man1"), "only folders of our own are removed");
}

#[test]
fn an_update_by_the_archive_that_was_interrupted_can_be_completed_or_removed() {
    for remove in [false, true] {
        let archive = Archive::new();
        archive.ships(&OLDER);
        assert!(archive.run(&[]).status.success());
        // The last file cannot be put in its place, because a file has the name of its folder.
        archive.ships(&NEWER);
        archive.put("usr/share/zsh");
        let output = archive.run(&[]);
        assert!(!output.status.success(), "{output:?}");
        fs::remove_file(archive.dir.path().join("root/usr/share/zsh")).unwrap();
        let output = archive.run(if remove { &["--remove"] } else { &[] });
        assert!(output.status.success(), "{output:?}");
        assert_eq!(archive.installed(), if remove { vec![] } else { owned(&NEWER) });
    }
}

#[test]
fn a_removal_by_the_archive_leaves_nothing_but_configuration_database_and_others_units() {
    let archive = Archive::new();
    archive.ships(&OLDER);
    assert!(archive.run(&[]).status.success());
    let kept = [
        "etc/shopmirror/config.toml",
        "etc/systemd/system/multi-user.target.wants/shopmirror-report.timer",
        "var/lib/shopmirror/mirror.db",
    ];
    let enabled = [
        "etc/systemd/system/multi-user.target.wants/shopmirror.service",
        "etc/systemd/system/multi-user.target.wants/shopmirror@north.service",
        "etc/systemd/system/paths.target.wants/shopmirror-key.path",
        "etc/systemd/system/paths.target.wants/shopmirror-key@north.path",
    ];
    kept.iter().chain(&enabled).for_each(|path| archive.put(path));
    let output = archive.run(&["--remove"]);
    assert!(output.status.success(), "{output:?}");
    let left: Vec<String> = archive.installed().into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, kept);
    assert!(!archive.has("usr/share/doc/shopmirror"));

    let again = archive.run(&["--remove"]);
    assert!(!again.status.success());
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("was not installed by this script"), "{said}");
}

#[test]
fn the_archive_does_not_touch_what_the_debian_package_installed() {
    let archive = Archive::new();
    archive.ships(&OLDER);
    archive.put("var/lib/dpkg/info/shopmirror.list");
    for arguments in [&[][..], &["--remove"]] {
        let output = archive.run(arguments);
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("the Debian package of shopmirror is installed"), "{said}");
    }
    assert!(!archive.has("usr/bin/shopmirror"));
}
