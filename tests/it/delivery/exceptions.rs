//! Exceptions: what one change's refusal, a dead letter and a vanished endpoint come to.

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::{hooked, seqs};
use crate::page::Site;
use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

/// Adds a lead that the receiver refuses, and waits until the refusal is recorded.
async fn poison(hook: &Receiver, workspace: &Workspace, place: &Place, state: &str) -> String {
    hook.refuse("Poison", Answer::status(400));
    let id = workspace.add(Route::Leads, json!({"name": "Poison"}));
    let sql = format!("SELECT count(*) FROM _queue WHERE state = '{state}'");
    wait_until("the refusal is recorded", || place.number(&sql) == 1).await;
    id
}

fn states(place: &Place) -> Vec<Value> {
    place.rows("SELECT record_id, state, attempts FROM _queue WHERE state <> 'ready' ORDER BY seq")
}

#[tokio::test]
async fn dead_letters_are_listed_sent_again_and_dropped_by_command() {
    let (hook, workspace, place, _daemon) = hooked("retry = []").await;
    let bad = poison(&hook, &workspace, &place, "dead").await;
    workspace.edit(Route::Leads, &bad, json!({"name": "Poison again"}));
    wait_until("the later version is dead too", || {
        states(&place).len() == 2
    })
    .await;
    let dead = || async { place.run(["sinks", "hook", "dead", "--json"]).await.json() };
    let listed = dead().await;
    let seqs_of = |listed: &Value| -> Vec<i64> { seqs(listed.as_array().unwrap()) };
    let (first, second) = (seqs_of(&listed)[0], seqs_of(&listed)[1]);
    assert_eq!(listed[0]["record_id"], bad.as_str());
    assert!(
        listed[0]["last_error"].as_str().unwrap().contains("400"),
        "{listed}"
    );
    let status = place.status().await;
    assert!(
        status["reasons"]
            .to_string()
            .contains("shopmirror sinks hook dead"),
        "{status}"
    );

    let sql = format!("SELECT event_id FROM changes WHERE seq = {first}");
    let event_id = place.rows(&sql)[0][0].clone();
    assert_eq!(
        place.run(["sinks", "hook", "redrive", "999999"]).await.code,
        Some(65)
    );

    // Still refused: it is dead again, and nothing is lost.
    let before = hook.received().len();
    let redriven = place
        .run(["sinks", "hook", "redrive", &first.to_string()])
        .await;
    assert_eq!(redriven.code, Some(0), "{redriven:?}");
    wait_until("it was sent again", || hook.received().len() == before + 1).await;
    let sql = "SELECT count(*) FROM _queue WHERE state = 'dead'";
    wait_until("it is dead again", || place.number(sql) == 2).await;

    hook.forgive();
    let redriven = place
        .run(["sinks", "hook", "redrive", &first.to_string()])
        .await;
    assert!(
        redriven.out.contains("1 change will be sent again now"),
        "{redriven:?}"
    );
    wait_until("it was taken", || states(&place).len() == 1).await;
    assert_eq!(hook.events().last().unwrap()["event_id"], event_id);
    assert_eq!(seqs_of(&dead().await), [second]);

    let dropped = place
        .run(["sinks", "hook", "drop", "--all", "--json"])
        .await;
    assert_eq!(dropped.json()["changes"], 1);
    assert_eq!(dead().await, json!([]));
    let kept = format!("SELECT count(*) FROM changes WHERE seq = {second}");
    assert_eq!(place.number(&kept), 1, "the log still has it");
    assert_eq!(
        place
            .run(["sinks", "hook", "drop", &second.to_string()])
            .await
            .code,
        Some(65)
    );
    assert_eq!(
        place.run(["sinks", "no-such-sink", "dead"]).await.code,
        Some(64)
    );
}

#[tokio::test]
async fn what_a_sink_is_owed_is_the_same_with_a_daemon_and_without() {
    let (hook, workspace, place, daemon) = hooked("retry = [\"1h\"]").await;
    hook.always(Answer::status(503));
    workspace.sandbox.burst(Route::Leads, 50);
    workspace.polled(Route::Leads).await;
    let owes_all = |status: &Value| {
        let sink = &status["sinks"][0];
        sink["backlog"] == 50
    };
    wait_until("its queue has all of them", || {
        place.number("SELECT count(*) FROM _queue") == 50
    })
    .await;
    place.status_when("all of them are owed", owes_all).await;
    daemon.stop().await;
    assert!(owes_all(&place.status().await), "{}", place.status().await);
}

