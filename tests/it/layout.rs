//! The layout of the source: which module may use which. It reads the source as text, and relies on
//! `crate::` in front of each name of another module.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that every module below the daemon may use.
const BASE: &[&str] = &[
    "record",
    "backoff",
    "clock",
    "config",
    "connections",
    "duration",
    "tls",
    "retry_after",
    "body",
    "escape",
    "number",
    "file_lock",
    "file_owner",
    "small_file",
    "sysexits",
    "table",
];

/// Each top-level module and what it may use besides [`BASE`]; `None` means no module at all.
const TABLE: &[(&str, Option<&[&str]>)] = &[
    ("record", None),
    ("backoff", None),
    ("body", None),
    ("clock", None),
    ("connections", None),
    ("duration", None),
    ("escape", None),
    ("number", None),
    ("file_lock", None),
    ("file_owner", None),
    ("contiguity", None),
    ("retry_after", None),
    ("small_file", None),
    ("sysexits", None),
    ("table", None),
    ("tls", None),
    ("shape", None),
    ("config", Some(&["shape"])),
    ("api", Some(&[])),
    ("schedule", Some(&[])),
    ("budget", Some(&[])),
    ("store", Some(&["contiguity"])),
    ("sink", Some(&["shape"])),
    ("poll", Some(&["api", "schedule", "budget", "store"])),
    ("deliver", Some(&["sink", "store"])),
    // The status joins the `…Status` values of the other modules; it calls nothing that works.
    (
        "status",
        Some(&["store", "poll", "deliver", "budget", "control", "report"]),
    ),
    ("alerts", Some(&["status", "store", "deliver"])),
    ("control", Some(&["store"])),
    (
        "page",
        Some(&["status", "store", "poll", "deliver", "budget", "report"]),
    ),
    ("recover", Some(&["api", "poll", "store"])),
    ("report", Some(&["store", "shape"])),
    (
        "daemon",
        Some(&[
            "api", "schedule", "budget", "store", "sink", "poll", "deliver", "status", "control",
            "page", "report", "recover", "alerts",
        ]),
    ),
    (
        "cli",
        Some(&[
            "api", "schedule", "budget", "store", "sink", "poll", "deliver", "status", "control",
            "alerts", "report", "shape", "daemon", "recover",
        ]),
    ),
];

/// The pure modules, and the names that must not appear in them.
const PURE: [&str; 4] = ["record", "contiguity", "schedule", "shape"];
const IMPURE: [&str; 6] = [
    "tokio::",
    "std::fs",
    "std::net",
    "std::thread",
    "Instant::now",
    "Timestamp::now",
];

fn allowed(module: &str, used: &str) -> bool {
    if module == used {
        return true;
    }
    let row = TABLE.iter().find(|(name, _)| *name == module);
    match row.and_then(|(_, more)| *more) {
        // Shapes are shapes of changes.
        None if module == "shape" => used == "record",
        None if module == "tls" => used == "small_file",
        None => false,
        // It needs routes and kinds, but neither time nor waits.
        Some(_) if module == "config" => {
            ["record", "escape", "duration", "shape", "small_file"].contains(&used)
        }
        Some(more) => BASE.contains(&used) || more.contains(&used),
    }
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
        for used in named_after(&code, "crate::") {
            if !TABLE.iter().any(|(name, _)| *name == used) {
                broken.push(format!(
                    "{file} names {used:?}, which stands in no row of the table"
                ));
            } else if !allowed(top, used) {
                broken.push(format!("{file} uses {used}, which {top} may not"));
            }
        }
        let whole = code.contains("config::Config") || code.contains("config::{Config,");
        if whole && !["config", "daemon", "cli"].contains(&top) {
            broken.push(format!("{file} sees the whole configuration"));
        }
        if PURE.contains(&top) {
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
