//! What the installation promises: the files of `systemd/` as text. `release/try` tests a whole
//! package, `.ci/units` the units with systemd.

use std::fs;
use std::path::Path;

/// The directives of a file of `systemd/`, without comments.
fn directives(name: &str) -> Vec<String> {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("systemd")
            .join(name),
    )
    .unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn readers_of_the_mirror_and_readers_of_the_secrets_are_two_groups() {
    let has = |file: &str, line: &str| directives(file).iter().any(|found| found == line);
    assert!(has("shopmirror.service", "Group=shopmirror"));
    assert!(has(
        "shopmirror.service",
        "SupplementaryGroups=shopmirror-secrets"
    ));
    assert!(has("shopmirror.sysusers", "g shopmirror-secrets -"));
    assert!(has(
        "shopmirror.sysusers",
        "m shopmirror shopmirror-secrets"
    ));
    let files = directives("shopmirror.tmpfiles");
    let of_etc: Vec<_> = files
        .iter()
        .filter(|line| line.contains("/etc/shopmirror"))
        .collect();
    assert!(!of_etc.is_empty());
    for line in of_etc {
        assert!(line.ends_with("root shopmirror-secrets -"), "{line}");
    }
}

#[test]
fn the_documents_name_all_that_a_unit_lets_its_service_execute() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let security = fs::read_to_string(folder.join("docs/security.md")).unwrap();
    for unit in ["shopmirror.service", "shopmirror@.service"] {
        let lines = directives(unit);
        assert!(lines.contains(&"NoExecPaths=/".to_owned()), "{unit}");
        let paths: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("ExecPaths="))
            .flat_map(str::split_whitespace)
            .collect();
        assert!(!paths.is_empty(), "{unit}");
        for path in paths {
            assert!(security.contains(&format!("`{path}`")), "{unit}: {path}");
        }
    }
}
