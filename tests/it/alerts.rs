//! Alerts: a sink is told what is wrong, once, also through a kill and beside its changes.

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Place, Receiver, Workspace, wait_until};

fn alerts(hook: &Receiver) -> Vec<Value> {
    hook.events().into_iter().filter(|event| event["kind"] == "alert").collect()
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
    let store = rusqlite::Connection::open(place.store()).unwrap();
    store.execute("DELETE FROM _alerts WHERE about = 'health'", []).unwrap();
    let _daemon = place.started().await;
    wait_until("the new daemon has looked", looked).await;
    let kept = || place.number("SELECT count(*) FROM _alerts WHERE about = 'key' AND told = 1");
    assert_eq!(kept(), 1);
    let left = || place.number("SELECT count(*) FROM _notices");
    wait_until("nothing is left to say", || left() == 0).await;
    let alerts = alerts(&hook);
    let ids: std::collections::BTreeSet<&str> =
        alerts.iter().map(|alert| alert["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "a kill may repeat it under the same id: {alerts:?}");
    let alert = &alerts[0];
    assert_eq!((&alert["route"], &alert["seq"]), (&Value::Null, &Value::Null));
    assert_eq!((&alert["record_id"], &alert["record"]["state"]), (&json!("key"), &json!("begun")));
    assert!(alert["record"]["text"].as_str().unwrap().contains("key file"), "{alert}");
    // It is no change of the shop.
    assert!(place.lines("audit.ndjson").iter().all(|line| line["kind"] != "alert"));
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
