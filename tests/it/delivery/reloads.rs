//! Where two features meet, with the real program: reloads in the middle of a backlog, a digest and a
//! forgotten record, alerts through a removed sink, two sinks with one address.

mod batch;

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;

use crate::sinks::email::MailServer;
use crate::support::{Answer, Daemon, Place, Receiver, Workspace, wait_until};

/// Reloads with this configuration, and waits until it is in use.
async fn reload(place: &Place, daemon: &Daemon, rest: &str) {
    let before = place.log().matches(" running ").count();
    place.configure(rest);
    daemon.signal(Signal::HUP);
    wait_until("the reload is done", || place.log().matches(" running ").count() > before).await;
}

/// Makes what is parked due, as an hour does.
fn make_due(place: &Place) {
    let due = "UPDATE deliveries SET next_attempt_at = '2020-01-01T00:00:00.000000Z' WHERE state = 'retrying'";
    assert!(place.writer().execute(due, []).unwrap() > 0);
}

async fn assert_verified(place: &Place) {
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test]
async fn other_settings_of_a_sink_in_the_middle_of_a_backlog_lose_and_double_nothing() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = |rest: &str| {
        let rest = format!("retry = [\"1h\", \"1h\"]\n{rest}");
        Place::webhook_sink("hook", &hook.url("/"), &rest)
    };
    place.configure(&sink("concurrency = 1"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    hook.refuse("Parked", Answer::status(422));
    let parked = workspace.add(Route::Leads, json!({"name": "Parked"}));
    let retrying = || place.number("SELECT retrying FROM sinks WHERE name = 'hook'");
    wait_until("it is parked", || retrying() == 1).await;
    workspace.edit(Route::Leads, &parked, json!({"name": "Later"}));
    let mut delivers = true;
    // None: the sink is not configured for a while.
    for rest in [
        Some("concurrency = 8\nformat = \"cloudevents\""),
        Some("concurrency = 1\nformat = \"raw\""),
        None,
        Some("concurrency = 3\nin_order = \"sink\""),
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
        reload(&place, &daemon, &text).await;
        // In one order for the whole sink, everything waits behind what is parked.
        delivers = rest.is_some_and(|rest| !rest.contains("in_order"));
    }
    hook.forgive();
    workspace.all_polled().await;
    make_due(&place);
    daemon.signal(Signal::HUP);
    let last = place.number("SELECT max(seq) FROM changes");
    let position = || place.number("SELECT position FROM sinks WHERE name = 'hook'");
    wait_until("all has arrived", || position() == last && retrying() == 0).await;
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
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_digest_that_gathers_changes_leaves_out_a_record_that_is_forgotten_meanwhile() {
    let Some(server) = MailServer::start() else { return };
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = |digest: &str| {
        format!(
            "[sinks.desk]\ntype = \"email\"\nserver = \"localhost:{}\"\ntls = \"none\"\n\
             from = \"shop@example.com\"\nto = [\"desk@example.com\"]\ndigest = \"{digest}\"\n\
             text = \"{{% for change in changes %}}[{{{{ change.record_id }}}}]{{% endfor %}}\"\n",
            server.port()
        )
    };
    place.configure(&sink("1h"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let quetzal = workspace.add(Route::Leads, json!({"name": "Quetzal"}));
    let miller = workspace.add(Route::Leads, json!({"name": "Miller"}));
    workspace.polled(Route::Leads).await;
    let stored = "SELECT count(*) FROM changes WHERE kind = 'created'";
    wait_until("both are stored", || place.number(stored) == 2).await;
    assert_eq!(place.run(["forget", "leads", &quetzal]).await.code, Some(0));
    assert!(server.mails().is_empty(), "the window is open");
    // A shorter window by a reload, in the middle of the long one.
    reload(&place, &daemon, &sink("10s")).await;
    wait_until("the mail comes", || !server.mails().is_empty()).await;
    let mail = server.mails().remove(0);
    assert_eq!(mail["text"].as_str().unwrap().trim(), format!("[{miller}]"));
    daemon.stop().await;
    assert_eq!(server.mails().len(), 1);
    assert_verified(&place).await;
}

#[tokio::test]
async fn an_alert_that_waits_for_a_removed_sink_is_told_to_the_sink_that_follows_it() {
    let (ops, desk) = (Receiver::start().await, Receiver::start().await);
    ops.always(Answer::status(503));
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = |name: &str, hook: &Receiver| {
        let alerts = format!("[alerts]\nsink = \"{name}\"\n");
        format!("{alerts}{}", Place::webhook_sink(name, &hook.url("/"), ""))
    };
    place.configure(&sink("ops", &ops));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let key = workspace.sandbox.automation_key();
    workspace.sandbox.disable_key(&key, true);
    let waiting =
        |name: &str| place.number(&format!("SELECT count(*) FROM _notices WHERE sink = '{name}'"));
    wait_until("an alert waits", || waiting("ops") > 0).await;
    reload(&place, &daemon, &sink("desk", &desk)).await;
    let is_key = |event: &serde_json::Value| event["record_id"] == "key";
    wait_until("the other sink is told", || desk.events().iter().any(is_key)).await;
    assert_eq!(waiting("ops"), 0, "it gets no alerts any more");
    let known = "SELECT count(*) FROM _alerts WHERE sink = 'ops'";
    assert_eq!(place.number(known), 0, "and will not be told that one is over");
    // The sink comes back when all is well, which the poll after a reload shows.
    workspace.sandbox.disable_key(&key, false);
    ops.always(Answer::status(204));
    let tried = ops.received().len();
    reload(&place, &daemon, &sink("ops", &ops)).await;
    workspace.add(Route::Leads, json!({}));
    wait_until("a change arrives", || ops.received().len() > tried).await;
    let later = ops.events().split_off(tried);
    assert!(!later.iter().any(is_key), "{later:?}");
    daemon.stop().await;
    assert_verified(&place).await;
}

#[tokio::test]
async fn two_sinks_with_one_address_keep_their_own_waits_and_parked_changes() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = |name: &str, rest: &str| {
        Place::webhook_sink(name, &hook.url("/"), &format!("retry = [\"1h\"]\n{rest}"))
    };
    // Only what the first sends has an event id in its body.
    let sinks = [sink("first", "format = \"standard\""), sink("second", "format = \"raw\"")];
    let of_second = || {
        let bodies = hook.received().into_iter().map(|request| request.body);
        bodies.filter(|body| !body.contains("\"event_id\"")).count()
    };
    place.configure(&sinks.concat());
    let daemon = place.started().await;
    workspace.all_polled().await;
    // What the endpoint refuses of the first is parked there, and holds back no version at the second.
    hook.refuse("\"event_id\"", Answer::status(422));
    let lead = workspace.add(Route::Leads, json!({"name": "Quetzal"}));
    let parked =
        |name: &str| place.number(&format!("SELECT retrying FROM sinks WHERE name = '{name}'"));
    wait_until("it is parked", || parked("first") == 1 && of_second() == 1).await;
    workspace.edit(Route::Leads, &lead, json!({"name": "Miller"}));
    wait_until("the edit waits behind it", || parked("first") == 2).await;
    wait_until("the second has both", || of_second() == 2).await;
    assert_eq!(parked("second"), 0);
    // The endpoint asks the first to wait: the second is not told so, and goes on.
    hook.refuse("\"event_id\"", Answer::status(429).header("retry-after", "3600"));
    workspace.add(Route::Leads, json!({}));
    let state = |status: &serde_json::Value, name: &str| {
        let sinks = status["sinks"].as_array().unwrap();
        sinks.iter().find(|sink| sink["name"] == name).unwrap()["state"].clone()
    };
    place.status_when("the first rests", |status| state(status, "first") == "paused").await;
    workspace.sandbox.burst(Route::Payments, 5);
    wait_until("the second goes on", || of_second() == 8).await;
    let status = place.status().await;
    assert_eq!(
        (state(&status, "first"), state(&status, "second")),
        (json!("paused"), json!("active"))
    );
    assert_eq!(parked("second"), 0);
    daemon.stop().await;
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_removed_sink_with_nothing_but_a_parked_change_counts_against_health_after_a_week() {
    let hook = Receiver::start().await;
    hook.always(Answer::status(422));
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), "retry = [\"1h\"]"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({}));
    let last = "SELECT retrying = 1 AND position = (SELECT max(seq) FROM changes) FROM sinks";
    wait_until("it is parked", || place.number(last) == 1).await;
    reload(&place, &daemon, "").await;
    let well = |status: &serde_json::Value| {
        status["removed_sinks"][0]["behind"] == 1 && status["health"] == "ok"
    };
    place.status_when("the sink is removed and all is well", well).await;
    let old = "UPDATE deliveries SET since = '2025-01-01T00:00:00.000000Z'";
    assert_eq!(place.writer().execute(old, []).unwrap(), 1);
    let told = |status: &serde_json::Value| {
        status["health"] != "ok" && status["reasons"].to_string().contains("sinks forget hook")
    };
    place.status_when("it counts against health", told).await;
    daemon.stop().await;
}
