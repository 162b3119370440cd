//! Other settings of a sink, by reloads in the middle of a backlog.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;

use super::PATIENT;
use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

#[tokio::test]
async fn other_settings_of_a_sink_in_the_middle_of_a_backlog_lose_and_double_nothing() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = |rest: &str| {
        let rest = format!("retry = [\"1h\", \"1h\"]\n{PATIENT}\n{rest}");
        Place::webhook_sink("hook", &hook.url("/"), &rest)
    };
    place.configure(&sink("concurrency = 1"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    hook.refuse("Parked", Answer::status(422));
    let parked = workspace.add(Route::Leads, json!({"name": "Parked"}));
    let retrying = || place.number("SELECT retrying FROM _sinks WHERE name = 'hook'");
    wait_until("it is parked", || retrying() == 1).await;
    workspace.edit(Route::Leads, &parked, json!({"name": "Later"}));
    let mut delivers = true;
    // None: the sink is not configured for a while.
    for rest in [
        Some("concurrency = 8\nformat = \"cloudevents\""),
        Some("concurrency = 1\nformat = \"raw\""),
        None,
        Some("concurrency = 2"),
    ] {
        let before = hook.received().len();
        workspace.sandbox.burst(Route::Payments, 90);
        if delivers {
            wait_until("some have arrived", || hook.received().len() > before).await;
        } else {
            workspace.polled(Route::Payments).await;
        }
        let text = rest.map(&sink).unwrap_or_default();
        let runs = place.log().matches(" running ").count();
        place.configure(&text);
        daemon.signal(Signal::HUP);
        wait_until("it is reloaded", || place.log().matches(" running ").count() > runs).await;
        delivers = rest.is_some();
    }
    hook.forgive();
    workspace.all_polled().await;
    // An hour later.
    let due = "UPDATE _queue SET due_at = '2020-01-01T00:00:00.000000Z' WHERE state = 'retrying'";
    assert!(place.writer().execute(due, []).unwrap() > 0);
    daemon.signal(Signal::HUP);
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("all has arrived", || place.is_delivered(last) && retrying() == 0).await;
    daemon.stop().await;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for request in hook.received() {
        *times.entry(request.header("webhook-id").to_owned()).or_default() += 1;
    }
    let rows = place.rows("SELECT event_id FROM changes WHERE kind IN ('created', 'updated')");
    let stored: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(times.keys().map(String::as_str).collect::<BTreeSet<_>>(), stored);
    let refused = place.rows("SELECT event_id FROM changes WHERE body LIKE '%Parked%'");
    let again: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!(again.len(), 1, "only what was refused comes again: {again:?}");
    assert_eq!(again[0].0, refused[0][0].as_str().unwrap());
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
