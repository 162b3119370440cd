//! `check`: it finds what is wrong, says how to fix it, and writes nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use sandbox::{Options, Provider, Shop};
use serde_json::{Value, json};

use crate::support::{Pages, Place, Receiver, Workspace};

#[tokio::test]
async fn check_tests_everything_and_writes_nothing() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let program = "[sinks.label]\ntype = \"command\"\ncommand = [\"/bin/true\"]\n";
    place.configure(&format!(
        "{}{}{program}",
        Place::file_sink("audit", ""),
        Place::webhook_sink("hook", &hook.url("/"), "")
    ));
    let before = place.files();
    let ended = place.run(["check", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let findings = ended.json();
    for what in [
        "config",
        "key",
        "workspace",
        "store",
        "sink audit",
        "sink hook",
        "sink label",
    ] {
        let found = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["what"] == what);
        assert_eq!(
            found.map(|finding| &finding["ok"]),
            Some(&json!(true)),
            "{what}: {findings}"
        );
    }
    assert_eq!(place.files(), before);
    let log = workspace.sandbox.requests().log;
    let routes: Vec<&str> = log.iter().map(|request| request.route.as_str()).collect();
    assert_eq!(routes, ["automation-ping"]);
    assert_eq!(
        hook.received()
            .iter()
            .filter(|request| !request.body.is_empty())
            .count(),
        0
    );

    let broken = "[sinks.broken]\ntype = \"command\"\ncommand = [\"/no/such/program\"]\n";
    place.configure(&format!("{}{broken}", Place::file_sink("audit", "")));
    for (sink, code) in [("audit", 0), ("broken", 69), ("absent", 64)] {
        let ended = place.run(["check", "--sink", sink]).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(
            ended.out.contains("WRONG sink broken"),
            code == 69,
            "{ended:?}"
        );
    }
    assert_eq!(
        workspace.sandbox.requests().total,
        1,
        "a sink is checked alone"
    );
}

