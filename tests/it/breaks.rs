//! The breaks of `tests/breaks` fit the source as it is, so that `tests/breaks/switched` can be run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One break of `switched.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Break {
    #[serde(rename = "break")]
    what: String,
    file: String,
    old: String,
    new: String,
    old_end: Option<String>,
    new_end: Option<String>,
    /// Tests of tests/it.
    #[serde(default)]
    tests: Vec<String>,
    /// Unit tests.
    #[serde(default)]
    unit: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn breaks() -> toml::Table {
    let text = fs::read_to_string(root().join("tests/breaks/switched.toml")).unwrap();
    text.parse().unwrap()
}

/// `#[test]`, `#[tokio::test]`, and this with arguments.
fn is_test_attribute(line: &str) -> bool {
    line == "#[test]" || line.starts_with("#[tokio::test")
}

/// The name of every test below a folder, with its module: `page::records::a_record_is_shown`.
fn tests(folder: &str) -> BTreeSet<String> {
    let folder = root().join(folder);
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.clone()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                tests_of(&path, &folder, &mut found);
            }
        }
    }
    found
}

fn tests_of(path: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    let module: PathBuf = path.strip_prefix(folder).unwrap().with_extension("").iter().collect();
    let module = module.to_str().unwrap().replace('/', "::");
    let mut is_test = false;
    for line in fs::read_to_string(path).unwrap().lines().map(str::trim) {
        let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
        if let Some((name, _)) = name.filter(|_| is_test) {
            found.insert(format!("{module}::{name}"));
        }
        // Further attributes and comments may stand between.
        is_test = is_test_attribute(line)
            || is_test && (line.starts_with("#[") || line.starts_with("//"));
    }
}

/// A module of tests has a file of its own, or stands in the file of what it tests.
fn is_unit_test(tests: &BTreeSet<String>, test: &str) -> bool {
    tests.contains(test) || tests.contains(&test.replacen("tests::", "", 1))
}

#[test]
fn each_break_has_its_text_once_and_names_tests_that_exist() {
    let (outside, inside) = (tests("tests/it"), tests("src"));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, value) in breaks() {
        let one: Break = value.try_into().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(one.old_end.is_some(), one.new_end.is_some(), "{name}: old_end and new_end");
        assert!(!one.what.is_empty(), "{name} says what it breaks");
        let mut edits = vec![(one.old, one.new)];
        edits.extend(one.old_end.zip(one.new_end));
        let text = files
            .entry(one.file.clone())
            .or_insert_with(|| fs::read_to_string(root().join(&one.file)).unwrap_or_default());
        for (old, new) in edits {
            match text.matches(&old).count() {
                1 => *text = text.replace(&old, &new),
                times => wrong.push(format!("{name}: {times} times in {}: {old}", one.file)),
            }
        }
        assert!(one.tests.len() + one.unit.len() > 0, "{name} names a test");
        let missing = one.tests.iter().filter(|test| !outside.contains(*test));
        let missing = missing.chain(one.unit.iter().filter(|test| !is_unit_test(&inside, test)));
        wrong.extend(missing.map(|test| format!("{name}: there is no test {test}")));
    }
    assert!(files.len() > 20, "only {} files are broken", files.len());
    assert!(wrong.is_empty(), "correct tests/breaks/switched.toml:\n{}", wrong.join("\n"));
}

#[test]
fn each_patch_names_tests_that_exist() {
    let (outside, inside) = (tests("tests/it"), tests("src"));
    let mut named = 0;
    for entry in fs::read_dir(root().join("tests/breaks")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "patch") {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let is_known = if let Some(test) = line.strip_prefix("Test: it ") {
                outside.contains(test.trim())
            } else if let Some(test) = line.strip_prefix("Test: lib ") {
                is_unit_test(&inside, test.trim())
            } else {
                continue;
            };
            named += 1;
            assert!(is_known, "{}: {line}: there is no such test", path.display());
        }
    }
    assert!(named > 5, "only {named} tests are named");
}