#[tokio::test]
async fn a_sink_that_refuses_everything_is_degraded_and_status_says_why() {
    let (hook, workspace, place, _daemon) = hooked("retry = [\"1h\"]").await;
    hook.always(Answer::status(400).body("no such list: Quetzal"));
    workspace.sandbox.burst(Route::Leads, 30);
    let refusing = |status: &Value| status["sinks"][0]["state"] == "refusing";
    let status = place
        .status_when("the sink refuses everything", refusing)
        .await;
    let ended = place.run(["status", "--exit-code"]).await;
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let said = "refuses every change, the last one because: answered 400";
    assert!(status["reasons"].to_string().contains(said), "{status}");
    // The receiver's words are for the operator only.
    assert_eq!(
        status["sinks"][0]["last_error_quotation"],
        "no such list: Quetzal"
    );
    for command in [
        ["status"].as_slice(),
        &["sinks"],
        &["sinks", "hook", "dead"],
        &["sinks", "hook", "dead", "--json"],
        &["sinks", "hook", "test"],
    ] {
        let shown = place.run(command).await;
        assert!(shown.out.contains("Quetzal"), "{command:?}: {shown:?}");
    }
    wait_until("the refusals are logged", || {
        place.log().contains("the sink refused changes")
    })
    .await;
    assert!(!place.log().contains("Quetzal"), "{}", place.log());
    assert!(
        !status["reasons"].to_string().contains("Quetzal"),
        "{status}"
    );
}

#[tokio::test]
async fn the_page_shows_what_a_receiver_says_only_where_it_shows_records() {
    for shows_records in [false, true] {
        let hook = Receiver::start().await;
        hook.always(Answer::status(503).body("down for Quetzal"));
        let workspace = Workspace::start().await;
        let place = workspace.place();
        let sink = Place::webhook_sink("hook", &hook.url("/"), "start = \"beginning\"");
        place.configure(&format!(
            "{sink}[status]\nlisten = \"127.0.0.1:0\"\nshow_records = {shows_records}\n"
        ));
        let daemon = place.started().await;
        let is_down = |status: &Value| status["sinks"][0]["last_error_quotation"].is_string();
        place.status_when("the receiver is down", is_down).await;
        let site = Site::of(&place).await;
        for path in ["/api/status", "/system"] {
            let page = site.get(path).await.body;
            assert!(page.contains("answered 503"), "{path}: {page}");
            assert_eq!(page.contains("Quetzal"), shows_records, "{path}: {page}");
        }
        assert!(!site.get("/metrics").await.body.contains("Quetzal"));
        assert!(!place.log().contains("Quetzal"), "{}", place.log());
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_410_disables_the_sink_and_a_reload_delivers_the_kept_changes() {
    let (hook, workspace, place, daemon) = hooked("retry = [\"1h\"]").await;
    hook.always(Answer::status(410));
    workspace.sandbox.burst(Route::Leads, 3);
    let sink = "SELECT state FROM _sinks";
    wait_until("it is disabled", || {
        place.rows(sink) == [json!(["disabled"])]
    })
    .await;
    // What was on its way at the same time has arrived by then.
    workspace.polled(Route::Leads).await;
    let tried = hook.received().len();
    workspace.sandbox.burst(Route::Leads, 3);
    workspace.polled(Route::Leads).await;
    let is_owed = |status: &Value| status["sinks"][0]["backlog"] == 6;
    let status = place.status_when("it is owed all", is_owed).await;
    assert_eq!(status["sinks"][0]["state"], "disabled");
    assert_eq!(
        status["sinks"][0]["last_error"],
        "answered 410: the endpoint is gone"
    );
    assert!(status["reasons"].to_string().contains("410"), "{status}");
    assert_eq!(hook.received().len(), tried, "it is asked no more");

    hook.always(Answer::status(204));
    daemon.signal(Signal::HUP);
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("it has everything", || place.is_delivered(last)).await;
    let mut taken = seqs(&hook.events()[tried..]);
    taken.sort_unstable();
    assert_eq!(taken, (last - 5..=last).collect::<Vec<i64>>());
}
