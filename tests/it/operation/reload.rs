//! SIGHUP under load loses and repeats nothing; a configuration with a problem is refused.

use std::collections::HashMap;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

fn seqs(events: &[Value]) -> Vec<i64> {
    events.iter().map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn twenty_reloads_under_load_lose_and_repeat_nothing() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sinks = format!(
        "{}{}",
        Place::file_sink("audit", ""),
        Place::webhook_sink("hook", &hook.url("/"), "")
    );
    place.configure(&sinks);
    let daemon = place.started().await;
    workspace.all_polled().await;
    for round in 1..=20 {
        for route in Route::ALL {
            workspace.sandbox.burst(route, 3);
        }
        // In the middle of the work: at least one of the routes has been asked again.
        let asked = workspace.sandbox.requests().total;
        wait_until("it polls", || workspace.sandbox.requests().total > asked).await;
        daemon.signal(Signal::HUP);
        let running = || place.log().matches(" running ").count() > round;
        wait_until("the reload is done", running).await;
    }
    let created = "SELECT count(*) FROM changes WHERE kind = 'created'";
    wait_until("everything is stored", || place.number(created) == 20 * 6 * 3).await;
    let behind = "SELECT count(*) FROM sinks WHERE position < (SELECT max(seq) FROM changes)";
    wait_until("every sink is done", || place.number(behind) == 0).await;
    let rows = place.rows("SELECT seq FROM changes WHERE kind <> 'baseline' ORDER BY seq");
    let expected: Vec<i64> = rows.iter().map(|row| row[0].as_i64().unwrap()).collect();
    assert_eq!(expected.len(), 360);
    assert_eq!(seqs(&place.lines("audit.ndjson")), expected);
    let mut arrived = seqs(&hook.events());
    arrived.sort_unstable();
    assert_eq!(arrived, expected);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_configuration_with_a_problem_is_refused_and_the_old_one_stays() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    let broken = [
        Place::file_sink("audit", "no_such_key = 1"),
        "[store]\npath = \"another.db\"\n".to_owned(),
        "[sinks".to_owned(),
    ];
    for (refusals, broken) in (1..).zip(broken) {
        place.configure(&broken);
        daemon.signal(Signal::HUP);
        let refused = || place.log().matches("the reload was refused").count() == refusals;
        wait_until("it is refused", refused).await;
        workspace.sandbox.burst(Route::Leads, 1);
        wait_until("the old one stays", || place.lines("audit.ndjson").len() == refusals).await;
    }
    assert!(place.log().contains("no_such_key"), "{}", place.log());
    assert!(daemon.is_running());

    place.configure(&format!(
        "{}{}",
        Place::file_sink("audit", ""),
        Place::file_sink("second", "")
    ));
    daemon.signal(Signal::HUP);
    wait_until("the new sink is there", || place.number("SELECT count(*) FROM sinks") == 2).await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("it gets what is new", || place.lines("second.ndjson").len() == 1).await;
    daemon.stop().await;
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
    wait_until("the reload is done", || place.log().matches(" running ").count() == 2).await;
    let asked = workspace.asked(Route::Leads);
    workspace.sandbox.burst(Route::Leads, 5);
    workspace.sandbox.burst(Route::Jobs, 5);
    workspace.polled(Route::Jobs).await;
    assert_eq!(workspace.asked(Route::Leads), asked, "the route is not asked");
    let status = place.status().await;
    assert_eq!((status["pollers"].as_array().unwrap().len(), &status["sinks"]), (5, &json!([])));

    place.configure(&sink);
    daemon.signal(Signal::HUP);
    wait_until("both have come", || place.lines("audit.ndjson").len() == 10).await;
    let mut kinds: HashMap<String, usize> = HashMap::new();
    for line in place.lines("audit.ndjson") {
        *kinds.entry(line["route"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(kinds, HashMap::from([("leads".to_owned(), 5), ("jobs".to_owned(), 5)]));
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn the_status_tells_of_a_refused_reload_until_one_succeeds() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    place.configure("[sinks.audit]\ntype = \"file\"\npaht = \"CANARY\"\n");
    daemon.signal(Signal::HUP);
    let refused = |status: &Value| status["reload_refused"].is_string();
    let status = place.status_when("the refusal is told", refused).await;
    assert_eq!(status["health"], "degraded", "{status}");
    let why = status["reload_refused"].as_str().unwrap();
    assert!(why.contains("config.toml:") && why.contains("`path`"), "{why}");
    assert!(!why.contains('\n') && !why.contains("CANARY"), "{why}");
    // What is no TOML at all does not keep it from being asked either.
    place.configure("[sinks");
    assert_eq!(place.status().await["reload_refused"], status["reload_refused"]);
    let reasons = status["reasons"].as_array().unwrap();
    let told = |reason: &&Value| reason.as_str().unwrap().contains(why);
    assert_eq!(reasons.iter().filter(told).count(), 1, "{reasons:?}");

    place.configure("");
    daemon.signal(Signal::HUP);
    place.status_when("it is over", |status| status["reload_refused"].is_null()).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_is_no_outage_for_who_asks_meanwhile() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    for _ in 0..20 {
        daemon.signal(Signal::HUP);
        let status = place.status().await;
        assert_eq!(status["running"], true, "{status}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_that_adds_a_sink_while_another_program_writes_waits_for_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // A new sink begins with a row of its own.
    place.configure(&[Place::file_sink("audit", ""), Place::file_sink("second", "")].concat());
    daemon.signal(Signal::HUP);
    let told = || place.log().contains("could not open the sinks") || !daemon.is_running();
    wait_until("the daemon has tried", told).await;
    other.execute_batch("COMMIT").unwrap();
    wait_until("it runs", || place.log().matches(" running ").count() == 2).await;
    workspace.sandbox.burst(Route::Leads, 1);
    let both = || ["audit.ndjson", "second.ndjson"].iter().all(|name| place.lines(name).len() == 1);
    wait_until("and delivers", both).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_stops_neither_polling_nor_a_delivery_whose_configuration_stays() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (program, folder) = (place.path("take"), place.path(""));
    place.write("take", "cd \"$1\"; echo run >> runs; until [ -e go ]; do sleep 0.02; done\n");
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
    wait_until("the reload is done", || place.log().matches(" running ").count() == 2).await;
    // The program still runs: polling and the new sink do not wait for it.
    workspace.add(Route::Leads, json!({}));
    wait_until("the new sink has the next one", || place.lines("audit.ndjson").len() == 1).await;
    std::fs::write(place.path("go"), "").unwrap();
    let last = place.number("SELECT max(seq) FROM changes");
    let done = "SELECT position FROM sinks WHERE name = 'label'";
    wait_until("the program has taken both", || place.number(done) == last).await;
    let runs = std::fs::read_to_string(place.path("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2, "one run per change: {}", place.log());
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_keeps_the_wait_that_an_unchanged_sink_was_asked_for() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(503).header("retry-after", "600"));
    let erp = Place::webhook_sink("erp", &hook.url("/"), "");
    place.configure(&erp);
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    let paused = |status: &Value| status["sinks"][0]["state"] == "paused";
    place.status_when("it is asked to wait", paused).await;

    place.configure(&[erp, Place::file_sink("audit", "")].concat());
    daemon.signal(Signal::HUP);
    wait_until("the reload is done", || place.log().matches(" running ").count() == 2).await;
    workspace.add(Route::Leads, json!({"name": "Grace"}));
    wait_until("the new sink has a change", || place.lines("audit.ndjson").len() == 1).await;
    let status = place.status().await;
    let sinks = status["sinks"].as_array().unwrap();
    let erp = sinks.iter().find(|sink| sink["name"] == "erp").unwrap();
    // It may not take nearly as long as the sink asked for until here.
    assert!(erp["next_attempt_s"].as_f64() > Some(200.0), "it still waits: {status}");
    assert_eq!(hook.events().len(), 1, "nothing was sent before the wait was over");
    daemon.stop().await;
}
