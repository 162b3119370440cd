//! Keeps `config.example.toml` complete and true: every key the reader knows is in it, every
//! key in it is known, and both the file as shipped and the file with every key on are valid.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toml::de::DeTable;

use super::findings::Findings;
use super::read::root;
use super::section::Section;
use super::{Base, Config};

const EXAMPLE: &str = include_str!("../../config.example.toml");

/// The example with every key on, but those that its comment calls "instead of" another.
fn everything_on(dir: &Path) -> String {
    let mut text = String::new();
    let mut alternative = false;
    for line in EXAMPLE.lines() {
        if line.starts_with("# ") {
            alternative |= line.contains("(instead of");
        } else if line.is_empty() {
            alternative = false;
        } else if let Some(key) = line.strip_prefix('#').filter(|_| !alternative) {
            text.push_str(key);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text.replace("/etc/shopmirror", &dir.display().to_string())
}

/// Every key of the example, on or off, with its section.
fn keys() -> BTreeSet<(String, String)> {
    let mut section = String::new();
    let mut keys = BTreeSet::new();
    for line in EXAMPLE.lines().filter(|line| !line.starts_with("# ")) {
        let line = line.trim_start_matches('#');
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.insert((section.clone(), key.to_owned()));
        }
    }
    keys
}

/// Without the keys that a sink has in common with the first one, which need not be shown again.
fn without_repeats(keys: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    let shown = |key: &str| keys.contains(&("sinks.erp".to_owned(), key.to_owned()));
    let repeated = |section: &str, key: &str| {
        section.starts_with("sinks.") && section != "sinks.erp" && shown(key)
    };
    keys.iter().filter(|(section, key)| !repeated(section, key)).cloned().collect()
}

fn folder() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("erp-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("page-token", "0123456789abcdef"),
        ("warehouse-url", "postgresql://shop:CANARY@db.example.com/shops"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let base = Base { dir: dir.path().to_owned(), ..Base::default() };
    (dir, base)
}

#[test]
fn every_key_known_to_the_reader_stands_in_the_example() {
    let (dir, base) = folder();
    let text = everything_on(dir.path());
    let document = DeTable::parse(&text).unwrap();
    let findings = Findings::new(&text);
    root(Section::root(&findings, document.get_ref()), &base);
    let known: BTreeSet<(String, String)> = findings
        .known()
        .into_iter()
        .filter(|(section, _)| !section.is_empty() && section != "routes")
        .map(|(section, key)| match section.strip_prefix("routes.") {
            Some(_) => ("routes.outsourced_jobs".to_owned(), key.to_owned()),
            None => (section, key.to_owned()),
        })
        .collect();
    assert_eq!(without_repeats(&known), without_repeats(&keys()));
    assert!(known.len() > 40, "{known:?}");
}

#[test]
fn the_example_is_valid_as_shipped_and_with_every_key_on() {
    let (dir, base) = folder();
    let shipped =
        Config::parse(EXAMPLE, "config.example.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    assert!(shipped.sinks.is_empty() && shipped.status.is_none());
    let text = everything_on(dir.path());
    let all = Config::parse(&text, "config.example.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(all.sinks.len(), 6);
}

#[test]
fn the_defaults_the_example_shows_are_the_defaults() {
    let (dir, base) = folder();
    let smallest =
        EXAMPLE.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let without = Config::parse(&smallest, "f", &base).unwrap();
    let shown = Config::parse(&everything_on(dir.path()), "f", &base).unwrap();
    assert_eq!((without.budget, without.poll), (shown.budget, shown.poll));
    assert_eq!((without.routes, without.store), (shown.routes, shown.store));
    assert_eq!(without.backup, shown.backup);
    assert_eq!(without.workspace.auth, shown.workspace.auth);
    assert_eq!(without.workspace.businesses, shown.workspace.businesses);

    let bare = format!(
        "{smallest}\n[sinks.erp]\ntype = \"webhook\"\nurl = \"https://h.example/\"\n\
         [sinks.label]\ntype = \"command\"\ncommand = [\"/bin/true\"]\n"
    );
    let bare = Config::parse(&bare, "f", &base).unwrap();
    let names: BTreeMap<_, _> = bare.sinks.iter().collect();
    for (name, sink) in names {
        let other = &shown.sinks[name];
        assert_eq!(sink.start, other.start);
        match (&sink.kind, &other.kind) {
            (super::SinkKind::Webhook(a), super::SinkKind::Webhook(b)) => {
                assert_eq!(
                    (a.timeout, a.concurrency, &a.format),
                    (b.timeout, b.concurrency, &b.format)
                );
                assert_eq!(
                    (&sink.retry, &sink.filter.changes),
                    (&other.retry, &other.filter.changes)
                );
            }
            (super::SinkKind::Command(a), super::SinkKind::Command(b)) => {
                assert_eq!(a.timeout, b.timeout);
            }
            _ => panic!("{name} changed its type"),
        }
    }
}
