//! The layout of the source: which module may use which. It reads the source as text, and relies on
//! `crate::` in front of each name of another module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that every module from `api` on may use.
const BASE: &[&str] = &["text", "files", "net", "config"];

/// Each top-level module, and what it may use. The compiler keeps the crate `shopmirror_core` free
/// of all of them.
const GROUND: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("files", &["text"]),
    ("net", &["text", "files"]),
    ("shape", &["text", "files", "net"]),
    ("config", &["text", "files", "net", "shape"]),
];

/// The other modules, and what each may use besides [`BASE`].
const TABLE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("store", &[]),
    ("sink", &["shape", "control"]),
    ("control", &["store"]),
    ("poll", &["api", "store", "control"]),
    ("deliver", &["sink", "store"]),
    ("report", &["store", "shape"]),
    ("recover", &["api", "poll", "store"]),
    // The status joins the `…Status` values of the other modules; it calls nothing that works.
    ("status", &["store", "poll", "deliver", "control", "report"]),
    ("page", &["status", "store", "poll", "deliver", "report"]),
    (
        "daemon",
        &[
            "api", "store", "sink", "poll", "deliver", "status", "control", "page", "report",
            "recover",
        ],
    ),
    (
        "cli",
        &[
            "api", "store", "sink", "poll", "deliver", "status", "control", "report", "shape",
            "daemon", "recover",
        ],
    ),
];

/// The modules whose own parts use one another in no circle.
const WITHOUT_CIRCLES: [&str; 1] = ["report"];

/// `shape` is pure: these names must not appear in it.
const IMPURE: [&str; 6] = [
    "tokio::",
    "std::fs",
    "std::net",
    "std::thread",
    "Instant::now",
    "Timestamp::now",
];

/// What the module may use, or `None` if it is in no table.
fn allowed(module: &str) -> Option<Vec<&'static str>> {
    if let Some((_, used)) = GROUND.iter().find(|(name, _)| *name == module) {
        return Some(used.to_vec());
    }
    let (_, used) = TABLE.iter().find(|(name, _)| *name == module)?;
    Some([BASE, used].concat())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
}

/// The shipped code: no comments, and nothing from the tests on, which end a file.
fn shipped(text: &str) -> String {
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What follows each `head::` in the code, as far as it is a name.
fn named_after<'c>(code: &'c str, head: &str) -> Vec<&'c str> {
    let pieces = code.split(head).skip(1);
    let name = |piece: &'c str| {
        let end = piece
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(piece.len());
        &piece[..end]
    };
    pieces.map(name).collect()
}

#[test]
fn the_import_rules_hold() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let mut seen = BTreeSet::new();
    let mut broken = Vec::new();
    for file in &files {
        let inside = file
            .strip_prefix(root().join("src"))
            .unwrap()
            .with_extension("");
        let top = inside.iter().next().unwrap().to_str().unwrap();
        if top == "lib" || inside.iter().any(|part| part == "tests") {
            continue;
        }
        let code = shipped(&fs::read_to_string(file).unwrap());
        let file = inside.display();
        if top == "main" {
            let all = named_after(&code, "shopmirror::");
            assert!(
                all.iter().all(|name| *name == "cli"),
                "main only hands over to cli: {all:?}"
            );
            continue;
        }
        seen.insert(top.to_owned());
        let may_use = allowed(top).unwrap_or_default();
        for used in named_after(&code, "crate::") {
            if allowed(used).is_none() {
                broken.push(format!(
                    "{file} names {used:?}, which stands in no row of the table"
                ));
            } else if used != top && !may_use.contains(&used) {
                broken.push(format!("{file} uses {used}, which {top} may not"));
            }
        }
        let whole = code.contains("config::Config") || code.contains("config::{Config,");
        if whole && !["config", "daemon", "cli"].contains(&top) {
            broken.push(format!("{file} sees the whole configuration"));
        }
        if top == "shape" {
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                broken.push(format!("{file} names {word}, but {top} is pure"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));

    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let declared: BTreeSet<String> = lib
        .lines()
        .filter_map(|line| {
            line.split_once("mod ")?
                .1
                .strip_suffix(';')
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(
        seen, declared,
        "the files under src and the modules of lib.rs"
    );
}

/// What each part of a module uses of the others. A part is a file right below the module, with
/// the folder of its name.
fn parts_of(module: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder = root().join("src").join(module);
    let mut files = Vec::new();
    rust_files(&folder, &mut files);
    let mut parts = BTreeMap::<String, BTreeSet<String>>::new();
    for file in &files {
        let inside = file.strip_prefix(&folder).unwrap().with_extension("");
        let names: Vec<&str> = inside.iter().map(|name| name.to_str().unwrap()).collect();
        let code = shipped(&fs::read_to_string(file).unwrap());
        let mut used = named_after(&code, &format!("crate::{module}::"));
        if names.len() == 1 {
            used.extend(named_after(&code, "use super::"));
        }
        let part = parts.entry(names[0].to_owned()).or_default();
        part.extend(used.into_iter().map(str::to_owned));
    }
    parts
}

#[test]
fn the_parts_of_a_module_use_one_another_in_no_circle() {
    for module in WITHOUT_CIRCLES {
        let mut left = parts_of(module);
        let parts: BTreeSet<String> = left.keys().cloned().collect();
        for (part, used) in &mut left {
            used.retain(|other| other != part && parts.contains(other));
        }
        // A part that uses none of those that are left is in no circle.
        loop {
            let free: Vec<String> = left
                .iter()
                .filter(|(_, used)| used.is_empty())
                .map(|(part, _)| part.clone())
                .collect();
            if free.is_empty() {
                break;
            }
            for part in free {
                left.remove(&part);
                for used in left.values_mut() {
                    used.remove(&part);
                }
            }
        }
        assert!(left.is_empty(), "a circle in {module}: {left:?}");
    }
}
