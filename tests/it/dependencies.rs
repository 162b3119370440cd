//! Each dependency that a `Cargo.toml` of the workspace names is used by the code it is for.

use std::fs;
use std::path::{Path, PathBuf};

/// The names under `[section]`, as the code spells them.
fn names(manifest: &str, section: &str) -> Vec<String> {
    let header = format!("[{section}]");
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('['));
    let names = entries.filter_map(|line| line.split_once(" = "));
    names
        .map(|(name, _)| name.trim().replace('-', "_"))
        .filter(|name| !name.starts_with('#'))
        .collect()
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every Rust file below these folders as one text.
fn code(package: &Path, folders: &[&str]) -> String {
    let mut files = Vec::new();
    for folder in folders {
        rust_files(&package.join(folder), &mut files);
    }
    assert!(!files.is_empty(), "no code below {}", package.display());
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_dependency_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (package, tests) in [
        (root.to_path_buf(), &["src", "tests", "benches"][..]),
        (root.join("sandbox"), &["src", "tests"]),
    ] {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        for (section, folders) in [("dependencies", &["src"][..]), ("dev-dependencies", tests)] {
            let named = names(&manifest, section);
            assert!(named.len() > 3, "[{section}] of {} is not read", package.display());
            let code = code(&package, folders);
            for name in named {
                let used = [format!("{name}::"), format!("use {name};")];
                assert!(
                    used.iter().any(|text| code.contains(text.as_str())),
                    "{name} of [{section}] in {}/Cargo.toml is used nowhere: remove it",
                    package.display()
                );
            }
        }
    }
}
