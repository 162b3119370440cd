//! Alerts: a sink is told what is wrong, once, also through a kill and beside its changes.

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

/// What was told of the refused key. On a busy machine more is told: of the health, or that it is
/// over.
fn alerts(hook: &Receiver) -> Vec<Value> {
    let is_begun = |event: &Value| {
        event["kind"] == "alert"
            && event["record_id"] == "key"
            && event["record"]["state"] == "begun"
    };
    hook.events().into_iter().filter(is_begun).collect()
}

#[tokio::test]
async fn a_refused_key_is_told_once_through_kills_and_changes_go_on() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sinks = format!(
        "[alerts]\nsink = [\"ops\"]\n{}{}",
        Place::webhook_sink("ops", &hook.url("/"), ""),
        Place::file_sink("audit", "")
    );
    place.configure(&sinks);
    let daemon = place.started().await;
    workspace.all_polled().await;
    place.write_key("ak_wrong");
    workspace.add(Route::Leads, json!({}));
    wait_until("the change arrives", || !hook.received().is_empty()).await;
    daemon.kill().await;

    let daemon = place.started().await;
    wait_until("the alert arrives", || !alerts(&hook).is_empty()).await;
    daemon.kill().await;
    // Its return shows that the new daemon has looked.
    let looked = || place.number("SELECT count(*) FROM _alerts WHERE about = 'health'") == 1;
    assert!(looked());
    let store = place.writer();
    store
        .execute("DELETE FROM _alerts WHERE about = 'health'", [])
        .unwrap();
    let _daemon = place.started().await;
    wait_until("the new daemon has looked", looked).await;
    let kept = || {
        place.number("SELECT count(*) FROM _alerts WHERE about = 'key' AND reported_severity = 1")
    };
    assert_eq!(kept(), 1);
    let left = || place.number("SELECT count(*) FROM _notices");
    wait_until("nothing is left to say", || left() == 0).await;
    let alerts = alerts(&hook);
    let ids: std::collections::BTreeSet<&str> = alerts
        .iter()
        .map(|alert| alert["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids.len(),
        1,
        "a kill may repeat it under the same id: {alerts:?}"
    );
    let alert = &alerts[0];
    assert_eq!(
        (&alert["route"], &alert["seq"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&alert["record_id"], &alert["record"]["state"]),
        (&json!("key"), &json!("begun"))
    );
    assert!(
        alert["record"]["text"]
            .as_str()
            .unwrap()
            .contains("key file"),
        "{alert}"
    );
    // It is no change of the shop.
    assert!(
        place
            .lines("audit.ndjson")
            .iter()
            .all(|line| line["kind"] != "alert")
    );
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test]
async fn a_refused_alert_is_shown_everywhere_until_a_reload_delivers_it() {
    let hook = Receiver::start().await;
    hook.always(Answer::status(422));
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = Place::webhook_sink("ops", &hook.url("/"), "retry = [\"100ms\"]");
    place.configure(&format!("[alerts]\nsink = \"ops\"\n{sink}"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let key = workspace.sandbox.automation_key();
    workspace.sandbox.disable_key(&key, true);
    let refused = |status: &Value| status["sinks"][0]["notices"]["refused"].as_i64().unwrap() > 0;
    place.status_when("the alert was refused", refused).await;
    workspace.sandbox.disable_key(&key, false);
    let advice = "of its alerts or reports for good: answered 422";
    for args in [["status"], ["sinks"]] {
        let shown = place.run(args).await.out;
        assert!(
            shown.contains("ops refused ") && shown.contains("of its alerts or reports for good"),
            "{args:?}: {shown}"
        );
    }
    let listed = place.run(["sinks", "ops", "dead", "--json"]).await;
    assert!(
        listed.json() == json!([])
            && listed.err.contains("answered 422")
            && listed.err.contains("redrive --all"),
        "{listed:?}"
    );
    daemon.stop().await;
    // Also while no daemon runs. A start tries it again, as a reload does.
    let stopped = place.status().await;
    let says = |reason: &Value| reason.as_str().unwrap().contains(advice);
    assert!(
        stopped["reasons"].as_array().unwrap().iter().any(says),
        "{stopped}"
    );
    let tried = alerts(&hook).len();
    let daemon = place.started().await;
    wait_until("it is tried again", || alerts(&hook).len() >= tried + 2).await;
    place.status_when("it is refused again", refused).await;
    hook.always(Answer::status(204));
    daemon.signal(rustix::process::Signal::HUP);
    wait_until("the alert arrives", || alerts(&hook).len() > tried + 2).await;
    let well = |status: &Value| status["health"] == "ok" && !refused(status);
    let status = place.status_when("all is well again", well).await;
    assert_eq!(status["sinks"][0]["notices"]["waiting"], 0);
    let ids: std::collections::BTreeSet<String> = alerts(&hook)
        .iter()
        .map(|alert| alert["event_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 1, "under one event id: {ids:?}");
    daemon.stop().await;
}
