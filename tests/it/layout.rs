//! The layout of the source: which module may use which, how long a file may be, and which names are
//! too vague. It reads the source as text, so it does not see a path inside a macro.

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
    "escape",
    "file_lock",
    "sysexits",
];

/// Each top-level module and what it may use besides [`BASE`]; `None` means no module at all.
const TABLE: &[(&str, Option<&[&str]>)] = &[
    ("record", None),
    ("backoff", None),
    ("backfill", None),
    ("clock", None),
    ("connections", None),
    ("duration", None),
    ("escape", None),
    ("file_lock", None),
    ("contiguity", None),
    ("retry_after", None),
    ("sysexits", None),
    ("tls", None),
    ("shape", None),
    ("config", Some(&["shape"])),
    ("api", Some(&[])),
    ("schedule", Some(&[])),
    ("plan", Some(&["schedule"])),
    ("budget", Some(&[])),
    ("store", Some(&["contiguity"])),
    ("sink", Some(&["shape"])),
    ("poll", Some(&["api", "schedule", "plan", "budget", "store"])),
    ("deliver", Some(&["sink", "store"])),
    // The status joins the `…Status` values of the other modules; it calls nothing that works.
    ("status", Some(&["store", "poll", "deliver", "budget", "plan", "control", "report"])),
    ("alerts", Some(&["status", "store", "deliver"])),
    ("control", Some(&["store"])),
    ("page", Some(&["status", "store", "poll", "deliver", "budget", "report"])),
    ("repair", Some(&["api", "poll", "store"])),
    ("custom_fields", Some(&["api", "poll", "store"])),
    ("report", Some(&["store"])),
    ("simulate", Some(&["schedule", "plan", "budget", "contiguity"])),
    (
        "daemon",
        Some(&[
            "api",
            "schedule",
            "budget",
            "store",
            "sink",
            "poll",
            "deliver",
            "status",
            "control",
            "page",
            "report",
            "repair",
            "custom_fields",
            "alerts",
        ]),
    ),
    (
        "cli",
        Some(&[
            "api", "schedule", "plan", "budget", "store", "sink", "poll", "deliver", "status",
            "control", "alerts", "report", "shape", "simulate", "daemon", "backfill",
        ]),
    ),
];

/// The pure modules, and the names that must not appear in them.
const PURE: [&str; 7] =
    ["record", "contiguity", "schedule", "plan", "shape", "simulate", "backfill"];
const IMPURE: [&str; 6] =
    ["tokio::", "std::fs", "std::net", "std::thread", "Instant::now", "Timestamp::now"];

const LINES_MAX: usize = 450;
const VAGUE: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "types", "misc", "shared"];

fn allowed(module: &str, used: &str) -> bool {
    if module == used {
        return true;
    }
    let row = TABLE.iter().find(|(name, _)| *name == module);
    match row.and_then(|(_, more)| *more) {
        // Shapes are shapes of changes.
        None if module == "shape" => used == "record",
        None => false,
        // It needs routes and kinds, but neither time nor waits.
        Some(_) if module == "config" => ["record", "escape", "duration", "shape"].contains(&used),
        Some(more) => BASE.contains(&used) || more.contains(&used),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
}

/// The module path of a file: `src/store/open.rs` is `["store", "open"]`.
fn module_path(file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(root().join("src")).unwrap().with_extension("");
    let mut path: Vec<String> =
        inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| last == "mod");
    path
}

/// The shipped code: no comments, nothing under `#[cfg(test)]`. It relies on rustfmt, which closes an
/// item at the column where it starts.
fn shipped(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if start == "#[cfg(test)]" {
            let indent = &line[..line.len() - start.len()];
            let end = format!("{indent}}}");
            let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#["));
            if item.is_some_and(|item| item.ends_with('{')) {
                lines.by_ref().find(|line| *line == end);
            }
        } else if !start.starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Every path that begins with `head::`, with groups in braces expanded.
fn paths_from<'c>(code: &'c str, head: &str) -> Vec<Vec<&'c str>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(head) {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
            expand(&code[at + head.len()..], &mut Vec::new(), &mut paths);
        }
    }
    paths
}

