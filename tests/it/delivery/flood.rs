//! The flood gate: too many changes at once are held until an operator lets them go or drops them.

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::{NEW, PATIENT, hooked, logged, seqs};
use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

/// Waits until the sink `name` is held, and returns the status.
async fn held(place: &Place, name: &str) -> Value {
    let is_held = |status: &Value| {
        let sinks = status["sinks"].as_array().unwrap();
        sinks
            .iter()
            .any(|sink| sink["name"] == name && sink["state"] == "held")
    };
    place.status_when("the sink is held", is_held).await
}

/// What `verify` says of the sink.
async fn account(place: &Place, name: &str) -> String {
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let line = verified
        .out
        .lines()
        .find(|line| line.contains(&format!("sink {name}")));
    line.unwrap().to_owned()
}

#[tokio::test]
async fn a_burst_is_held_through_kill_and_reload_until_it_is_released() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sinks = |most: &str| {
        format!(
            "{}{}{}",
            Place::webhook_sink("hook", &hook.url("/"), &format!("{PATIENT}\n{most}")),
            Place::file_sink("copy", most),
            Place::file_sink("audit", ""),
        )
    };
    place.configure(&sinks("hold_above = 5"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    for _ in 0..3 {
        workspace.add(Route::Leads, json!({}));
    }
    wait_until("a few pass", || hook.received().len() == 3).await;
    workspace.sandbox.burst(Route::Payments, 10);
    wait_until("another sink gets them", || {
        place.lines("audit.ndjson").len() == 13
    })
    .await;
    held(&place, "copy").await;
    // What was delivered is saved a moment later.
    let is_counted = |status: &Value| {
        let sink = status["sinks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["name"] == "hook")
            .unwrap();
        sink["state"] == "held" && (&sink["backlog"], &sink["delivered"]) == (&json!(10), &json!(3))
    };
    let status = place.status_when("ten changes are held", is_counted).await;
    assert_eq!(status["health"], "degraded");
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains("shopmirror sinks hook release"),
        "{status}"
    );
    let listed = place.run(["sinks"]).await;
    assert!(
        listed
            .out
            .lines()
            .any(|l| l.contains("hook") && l.contains("held")),
        "{listed:?}"
    );

    // Neither a crash nor a reload, with or without the key, lets them go.
    daemon.kill().await;
    let daemon = place.started().await;
    held(&place, "hook").await;
    for (mark, most) in [
        ("one", "hold_above = 50"),
        ("two", ""),
        ("three", "hold_above = 5"),
    ] {
        place.configure(&format!("{}{}", sinks(most), Place::file_sink(mark, "")));
        daemon.signal(Signal::HUP);
        let sql = format!("SELECT count(*) FROM _sinks WHERE name = '{mark}'");
        wait_until("it reloads", || place.number(&sql) == 1).await;
        held(&place, "hook").await;
    }
    let late = workspace.add(Route::Leads, json!({}));
    wait_until("another sink gets it", || {
        place.lines("audit.ndjson").len() == 14
    })
    .await;
    assert_eq!(
        (hook.received().len(), place.lines("copy.ndjson").len()),
        (3, 3)
    );
    assert!(
        account(&place, "hook")
            .await
            .contains("3 delivered + 11 pending")
    );
    let said = |name: &str| {
        let log = place.log();
        let lines = log
            .lines()
            .filter(|l| l.contains(&format!("sinks {name} release`")));
        lines.count()
    };
    assert_eq!((said("hook"), said("copy")), (1, 1), "each is said once");

    // What was released is not held again, also when the endpoint fails and the daemon is killed.
    hook.always(Answer::status(503));
    let released = place.run(["sinks", "hook", "release"]).await;
    assert_eq!(
        released.out, "11 changes will be delivered now\n",
        "{released:?}"
    );
    let tried = || hook.received().len() > 3;
    wait_until("it is tried", tried).await;
    daemon.kill().await;
    let failed = hook.received().len();
    hook.always(Answer::status(204));
    let _daemon = place.started().await;
    let taken = || place.number("SELECT delivered FROM _sinks WHERE name = 'hook'") == 14;
    wait_until("all have arrived", taken).await;
    let events = hook.events();
    let mut arrived = seqs(&[&events[..3], &events[failed..]].concat());
    arrived.sort_unstable();
    // A request of the daemon that was killed may have been read late.
    arrived.dedup();
    assert_eq!(arrived, logged(&place, NEW));
    assert!(
        events[failed..]
            .iter()
            .any(|event| event["record_id"] == late)
    );
    assert!(
        account(&place, "hook")
            .await
            .contains("14 delivered + 0 pending")
    );

    // The next flood is held again.
    workspace.sandbox.burst(Route::Payments, 6);
    held(&place, "hook").await;
    assert!(
        account(&place, "hook")
            .await
            .contains("14 delivered + 6 pending")
    );
}

#[tokio::test]
async fn what_is_dropped_is_counted_as_skipped_and_the_sink_goes_on() {
    let (hook, workspace, place, daemon) = hooked("hold_above = 5\nroutes = [\"payments\"]").await;
    // What was there before the sink is skipped, or not asked for, if the sink began before it.
    let before = place.number("SELECT skipped FROM _sinks");
    // What the sink did not ask for is no flood.
    workspace.sandbox.burst(Route::Leads, 20);
    workspace.polled(Route::Leads).await;
    workspace.sandbox.burst(Route::Payments, 10);
    held(&place, "hook").await;
    workspace.sandbox.burst(Route::Leads, 4);
    workspace.polled(Route::Leads).await;
    wait_until("all is stored", || logged(&place, NEW).len() == 34).await;
    let dropped = place
        .run(["sinks", "hook", "release", "--skip", "--json"])
        .await;
    let (expected, code) = (
        json!({"sink": "hook", "changes": 10, "skipped": true}),
        Some(0),
    );
    assert_eq!((dropped.json(), dropped.code), (expected, code));
    workspace.add(Route::Payments, json!({}));
    wait_until("the next one arrives", || hook.received().len() == 1).await;
    assert_eq!(seqs(&hook.events()), [*logged(&place, NEW).last().unwrap()]);
    daemon.stop().await;
    let stored = place.number("SELECT max(seq) FROM changes");
    let sum = format!(
        "{stored} stored = 1 delivered + 0 pending + 0 retrying + 0 dead + {} not wanted + {} before start",
        stored - before - 11,
        before + 10
    );
    assert!(
        account(&place, "hook").await.ends_with(&sum),
        "{}",
        account(&place, "hook").await
    );
    let again = place.run(["sinks", "hook", "release"]).await;
    assert_eq!(again.code, Some(65), "{again:?}");
    let unknown = place.run(["sinks", "nothing", "release"]).await;
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
}
