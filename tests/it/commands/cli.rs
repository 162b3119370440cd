//! The commands: JSON, exit codes, and text from outside that cannot control a terminal.

use sandbox::{Provider, Route};
use serde_json::{Value, json};

use crate::support::{ClosedPort, Place, Receiver, Workspace, wait_until};

/// A folder in which `once` has run on a small shop.
async fn filled() -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\"]"));
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    (workspace, place)
}

const LISTINGS: [&[&str]; 9] = [
    &["status"],
    &["sinks"],
    &["gaps"],
    &["records", "leads"],
    &["records", "job-status-changes", "--limit", "3"],
    &["log", "--route", "payments", "--limit", "5"],
    &["dead", "audit"],
    &["search", "a"],
    &["check"],
];

#[tokio::test]
async fn every_listing_has_a_table_and_json_with_a_daemon_and_without() {
    let (workspace, place) = filled().await;
    let lead = crate::support::text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    let show: &[&str] = &["show", "leads", &lead];
    for running in [false, true] {
        let daemon = running.then(|| place.daemon());
        if running {
            place.status_when("the daemon answers", |status| status["running"] == true).await;
        }
        for command in LISTINGS.into_iter().chain([show]) {
            let plain = place.run(command).await;
            assert_eq!(plain.code, Some(0), "{command:?}: {plain:?}");
            assert!(!plain.out.is_empty(), "{command:?}");
            let json = place.run(command.iter().chain(&["--json"])).await;
            assert_eq!(json.code, Some(0), "{command:?}: {json:?}");
            let said = json.json();
            let object = matches!(command[0], "status" | "show");
            assert_eq!(said.is_object(), object, "{command:?}");
            assert_eq!(said.is_array(), !object, "{command:?}: listings are arrays");
        }
        drop(daemon);
    }
    let records = place.run(["records", "leads", "--where", &format!("id={lead}"), "--json"]).await;
    assert_eq!(records.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_status_has_every_documented_field_with_a_daemon_and_without() {
    let (workspace, place) = filled().await;
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let has = |value: &Value, names: &[&str]| {
        let found = keys(value);
        for name in names {
            assert!(found.iter().any(|key| key == name), "{name} is missing: {value}");
        }
    };
    let alone = place.status().await;
    assert_eq!((&alone["running"], &alone["health"]), (&json!(false), &json!("failing")));
    assert!(alone["reasons"][0].as_str().unwrap().contains("no daemon is running"), "{alone}");
    let daemon = place.started().await;
    workspace.all_polled().await;
    let beside = place.status().await;
    assert_eq!((&beside["running"], &beside["health"]), (&json!(true), &json!("ok")), "{beside}");
    for status in [&alone, &beside] {
        has(status, &["health", "reasons", "pollers", "budget", "sinks", "records"]);
        assert_eq!(status["records"].as_object().unwrap().len(), 6);
        assert_eq!(status["pollers"].as_array().unwrap().len(), 6);
        let poller = [
            "route",
            "business",
            "state",
            "last_success_age_s",
            "interval_s",
            "next_poll_s",
            "rate_per_hour",
            "gaps",
        ];
        has(&status["pollers"][0], &poller);
        let sink = ["name", "type", "state", "position", "behind", "retrying", "dead"];
        has(&status["sinks"][0], &sink);
    }
    let budget = ["limit", "used_last_60s", "remaining_seen", "others_per_minute"];
    has(&beside["budget"], &budget);
    assert_eq!(beside["pid"], daemon.pid());
    daemon.stop().await;
}

#[tokio::test]
async fn exit_codes_name_the_kind_of_error() {
    let (workspace, place) = filled().await;
    for (args, code, word) in [
        (&["no-such-command"][..], 64, "unrecognized"),
        (&["records", "invoices"][..], 64, "unknown route"),
        (&["records", "leads", "--where", "no_such=1"][..], 64, "has no column"),
        (&["dead", "absent"][..], 64, "no sink"),
        (&["show", "leads", "no-such-id"][..], 65, "not in the mirror"),
        (&["--config", "missing.toml", "status"][..], 78, "missing.toml"),
    ] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.err.contains(word) && ended.out.is_empty(), "{args:?}: {ended:?}");
    }
    for args in [&["--version"][..], &["help"], &["man"], &["completions", "bash"]] {
        let ended = place.run(args).await;
        assert_eq!((ended.code, ended.out.is_empty()), (Some(0), false), "{args:?}: {ended:?}");
    }
    place.write("broken.toml", "[workspace]\nbase_urk = 1\n");
    let ended = place.run(["--config", "broken.toml", "run"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.err.contains("base_url"), "{ended:?}");

    place.write_key("no-key-of-this-workspace");
    for (command, code) in [("once", 77), ("check", 77), ("search", 77)] {
        let args = if command == "search" { vec![command, "x"] } else { vec![command] };
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
    }
    let closed = ClosedPort::new();
    let gone = Place::new(&closed.base_url(), "key");
    assert_eq!(gone.run(["status"]).await.code, Some(69), "there is no store yet");
    assert_eq!(gone.run(["once"]).await.code, Some(75), "it may work later");
    drop(workspace);
}

#[tokio::test]
async fn a_command_that_reads_the_store_or_asks_the_daemon_needs_no_key() {
    let (workspace, place) = filled().await;
    let key = workspace.sandbox.automation_key();
    let variable = format!("SHOPMIRROR_API_KEY={key}");
    let text = std::fs::read_to_string(place.path("config.toml")).unwrap();
    place.write("config.toml", &text.replace("api_key_file = \"api-key\"\n", ""));
    let reading = LISTINGS.into_iter().filter(|args| !["check", "search"].contains(&args[0]));
    for args in reading.chain([&["plan"][..], &["why", "leads"], &["check", "--offline"]]) {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    }
    for args in [&["search", "a"][..], &["once"], &["run"], &["check"]] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(78), "{args:?}: {ended:?}");
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains("there is no API key"), "{args:?}: {said}");
    }
    let daemon = place.daemon_by(&["env", &variable]);
    place.status_when("the daemon answers", |status| status["running"] == true).await;
    let ended = place.run(["search", "a"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_run_that_cannot_start_creates_nothing() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    std::fs::remove_file(place.path("api-key")).unwrap();
    let before = place.files();
    for command in ["run", "once"] {
        let ended = place.run([command]).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert_eq!(place.files(), before, "{command}");
    }
}

#[tokio::test]
async fn one_sink_can_be_checked_alone() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let broken = "[sinks.label]\ntype = \"command\"\ncommand = [\"/no/such/program\"]\n";
    place.configure(&format!("{}{broken}", Place::file_sink("audit", "")));
    let ended = place.run(["check", "--sink", "audit", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let found = ended.json();
    let what: Vec<&Value> = found.as_array().unwrap().iter().map(|found| &found["what"]).collect();
    assert_eq!(what, ["config", "sink audit"]);
    assert_eq!(workspace.sandbox.requests().total, 0);
    assert_eq!(place.run(["check", "--sink", "label"]).await.code, Some(69));
    let ended = place.run(["check", "--sink", "absent"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("audit, label"), "{ended:?}");
}

#[tokio::test]
async fn text_from_the_workspace_cannot_control_a_terminal() {
    let workspace = Workspace::start().await;
    let hostile = "Bob\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J\r\u{202e}evil\u{2028}\u{0}\nnext";
    let id = workspace.add(
        Route::Customers,
        json!({"name": hostile, "email": hostile, "status": hostile, hostile: hostile}),
    );
    workspace.add(Route::Customers, json!({"id": hostile.replace('\0', ""), "name": "x"}));
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.edit(Route::Customers, &id, json!({"name": format!("{hostile}2")}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for args in [
        &["records", "customers"][..],
        &["show", "customers", &id],
        &["log", "--route", "customers"],
        &["search", "Bob"],
        &["records", "customers", "--where", "no\u{1b}[31m=1"],
        &["show", "customers", "no\u{1b}[31m"],
    ] {
        let ended = place.run(args).await;
        let shown = format!("{}{}", ended.out, ended.err);
        let foreign = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!shown.contains(foreign), "{args:?}: {shown:?}");
        assert!(shown.contains("\\u{1b}"), "{args:?} shows that it was there: {shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("next")), "{args:?}: {shown:?}");
    }
}

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
    for what in ["config", "key", "workspace", "store", "sink audit", "sink hook", "sink label"] {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["what"] == what);
        assert_eq!(found.map(|finding| &finding["ok"]), Some(&json!(true)), "{what}: {findings}");
    }
    assert_eq!(place.files(), before);
    let log = workspace.sandbox.requests().log;
    let routes: Vec<&str> = log.iter().map(|request| request.route.as_str()).collect();
    assert_eq!(routes, ["automation-ping"]);
    assert_eq!(hook.received().iter().filter(|request| !request.body.is_empty()).count(), 0);

    // Each problem is explained.
    workspace.sandbox.add_key("website", "website", Provider::Website);
    for (key, word) in [("website", "automation key"), ("nonsense", "api_key_file")] {
        place.write_key(key);
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(77), "{ended:?}");
        assert!(ended.out.contains("WRONG") && ended.out.contains(word), "{ended:?}");
    }
    place.write_key(&workspace.sandbox.automation_key());
    workspace.sandbox.set_standard_host(Some("127.0.0.1".to_owned()));
    let ended = place.run(["check"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.out.contains("white-label"), "{ended:?}");
    assert!(!ended.out.contains(&workspace.sandbox.automation_key()));
}

#[tokio::test]
async fn once_stores_delivers_and_ends() {
    let (workspace, place) = filled().await;
    let stored = place.number("SELECT count(*) FROM changes");
    assert_eq!(place.lines("audit.ndjson").len(), usize::try_from(stored).unwrap());
    place.configure(&Place::file_sink("audit", ""));
    workspace.sandbox.burst(Route::Jobs, 7);
    let ended = place.run(["once"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "7 changes stored\n"), "{ended:?}");
    assert_eq!(place.lines("audit.ndjson").len(), usize::try_from(stored).unwrap() + 7);
    let ended = place.run(["once"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "0 changes stored\n"), "{ended:?}");
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);

    // A sink that is down is reported, and the next run retries.
    let closed = ClosedPort::new();
    let address = format!("http://{}/", closed.address);
    place.configure(&Place::webhook_sink("away", &address, ""));
    assert_eq!(place.run(["once"]).await.code, Some(0), "there is nothing for it yet");
    workspace.sandbox.burst(Route::Jobs, 1);
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.err.contains("sink away: 1 change not delivered"), "{ended:?}");
    let hook = Receiver::start().await;
    place.configure(&Place::webhook_sink("away", &hook.url("/"), ""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(hook.events().len(), 1);
}

#[tokio::test]
async fn the_log_is_printed_in_words_and_in_utc() {
    let (workspace, place) = filled().await;
    let none = place.run(["log", "--kind", "updated"]).await;
    assert_eq!((none.code, none.out.as_str()), (Some(0), "no changes match\n"), "{none:?}");
    let one = place.run(["log", "--limit", "1"]).await;
    let at = one.out.split_whitespace().nth(1).unwrap();
    assert!(at.ends_with('Z') && at.parse::<jiff::Timestamp>().is_ok(), "{one:?}");
    workspace.sandbox.burst(Route::Jobs, 150);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let gap = place.run(["log", "--kind", "gap"]).await;
    assert!(gap.out.contains("about 50 records may have been missed between 20"), "{gap:?}");
    assert!(!gap.out.contains('{'), "{gap:?}");
}

#[tokio::test]
async fn an_empty_log_is_called_empty_only_without_a_filter() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    // It creates the store and reaches no workspace.
    assert_eq!(place.run(["once"]).await.code, Some(75));
    assert_eq!(place.run(["log"]).await.out, "nothing has changed yet\n");
    for args in [["--route", "jobs"], ["--kind", "created"], ["--after", "0"]] {
        assert_eq!(place.run(["log"].iter().chain(&args)).await.out, "no changes match\n");
    }
}

#[tokio::test]
async fn the_log_can_be_followed() {
    let (workspace, place) = filled().await;
    let _daemon = place.started().await;
    let follow = place.follow(["log", "--follow", "--limit", "1", "--json"]);
    wait_until("it shows the last change", || follow.lines().len() == 1).await;
    let id = workspace.add(Route::Leads, json!({"name": "Seen"}));
    wait_until("it shows the new one", || follow.lines().len() == 2).await;
    let line: Value = serde_json::from_str(&follow.lines()[1]).unwrap();
    assert_eq!((&line["record_id"], &line["kind"]), (&json!(id), &json!("created")));
}

#[tokio::test]
async fn following_the_log_ends_and_says_why_if_the_store_is_replaced() {
    let (_workspace, place) = filled().await;
    let made = place.run(["backup", "copy.db"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let follow = place.follow(["log", "--follow", "--limit", "1", "--json"]);
    wait_until("it reads the store", || follow.lines().len() == 1).await;
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let (code, said) = follow.ended().await;
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("was replaced") && said.contains("start `log --follow` again"), "{said}");
}