/// Reads one tree of a `use` at the start of `code`; returns the rest of the code.
fn expand<'c>(code: &'c str, parents: &mut Vec<&'c str>, paths: &mut Vec<Vec<&'c str>>) -> &'c str {
    let mut rest = code.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        rest = group.trim_start();
        while !rest.starts_with('}') && !rest.is_empty() {
            rest = expand(rest, parents, paths).trim_start().trim_start_matches(',').trim_start();
        }
        return rest.strip_prefix('}').unwrap_or(rest);
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if name.is_empty() {
        // `*`, or no path at all.
        paths.push(parents.clone());
        return after.get(1..).unwrap_or("");
    }
    parents.push(name);
    let rest = match after.strip_prefix("::") {
        Some(deeper) => expand(deeper, parents, paths),
        None => {
            paths.push(parents.clone());
            after
        }
    };
    parents.pop();
    match rest.trim_start().strip_prefix("as ") {
        Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        None => rest,
    }
}

/// The paths of a file that start at the top of the crate, by `crate::` or by `super::`.
fn top_level_paths<'c>(code: &'c str, module: &[String]) -> Vec<Vec<&'c str>> {
    let mut paths = paths_from(code, "crate::");
    for path in paths_from(code, "super::") {
        let supers = 1 + path.iter().take_while(|part| **part == "super").count();
        if supers >= module.len() {
            paths.push(path[supers - 1..].to_vec());
        }
    }
    paths
}

#[test]
fn the_import_rules_hold() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let mut seen = BTreeSet::new();
    let mut broken = Vec::new();
    for file in &files {
        let module = module_path(file);
        let top = module[0].as_str();
        if top == "lib" || module.last().is_some_and(|last| last == "tests") {
            continue;
        }
        let code = shipped(&fs::read_to_string(file).unwrap());
        if top == "main" {
            for path in paths_from(&code, "shopmirror::") {
                if path.first() != Some(&"cli") {
                    broken.push(format!("main names {path:?}: it only hands over to cli"));
                }
            }
            continue;
        }
        seen.insert(top.to_owned());
        if !TABLE.iter().any(|(name, _)| *name == top) {
            broken.push(format!("{top} stands in no row of the table"));
            continue;
        }
        for path in top_level_paths(&code, &module) {
            let Some(used) = path.first() else { continue };
            let named = TABLE.iter().any(|(name, _)| name == used);
            if !named {
                broken.push(format!("{} names {used}, which is unknown", file.display()));
            } else if !allowed(top, used) {
                broken.push(format!("{} uses {used}, which {top} may not", file.display()));
            }
            let whole = path.starts_with(&["config", "Config"]);
            if whole && !["config", "daemon", "cli"].contains(&top) {
                broken.push(format!("{} sees the whole configuration", file.display()));
            }
        }
        if PURE.contains(&top) {
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                broken.push(format!("{} names {word}, but {top} is pure", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));

    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let declared: BTreeSet<String> = lib
        .lines()
        .filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';').map(str::to_owned))
        .collect();
    assert_eq!(seen, declared, "the files under src and the modules of lib.rs");
    for module in ["record", "backoff", "clock", "config"] {
        assert!(seen.contains(module), "{module} was not seen");
    }
}

#[test]
fn every_form_of_import_is_recognised() {
    let text = "use crate::record::{Kind, Route};\n\
                use crate::{api, store::{self, open::Store as S}, config::*};\n\
                // use crate::comment;\n\
                fn f() -> crate::sink::Sink { super::super::deliver::go(); other_crate::x() }\n\
                #[cfg(test)]\n\
                mod tests {\n    use crate::sandbox;\n}\n\
                #[cfg(test)]\n\
                mod more;\n\
                use super::near;\n\
                use crate::daemon;\n";
    let code = shipped(text);
    let module = ["poll".to_owned(), "page".to_owned()];
    let used: BTreeSet<&str> =
        top_level_paths(&code, &module).iter().filter_map(|path| path.first().copied()).collect();
    let wanted = ["api", "config", "daemon", "deliver", "record", "sink", "store"];
    assert_eq!(used, BTreeSet::from(wanted));
    assert!(paths_from(&code, "crate::").contains(&vec!["store", "open", "Store"]));
}

#[test]
fn no_file_is_long_or_has_a_vague_name() {
    let mut files = Vec::new();
    for dir in ["src", "sandbox", "tests", "benches"] {
        rust_files(&root().join(dir), &mut files);
    }
    assert!(files.len() > 10, "only {} files were read", files.len());
    for file in files {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines: split it", file.display());
        for part in file.strip_prefix(root()).unwrap().with_extension("").iter() {
            let name = part.to_string_lossy();
            assert!(!VAGUE.contains(&name.as_ref()), "{}: {name} says nothing", file.display());
        }
    }
}
