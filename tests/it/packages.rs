//! The scripts of `release/` that need no build; `release/try` tests a whole package.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

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
    for name in ["tokio", "rusqlite", "rustls", "ring", "shopmirror-sandbox", "sqlite"] {
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

#[test]
fn every_shipped_file_of_systemd_is_staged_and_no_script_starts_what_does_not_run() {
    let stage = read("release/stage");
    for file in fs::read_dir(root().join("systemd")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let staged = name.ends_with(".service") || name.ends_with(".path") || stage.contains(&name);
        assert!(staged, "release/stage does not know systemd/{name}");
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
        ("sh", &["install.sh", "deb/postinst", "deb/prerm", "deb/postrm"]),
    ] {
        for script in scripts {
            let path = root().join("release").join(script);
            let output = Command::new(shell).arg("-n").arg(&path).output().unwrap();
            assert!(output.status.success(), "{script}: {output:?}");
        }
    }
}
