//! The unit files of `systemd/` as text; `.ci/units` tests them with systemd.

use std::fs;
use std::path::Path;

fn unit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The directives of a unit, without comments.
fn directives(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn the_template_differs_from_the_unit_only_in_its_name() {
    let (single, template) = (unit("shopmirror.service"), unit("shopmirror@.service"));
    let as_single = template
        .replace("/etc/shopmirror/%i.toml", "/etc/shopmirror/config.toml")
        .replace("shopmirror %i:", "shopmirror:")
        .replace("shopmirror/%i", "shopmirror")
        .replace("shopmirror-%i", "shopmirror");
    assert_eq!(directives(&as_single), directives(&single));
    assert!(template.contains("%i.toml") && template.contains("StateDirectory=shopmirror/%i\n"));
}

#[test]
fn the_daemon_may_lower_the_priority_of_its_reports() {
    let text = unit("shopmirror.service");
    let filters: Vec<&str> = directives(&text)
        .into_iter()
        .filter(|line| line.starts_with("SystemCallFilter="))
        .collect();
    // @resources holds it; a later line allows it again.
    let refused = filters.iter().position(|line| line.contains("~") && line.contains("@resources"));
    let allowed = filters.iter().position(|line| *line == "SystemCallFilter=setpriority");
    assert!(refused.is_some() && refused < allowed, "{filters:?}");
}

#[test]
fn the_key_of_an_instance_is_watched_as_that_of_the_single_service() {
    for kind in ["path", "service"] {
        let single = unit(&format!("shopmirror-key.{kind}"));
        let template = unit(&format!("shopmirror-key@.{kind}"));
        let as_single = template
            .replace("/etc/shopmirror/%i-key", "/etc/shopmirror/api-key")
            .replace("shopmirror@%i.service", "shopmirror.service")
            .replace("shopmirror %i", "shopmirror");
        assert_eq!(directives(&as_single), directives(&single), "{kind}");
        assert!(template.contains("%i"), "{kind}");
    }
}

#[test]
fn readers_of_the_mirror_and_readers_of_the_secrets_are_two_groups() {
    let service = unit("shopmirror.service");
    let service = directives(&service);
    assert!(service.contains(&"Group=shopmirror"));
    assert!(service.contains(&"SupplementaryGroups=shopmirror-secrets"));
    let users = unit("shopmirror.sysusers");
    assert!(directives(&users).contains(&"g shopmirror-secrets -"));
    assert!(directives(&users).contains(&"m shopmirror shopmirror-secrets"));
    let files = unit("shopmirror.tmpfiles");
    let of_etc = directives(&files).into_iter().filter(|line| line.contains("/etc/shopmirror"));
    for line in of_etc {
        assert!(line.ends_with("root shopmirror-secrets -"), "{line}");
    }
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/install.md");
    let document = fs::read_to_string(document).unwrap();
    let installed = document.lines().filter(|line| line.contains("install -m 640"));
    assert!(installed.clone().count() >= 2);
    for line in installed {
        assert!(line.contains("-g shopmirror-secrets "), "{line}");
    }
}

#[test]
fn no_unit_uses_what_systemd_252_ignores() {
    let newer = [
        "notify-reload",
        "RestartSteps",
        "RestartMaxDelaySec",
        "RestartMode",
        "ImportCredential",
        "MemoryPressureWatch",
        "OpenFile",
        "PrivatePIDs",
        "CoredumpReceive",
        "LogFilterPatterns",
        "PrivateTmp=disconnected",
        "ProtectControlGroups=strict",
        "PrivateUsers=self",
    ];
    let units = [
        "shopmirror.service",
        "shopmirror@.service",
        "shopmirror-key.service",
        "shopmirror-key@.service",
    ];
    for name in units {
        let text = unit(name);
        for directive in directives(&text) {
            let found = newer.iter().find(|word| directive.contains(**word));
            assert_eq!(found, None, "{name}: {directive}");
        }
    }
}

#[test]
fn the_unit_reads_the_files_that_the_documents_name() {
    let service = unit("shopmirror.service");
    let service = directives(&service);
    for name in ["ExecStart", "ExecReload"] {
        let begin = format!("{name}=/usr/bin/shopmirror ");
        let line = service.iter().find(|line| line.starts_with(&begin)).unwrap();
        assert!(line.ends_with(" --config /etc/shopmirror/config.toml"), "{line}");
    }
    let key = unit("shopmirror-key.path");
    assert!(directives(&key).contains(&"PathChanged=/etc/shopmirror/api-key"));
    let credential = unit("drop-ins/credential.conf");
    let is_key = |line: &&str| line.starts_with("LoadCredential=api-key:");
    assert!(directives(&credential).iter().any(is_key), "{credential}");
    // A check before the first start can test the state folder.
    let made = unit("shopmirror.tmpfiles");
    assert!(directives(&made).contains(&"d /var/lib/shopmirror 0750 shopmirror shopmirror -"));
    // The exit codes after which a restart cannot help.
    assert!(service.contains(&"RestartPreventExitStatus=64 78"));
}
