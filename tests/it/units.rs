//! The unit files of `systemd/`, as far as text can be judged; `.ci/units` asks systemd itself.

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
fn the_template_is_the_unit_but_for_its_name() {
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
    let units = ["shopmirror.service", "shopmirror@.service", "shopmirror-key.service"];
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
    assert!(service.contains("--config /etc/shopmirror/config.toml"));
    assert!(unit("shopmirror-key.path").contains("PathChanged=/etc/shopmirror/api-key"));
    assert!(unit("drop-ins/credential.conf").contains("LoadCredential=api-key:"));
    // A check before the first start can create what a sink writes into the state folder.
    let made = unit("shopmirror.tmpfiles");
    assert!(directives(&made).contains(&"d /var/lib/shopmirror 0750 shopmirror shopmirror -"));
    // The exit codes of a configuration that only a human can mend.
    assert!(service.contains("RestartPreventExitStatus=64 78"));
}
