//! A reload changes what the configuration says, a configuration with a problem is refused while the
//! daemon continues, no signal is lost, and the command ends as the daemon decides.

use std::collections::HashMap;
use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{Place, Workspace, wait_until};

#[tokio::test]
async fn a_configuration_with_a_problem_is_refused_and_the_old_one_stays() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let audit = Place::file_sink("audit", "");
    place.configure(&audit);
    fs::copy(place.path("shopmirror.toml"), place.path("old.toml")).unwrap();
    let daemon = place.started().await;
    workspace.all_polled().await;
    let broken = [
        "[sinks".to_owned(),
        "[store]\npath = \"another.db\"\n".to_owned(),
        "[sinks.audit]\ntype = \"file\"\npaht = \"CANARY\"\n".to_owned(),
        audit.clone(),
    ];
    for (refusals, broken) in (1..).zip(broken) {
        place.configure(&broken);
        if broken == audit {
            // The key is being replaced.
            fs::remove_file(place.path("api-key")).unwrap();
        }
        daemon.signal(Signal::HUP);
        let refused = || place.log().matches("the reload was refused").count() == refusals;
        wait_until("it is refused", refused).await;
        workspace.sandbox.burst(Route::Leads, 1);
        wait_until("the old one stays", || {
            place.lines("audit.ndjson").len() == refusals
        })
        .await;
        if broken.contains("CANARY") {
            let status = place
                .run(["--config", "old.toml", "status", "--json"])
                .await
                .json();
            assert_eq!(status["health"], "degraded", "{status}");
            let why = status["reload_refused"].as_str().unwrap();
            assert!(
                why.contains("shopmirror.toml:") && why.contains("`path`"),
                "{why}"
            );
            assert!(!why.contains('\n') && !why.contains("CANARY"), "{why}");
            assert!(status["reasons"].to_string().contains("`path`"), "{status}");
        }
    }

    place.write_key(&workspace.sandbox.automation_key());
    place.configure(&[audit, Place::file_sink("second", "")].concat());
    daemon.signal(Signal::HUP);
    wait_until("the new sink is there", || {
        place.number("SELECT count(*) FROM _sinks") == 2
    })
    .await;
    place
        .status_when("no refusal is told", |status| {
            status["reload_refused"].is_null()
        })
        .await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("it gets what is new", || {
        place.lines("second.ndjson").len() == 1
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_command_reload_ends_as_the_daemon_decides() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(69), "no daemon runs: {ended:?}");
    let daemon = place.started().await;

    place.configure(&Place::file_sink("audit", ""));
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    place
        .status_when("the sink is there", |status| {
            status["sinks"][0]["name"] == "audit"
        })
        .await;

    // The file is right, but the daemon cannot continue with it.
    fs::remove_file(place.path("api-key")).unwrap();
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.err.contains("api-key"), "{ended:?}");
    place.write_key(&workspace.sandbox.automation_key());

    place.configure("[sinks.audit]\ntype = \"file\"\npaht = \"x\"\n");
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.err.contains("did you mean `path`?"), "{ended:?}");

    place.configure("[store]\npath = \"another.db\"\n");
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(
        ended.err.contains("another.db") && ended.err.contains("restart it instead"),
        "{ended:?}"
    );

    place.configure("");
    let ended = place.run(["reload"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn the_status_beside_a_file_with_a_mistake_shows_the_daemon_and_the_mistake() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    for (mistake, place_of_it) in [
        ("[sinks", "shopmirror.toml:"),
        ("[store]\nlimits = 1\n", "unknown key in [store]"),
    ] {
        place.configure(mistake);
        let ended = place.run(["status", "--exit-code", "--json"]).await;
        let status = ended.json();
        assert_eq!(
            (ended.code, &status["health"], &status["running"]),
            (Some(0), &json!("ok"), &json!(true)),
            "{ended:?}"
        );
        let told = status["file_mistake"].as_str().unwrap();
        assert!(told.contains(place_of_it), "{told}");
        let ended = place.run(["status"]).await;
        assert!(ended.out.contains(place_of_it), "{ended:?}");
    }
    daemon.stop().await;
    let ended = place.run(["status"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let ended = place.run(["status", "--exit-code"]).await;
    assert_eq!(ended.code, Some(3), "the health is not known: {ended:?}");
    assert!(ended.err.contains("unknown key in [store]"), "{ended:?}");
}

#[tokio::test]
async fn a_reload_takes_routes_and_sinks_away_and_brings_them_back_where_they_were() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = Place::file_sink("audit", "");
    place.configure(&sink);
    let daemon = place.started().await;
    workspace.all_polled().await;
    place.configure("[routes.leads]\nenabled = false\n");
    daemon.signal(Signal::HUP);
    wait_until("the reload is done", || {
        place.log().matches(" running ").count() == 2
    })
    .await;
    let asked = workspace.asked(Route::Leads);
    workspace.sandbox.burst(Route::Leads, 5);
    workspace.sandbox.burst(Route::Jobs, 5);
    workspace.polled(Route::Jobs).await;
    assert_eq!(
        workspace.asked(Route::Leads),
        asked,
        "the route is not asked"
    );
    let status = place.status().await;
    assert_eq!(
        (
            status["pollers"].as_array().unwrap().len(),
            &status["sinks"]
        ),
        (5, &json!([]))
    );

    place.configure(&sink);
    daemon.signal(Signal::HUP);
    wait_until("both have come", || place.lines("audit.ndjson").len() == 10).await;
    let mut kinds: HashMap<String, usize> = HashMap::new();
    for line in place.lines("audit.ndjson") {
        *kinds
            .entry(line["route"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    assert_eq!(
        kinds,
        HashMap::from([("leads".to_owned(), 5), ("jobs".to_owned(), 5)])
    );
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_stops_neither_polling_nor_a_delivery_whose_configuration_stays() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (program, folder) = (place.path("take"), place.path(""));
    place.write(
        "take",
        "cd \"$1\"; echo run >> runs; until [ -e go ]; do sleep 0.02; done\n",
    );
    let label = format!(
        "[sinks.label]\ntype = \"command\"\ntimeout = \"10m\"\ncommand = [\"/bin/sh\", \"{}\", \"{}\"]\n",
        program.display(),
        folder.display(),
    );
    place.configure(&label);
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({}));
    wait_until("the program runs", || place.path("runs").exists()).await;

    place.configure(&[label, Place::file_sink("audit", "")].concat());
    daemon.signal(Signal::HUP);
    wait_until("the reload is done", || {
        place.log().matches(" running ").count() == 2
    })
    .await;
    // The program still runs: polling and the new sink do not wait for it.
    workspace.add(Route::Leads, json!({}));
    wait_until("the new sink has the next one", || {
        place.lines("audit.ndjson").len() == 1
    })
    .await;
    std::fs::write(place.path("go"), "").unwrap();
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("the program has taken both", || place.is_delivered(last)).await;
    let runs = std::fs::read_to_string(place.path("runs")).unwrap();
    assert_eq!(
        runs.lines().count(),
        2,
        "one run per change: {}",
        place.log()
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_and_a_stop_during_a_reload_are_obeyed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    // An endpoint that never answers, with something to deliver to it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    let rest = "timeout = \"2s\"\nstart = \"beginning\"\nchanges = [\"baseline\"]";
    place.configure(&Place::webhook_sink("hangs", &url, rest));
    let daemon = place.started().await;
    let _connection = listener.accept().await.unwrap();
    let reloads = || place.log().matches("reloading").count();
    daemon.signal(Signal::HUP);
    wait_until("a reload has begun", || reloads() == 1).await;
    place.configure("");
    daemon.signal(Signal::HUP);
    wait_until("the last configuration runs", || {
        place.log().contains("sinks=0")
    })
    .await;
    let before = reloads();
    place.configure(&Place::webhook_sink("hangs", &url, rest));
    daemon.signal(Signal::HUP);
    wait_until("another reload has begun", || reloads() > before).await;
    daemon.stop().await;
}