#[cfg(feature = "email")]
#[tokio::test]
async fn an_address_that_cannot_be_used_is_found_without_a_network() {
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    place.configure(
        "[sinks.desk]\ntype = \"email\"\nserver = \"smtp.example.com\"\n\
         from = \"Shop <shop@example.com>\"\nto = [\"desk@example\", \"boss example.com\"]\n",
    );
    let ended = place.run(["check", "--offline"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let words = "WRONG sink desk  sink desk: \"boss example.com\" is not a mail address";
    assert!(ended.out.contains(words), "{ended:?}");
}

#[tokio::test]
async fn check_says_what_is_wrong_and_how_to_fix_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    workspace
        .sandbox
        .add_key("website", "website", Provider::Website);
    for (key, word) in [("website", "automation key"), ("nonsense", "api_key_file")] {
        place.write_key(key);
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert!(
            ended.out.contains("WRONG") && ended.out.contains(word),
            "{ended:?}"
        );
    }
    place.write_key(&workspace.sandbox.automation_key());
    workspace
        .sandbox
        .set_standard_host(Some("127.0.0.1".to_owned()));
    let ended = place.run(["check"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.out.contains("white-label"), "{ended:?}");
    assert!(!ended.out.contains(&workspace.sandbox.automation_key()));
    place.configure("[sinks.audit]\ntype = \"file\"\n");
    let ended = place.run(["check", "--json"]).await;
    let found = &ended.json()[0];
    assert_eq!(
        (ended.code, &found["ok"]),
        (Some(78), &json!(false)),
        "{ended:?}"
    );
    assert!(
        found["said"].as_str().unwrap().contains("needs `path`"),
        "{found}"
    );
    assert!(
        found["said"]
            .as_str()
            .unwrap()
            .contains("see docs/sinks/file.md"),
        "{found}"
    );
    place.write("taken", "");
    workspace.sandbox.set_standard_host(None);
    for (folder, code) in [("new/folder", 0), ("taken/folder", 78)] {
        place.configure(&format!("[store]\npath = \"{folder}/mirror.db\"\n"));
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(
            ended.out.contains("taken: Not a directory"),
            code != 0,
            "{ended:?}"
        );
    }
}

#[tokio::test]
async fn check_gives_each_template_a_record_of_every_route_and_kind_that_its_sink_asks_for() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let sink = |name: &str, rest: &str, template: &str| {
        let rest = format!("{rest}\nformat = \"template\"\ntemplate = '{template}'");
        Place::webhook_sink(name, "http://127.0.0.1:9/", &rest)
    };
    let good = r#"{"a": "{{ record.name|default(record.customer_name) }}", "b": {{ changed }}}"#;
    let mut text = sink("good", "", good);
    let wrong = [
        (
            "json",
            "",
            r#"{"a": {{ record.id }},}"#,
            "jobs.created: the template: its output is not JSON",
        ),
        (
            "of-leads",
            "routes = [\"leads\", \"payments\"]",
            "{{ record.email }}",
            "payments.created",
        ),
        (
            "of-gaps",
            "changes = [\"created\", \"gap\"]",
            "{{ record.id }}",
            "jobs.gap",
        ),
    ];
    for (name, rest, template, _) in wrong {
        text += &sink(name, rest, template);
    }
    place.configure(&text);
    let checked = place.run(["check", "--offline"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    for (name, _, _, words) in wrong {
        let mut lines = checked.out.lines();
        let line = lines.find(|line| line.starts_with(&format!("WRONG sink {name} ")));
        assert!(
            line.is_some_and(|line| line.contains(words)),
            "{name}: {checked:?}"
        );
    }
    assert!(!checked.out.contains("sink good"), "{checked:?}");
}

#[tokio::test]
async fn a_branch_the_workspace_does_not_know_is_named() {
    let options = Options {
        shop: Shop::Chain,
        requests_per_minute: 60_000,
        ..Workspace::usual()
    };
    let workspace = Workspace::of(options).await;
    let place = workspace.place();
    place.configure_all("businesses = [\"1\", \"99\"]\n[budget]\nrequests_per_minute = 60000\n");
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("ok    business 1"), "{checked:?}");
    assert!(
        checked
            .out
            .contains("WRONG business 99 correct `businesses`"),
        "{checked:?}"
    );
}

#[tokio::test]
async fn a_wrong_clock_is_reported_by_check_and_by_health() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["check"]).await.code, Some(0));
    workspace.set_date("Thu, 01 Jan 2026 00:00:00 GMT");
    let wrong = place.run(["check"]).await;
    assert_eq!(wrong.code, Some(78), "{wrong:?}");
    assert!(wrong.out.contains("WRONG clock"), "{wrong:?}");
    let daemon = place.started().await;
    let is_told = |s: &Value| {
        s["reasons"]
            .to_string()
            .contains("ahead of the workspace's")
    };
    let status = place.status_when("the clock is told", is_told).await;
    assert_eq!(status["health"], "degraded", "{status}");
    daemon.stop().await;
}

