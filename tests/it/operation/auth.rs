//! A refused key or a wrong address pauses every poller, costs few requests, says what to do, and
//! ends as soon as it is fixed.

use rustix::process::Signal;
use sandbox::{FaultKind, Provider, Route};
use serde_json::Value;

use crate::support::{BUDGET, EAGER, Place, Workspace, wait_until};

fn all_are(state: &'static str) -> impl Fn(&Value) -> bool {
    move |status| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers.len() == 6 && pollers.iter().all(|poller| poller["state"] == state)
    }
}

fn answered(workspace: &Workspace, status: u16) -> usize {
    workspace
        .sandbox
        .requests()
        .log
        .iter()
        .filter(|r| r.status == status)
        .count()
}

/// The one reason the status gives must say what to do.
fn assert_advice(status: &Value, word: &str) {
    assert_eq!(status["health"], "failing", "{status}");
    assert!(
        status["reasons"][0].as_str().unwrap().contains(word),
        "{status}"
    );
}

const PAUSED: &str = "polling is paused until this is fixed";

fn assert_told_once(place: &Place) {
    let log = place.log();
    assert_eq!(log.matches(PAUSED).count(), 1, "{log}");
}

#[tokio::test]
async fn a_refused_key_pauses_every_poller_until_the_key_file_holds_another() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.daemon_by(&["env", "JOURNAL_STREAM=8:1"]);
    workspace.all_polled().await;
    let old = workspace.sandbox.automation_key();
    workspace.sandbox.disable_key(&old, true);
    let status = place
        .status_when("every poller is paused", all_are("key_refused"))
        .await;
    assert_advice(&status, "api_key_file");

    // Another key that is wrong costs one request, and changes nothing.
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    let refused = answered(&workspace, 401);
    assert!(refused <= 7, "at most one a poller, and a ping: {refused}");
    place.write_key("not-a-key-either");
    wait_until("the key in the file is tried", || {
        answered(&workspace, 401) == refused + 1
    })
    .await;
    place
        .status_when("still paused", all_are("key_refused"))
        .await;

    workspace
        .sandbox
        .add_key("rotated-key", "rotated", Provider::Automation);
    place.write_key("rotated-key");
    place.status_when("polling resumes", all_are("ok")).await;
    workspace.all_polled().await;
    assert_eq!(answered(&workspace, 401), refused + 1);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    assert_told_once(&place);
    let log = place.log();
    // As the journal reads it: an error has the priority 3, and so does its end.
    let priority = |text: &str| {
        log.lines()
            .find(|line| line.contains(text))
            .map(|line| &line[..3])
    };
    assert_eq!(priority(PAUSED), Some("<3>"), "{log}");
    assert_eq!(priority("polling resumes"), Some("<3>"), "{log}");
    for key in [old.as_str(), "not-a-key-either", "rotated-key"] {
        assert!(!log.contains(key), "the key is in the log:\n{log}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_pauses_every_poller_and_says_which_to_make() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write_key(&workspace.sandbox.rest_key());
    let _daemon = place.daemon();
    let status = place
        .status_when("every poller is paused", all_are("key_wrong_type"))
        .await;
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    assert_advice(&status, "automation key");
    assert!(answered(&workspace, 403) <= 7);
    place.write_key(&workspace.sandbox.automation_key());
    place.status_when("polling begins", all_are("ok")).await;
    assert_told_once(&place);
}

#[tokio::test]
async fn the_standard_address_of_a_white_label_workspace_pauses_every_poller() {
    let workspace = Workspace::start().await;
    // A new sandbox has this standard address.
    let place = workspace.place_at("localhost");
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("white-label"), "{checked:?}");
    let daemon = place.daemon();
    let status = place
        .status_when("every poller is paused", all_are("wrong_host"))
        .await;
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    assert_advice(&status, "white-label");
    place.write(
        "shopmirror.toml",
        &format!(
            "[workspace]\nbase_url = \"{}\"\napi_key_file = \"api-key\"\n{BUDGET}{EAGER}",
            workspace.base_url()
        ),
    );
    daemon.signal(Signal::HUP);
    place.status_when("polling begins", all_are("ok")).await;
    assert_told_once(&place);
    daemon.stop().await;
}

#[tokio::test]
async fn a_route_that_refuses_or_is_missing_stops_no_other() {
    let workspace = Workspace::start().await;
    for (route, code) in [(Route::Leads, 403), (Route::Payments, 404)] {
        workspace.fault(
            Some(route),
            FaultKind::Status {
                code,
                retry_after: None,
            },
            u32::MAX,
        );
    }
    let place = workspace.place();
    let once = place.run(["once"]).await;
    assert_ne!(once.code, Some(0), "{once:?}");
    assert!(
        once.err.contains("leads") && once.err.contains("payments"),
        "{once:?}"
    );
    assert_eq!(place.number("SELECT count(*) FROM _pollers"), 4);

    let place = workspace.place();
    let daemon = place.started().await;
    let states = |status: &Value, wanted: &str| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers
            .iter()
            .filter(|poller| poller["state"] == wanted)
            .count()
    };
    let settled = |status: &Value| states(status, "route_broken") == 2 && states(status, "ok") == 4;
    let status = place
        .status_when("two are broken and the others read", settled)
        .await;
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains("leads") && reasons.contains("payments"),
        "{status}"
    );
    let asked = || [403, 404].map(|code| answered(&workspace, code));
    let before = asked();
    workspace.polled(Route::Jobs).await;
    assert_eq!(asked(), before, "they are not asked again and again");
    assert!(!place.log().contains(PAUSED), "{}", place.log());
    workspace.sandbox.clear_faults();
    daemon.signal(Signal::HUP);
    place
        .status_when("every route is read again", all_are("ok"))
        .await;
    daemon.stop().await;
}
