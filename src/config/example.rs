//! Keeps `config.example.toml` and `docs/configuration.md` complete and true: both have every key that
//! the reader knows and no other, and the file is valid as shipped and with every key on.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toml::de::DeTable;

use super::findings::Findings;
use super::read::root;
use super::section::Section;
use super::{Base, Config};

const EXAMPLE: &str = include_str!("../../config.example.toml");
const DOCUMENTATION: &str = include_str!("../../docs/configuration.md");

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
        ("archive-key", "AKIDCANARY\nSECRETCANARY\n"),
        ("warehouse-url", "postgresql://shop:CANARY@db.example.com/shops"),
        ("smtp-login", "shop\nsecret"),
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
        // A table of tables.
        .filter(|(section, key)| section != "reports" || *key != "schedule")
        .map(|(section, key)| match section.strip_prefix("routes.") {
            Some(_) => ("routes.outsourced_jobs".to_owned(), key.to_owned()),
            None => (section, key.to_owned()),
        })
        .collect();
    assert_eq!(without_repeats(&known), without_repeats(&keys()));
    assert!(known.len() > 40, "{known:?}");
}

/// The type of each sink of the example.
fn sink_types() -> BTreeMap<&'static str, &'static str> {
    let mut types = BTreeMap::new();
    let mut sink = "";
    for line in EXAMPLE.lines() {
        let line = line.trim_start_matches('#');
        if let Some(name) = line.strip_prefix("[sinks.") {
            sink = name.trim_end_matches(']');
        } else if let Some(name) = line.strip_prefix("type = ") {
            types.insert(sink, name.trim_matches('"'));
        }
    }
    types
}

/// Every key in the table of the documentation: `poll.limit`, `sinks.NAME.type`, `webhook: url`.
fn documented() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for row in DOCUMENTATION.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cell = row.split(" | ").next().unwrap();
        let kind = cell.split_once(": ").map(|(kind, _)| format!("{kind}: "));
        let mut section = String::new();
        for name in cell.split('`').skip(1).step_by(2) {
            let name =
                name.strip_prefix('.').map_or(name.to_owned(), |key| format!("{section}.{key}"));
            section =
                name.rsplit_once('.').map(|(section, _)| section.to_owned()).unwrap_or_default();
            keys.insert(format!("{}{name}", kind.as_deref().unwrap_or_default()));
        }
    }
    keys
}

#[test]
fn the_documentation_has_every_key_and_no_other() {
    let (documented, types) = (documented(), sink_types());
    let mut found = BTreeSet::new();
    for (section, key) in keys() {
        let name = match section.split_once('.') {
            Some(("routes", _)) => format!("routes.ROUTE.{key}"),
            Some(("sinks", sink)) if documented.contains(&format!("sinks.NAME.{key}")) => {
                assert!(types.contains_key(sink), "{sink}");
                format!("sinks.NAME.{key}")
            }
            Some(("sinks", sink)) => format!("{}: {key}", types[sink]),
            Some(("reports", _)) => format!("reports.schedule.NAME.{key}"),
            _ => format!("{section}.{key}"),
        };
        found.insert(name);
    }
    assert_eq!(found, documented);
}

#[test]
fn the_values_that_the_documentation_shows_are_accepted() {
    let (dir, base) = folder();
    let example = everything_on(dir.path());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut texts: Vec<String> = std::fs::read_dir(docs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    texts.push(include_str!("../../README.md").to_owned());
    let known: BTreeSet<String> = keys().into_iter().map(|(_, key)| key).collect();
    let mut tried = 0;
    for (key, value) in texts
        .iter()
        .flat_map(|text| text.split('`'))
        .filter_map(|span| span.split_once(" = ").filter(|(key, _)| known.contains(*key)))
    {
        // Only the first of several keys of this name: a later one may be of another kind.
        let mut is_replaced = false;
        let shown: Vec<String> = example
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some((name, _)) if name == key && !is_replaced => {
                    is_replaced = true;
                    format!("{key} = {value}")
                }
                _ => line.to_owned(),
            })
            .collect();
        let read = Config::parse(&shown.join("\n"), "docs", &base);
        let wrong = |problem: &&super::Problem| problem.message().contains(&format!("`{key}`"));
        let problems = read.err();
        let refused = problems.as_ref().and_then(|problems| problems.iter().find(wrong));
        assert!(refused.is_none(), "{key} = {value}: {refused:?}");
        tried += 1;
    }
    assert!(tried >= 4, "only {tried} values were found");
}

#[test]
fn the_example_is_valid_as_shipped_and_with_every_key_on() {
    let (dir, base) = folder();
    let shipped =
        Config::parse(EXAMPLE, "config.example.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    assert!(shipped.sinks.is_empty() && shipped.status.is_none());
    let text = everything_on(dir.path());
    let all = Config::parse(&text, "config.example.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(all.sinks.len(), 12);
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