/// A machine whose systemd has loaded this unit for the configuration of the place; `None` unless
/// this user can act for another one.
async fn machine(place: &Place, unit: &str) -> Option<String> {
    let run = format!(
        "argv[]=/usr/bin/shopmirror run --config {} ;",
        place.path("shopmirror.toml").display()
    );
    let shown =
        format!("LoadState=loaded\nExecStart={{ path=/usr/bin/shopmirror ; {run} }}\n{unit}");
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let systemctl = bin.join("systemctl");
    fs::write(
        &systemctl,
        format!("#!/bin/sh\n[ $1 = show ] && cat <<'END'\n{shown}\nEND\n"),
    )
    .unwrap();
    for executable in [&place.path(""), &bin, &systemctl] {
        fs::set_permissions(executable, Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    let nobody = ["setpriv", "--reuid=65534", "--clear-groups"];
    let can_act = place.run_by(&nobody, &["--version"]).await.code == Some(0);
    if !can_act {
        eprintln!("SKIPPED: this user cannot act for another one");
    }
    can_act.then_some(path)
}

#[tokio::test]
async fn root_checks_as_the_user_of_the_service_and_within_the_limits_of_its_unit() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let unit = |more: &str| format!("User=nobody\nGroup=nogroup\nProtectSystem=strict\n{more}");
    let state = format!("ReadWritePaths={}", place.path("state").display());
    let Some(path) = machine(&place, &unit(&state)).await else {
        return;
    };
    fs::create_dir(place.path("state")).unwrap();
    let srv = tempfile::tempdir_in("/var/tmp").unwrap();
    let hook = Receiver::start().await;
    place.write("hook-url", &hook.url("/"));
    place.configure(&format!(
        "[store]\npath = \"state/mirror.db\"\n[sinks.exports]\ntype = \"file\"\n\
         path = \"{}/exports.ndjson\"\n[sinks.hook]\ntype = \"webhook\"\nurl_file = \"hook-url\"\n",
        srv.path().display()
    ));
    chown(srv.path(), Some(65_534), Some(65_534)).unwrap();
    for name in ["state", "api-key", "hook-url"] {
        chown(place.path(name), Some(65_534), Some(65_534)).unwrap();
    }
    fs::set_permissions(place.path("shopmirror.toml"), Permissions::from_mode(0o644)).unwrap();
    let check = async || place.run_by(&["env", &path], &["check"]).await;

    let strict = check().await;
    assert_eq!(strict.code, Some(78), "{strict:?}");
    assert!(
        strict.out.contains("shopmirror.service runs as nobody\n"),
        "{strict:?}"
    );
    assert!(
        strict
            .out
            .contains("WRONG sink exports the service may not write to"),
        "{strict:?}"
    );
    assert_eq!(
        strict.out.matches("WRONG").count(),
        1,
        "an address file is no secret: {strict:?}"
    );

    let both = format!("{state} {}", srv.path().display());
    machine(&place, &unit(&both)).await;
    let open = check().await;
    assert_eq!(open.code, Some(0), "{open:?}");

    chown(place.path("hook-url"), Some(0), Some(0)).unwrap();
    fs::set_permissions(place.path("hook-url"), Permissions::from_mode(0o600)).unwrap();
    let closed = check().await;
    assert_eq!(closed.code, Some(78), "{closed:?}");
    let wanted =
        "`url_file` names a file that the user of the service cannot use: Permission denied";
    assert!(closed.out.contains(wanted), "{closed:?}");
}

#[tokio::test]
async fn a_disk_without_room_is_reported() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    fs::create_dir(place.path("disk")).unwrap();
    place.configure("[store]\npath = \"disk/mirror.db\"\n");
    let disk = place.path("disk");
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$0\" && exec \"$@\"";
    let small = [
        "unshare",
        "-m",
        "-r",
        "sh",
        "-c",
        mount,
        disk.to_str().unwrap(),
    ];
    let checked = place.run_by(&small, &["check"]).await;
    if checked.out.is_empty() {
        return eprintln!("SKIPPED: no disk can be mounted here: {checked:?}");
    }
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(
        checked.out.contains("WRONG store      the disk of"),
        "{checked:?}"
    );
}

#[tokio::test]
async fn a_key_that_has_no_effect_is_a_warning_with_its_place_and_no_error() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    place.write("erp-url", "http://127.0.0.1:9/");
    place.configure(
        "[routes.jobs]\nevery = \"30s\"\nmin_interval = \"5s\"\n\
         [routes.leads]\nmin_interval = \"5m\"\n\
         [sinks.erp]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:8/\"\nurl_file = \"erp-url\"\n\
         \n",
    );
    let ended = place.run(["check", "--offline", "--json"]).await;
    let findings = ended.json();
    let mut warnings = Vec::new();
    for finding in findings.as_array().unwrap() {
        assert_eq!(finding["ok"], json!(true), "{findings}");
        if finding["warning"] == json!(true) {
            warnings.push(finding["said"].as_str().unwrap());
        }
    }
    assert_eq!((ended.code, warnings.len()), (Some(0), 3), "{findings}");
    for (warning, said) in warnings.iter().zip([
        "`min_interval` has no effect beside `every`",
        "`min_interval` is longer than max_interval, 500ms",
        "`url` has no effect beside `url_file`",
    ]) {
        assert!(
            warning.contains("shopmirror.toml:") && warning.contains(said),
            "{warning}"
        );
    }
    let ended = place.run(["check", "--offline"]).await;
    assert_eq!(ended.out.matches("warn ").count(), 3, "{ended:?}");
}
