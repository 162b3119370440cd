//! A refused key or a wrong address pauses every poller, costs few requests, says what to do, and
//! ends as soon as it is fixed.

use rustix::process::Signal;
use sandbox::{FaultKind, Provider, Route};
use serde_json::Value;

use crate::support::{Place, Workspace, wait_until};

fn all_are(state: &'static str) -> impl Fn(&Value) -> bool {
    move |status| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers.len() == 6 && pollers.iter().all(|poller| poller["state"] == state)
    }
}

/// The poller of the leads.
fn leads(status: &Value) -> &Value {
    let pollers = status["pollers"].as_array().unwrap();
    pollers.iter().find(|poller| poller["route"] == "leads").unwrap()
}

fn answered(workspace: &Workspace, status: u16) -> usize {
    workspace.sandbox.requests().log.iter().filter(|r| r.status == status).count()
}

/// The one reason the status gives must say what to do.
fn assert_advice(status: &Value, word: &str) {
    assert_eq!(status["health"], "failing", "{status}");
    assert!(status["reasons"][0].as_str().unwrap().contains(word), "{status}");
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
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let old = workspace.sandbox.automation_key();
    workspace.sandbox.disable_key(&old, true);
    let status = place.status_when("every poller is paused", all_are("key_refused")).await;
    assert_advice(&status, "key file");
    let why = place.run(["why", "jobs", "--json"]).await.json();
    assert!(why["plan"]["reason"].as_str().unwrap().contains("the key file"), "{why}");
    assert!(why["plan"]["next_poll_s"].as_f64().unwrap() > 1.0, "{why}");

    // Another key that is wrong costs one request, and changes nothing.
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    let refused = answered(&workspace, 401);
    assert!(refused <= 7, "at most one a poller, and a ping: {refused}");
    place.write_key("not-a-key-either");
    wait_until("the key in the file is tried", || answered(&workspace, 401) == refused + 1).await;
    place.status_when("still paused", all_are("key_refused")).await;

    workspace.sandbox.add_key("rotated-key", "rotated", Provider::Automation);
    place.write_key("rotated-key");
    place.status_when("polling resumes", all_are("ok")).await;
    workspace.all_polled().await;
    assert_eq!(answered(&workspace, 401), refused + 1);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    assert_told_once(&place);
    let log = place.log();
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
    let status = place.status_when("every poller is paused", all_are("key_wrong_type")).await;
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    assert_advice(&status, "automation key");
    assert!(answered(&workspace, 403) <= 7);
    place.write_key(&workspace.sandbox.automation_key());
    place.status_when("polling begins", all_are("ok")).await;
    assert_told_once(&place);
}

#[tokio::test]
async fn a_reload_ends_the_pause_of_a_key_that_was_enabled_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    let key = workspace.sandbox.automation_key();
    workspace.sandbox.disable_key(&key, true);
    place.status_when("every poller is paused", all_are("key_refused")).await;
    workspace.sandbox.disable_key(&key, false);
    daemon.signal(Signal::HUP);
    place.status_when("polling resumes", all_are("ok")).await;
}

#[tokio::test]
async fn the_standard_address_of_a_white_label_workspace_pauses_every_poller() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    workspace.sandbox.set_standard_host(Some("127.0.0.1".to_owned()));
    let daemon = place.daemon();
    let status = place.status_when("every poller is paused", all_are("wrong_host")).await;
    wait_until("the first ping is refused", || place.log().contains(PAUSED)).await;
    assert_advice(&status, "white-label");
    assert!(answered(&workspace, 412) <= 7);
    workspace.sandbox.set_standard_host(None);
    daemon.signal(Signal::HUP);
    place.status_when("polling begins", all_are("ok")).await;
    assert_told_once(&place);
}

#[tokio::test]
async fn the_sandbox_refuses_its_standard_address_until_base_url_is_the_white_label_one() {
    let workspace = Workspace::start().await;
    // Nothing is set: a new sandbox has this standard address.
    let standard = workspace.place_at("localhost");
    standard.configure("");
    let checked = standard.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("white-label"), "{checked:?}");
    let daemon = standard.daemon();
    let status = standard.status_when("every poller is paused", all_are("wrong_host")).await;
    assert_advice(&status, "white-label");
    daemon.stop().await;

    let own = workspace.place();
    let _daemon = own.daemon();
    own.status_when("every poller reads", all_are("ok")).await;
}

#[tokio::test]
async fn routes_that_the_key_may_not_read_pause_no_other_route() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let kind = FaultKind::Status { code: 403, retry_after: None };
    for route in [Route::Leads, Route::Payments] {
        workspace.fault(Some(route), kind.clone(), u32::MAX);
    }
    let daemon = place.started().await;
    let states = |status: &Value, wanted: &str| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers.iter().filter(|poller| poller["state"] == wanted).count()
    };
    let settled = |status: &Value| states(status, "route_broken") == 2 && states(status, "ok") == 4;
    place.status_when("the two are broken and the others read", settled).await;
    // Each costs one ping, which is answered: nothing is paused.
    assert!(!place.log().contains(PAUSED), "{}", place.log());
    daemon.stop().await;
}

#[tokio::test]
async fn one_run_polls_the_other_routes_if_the_key_may_not_read_one() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let kind = FaultKind::Status { code: 403, retry_after: None };
    workspace.fault(Some(Route::Jobs), kind, u32::MAX);
    let once = place.run(["once"]).await;
    assert_ne!(once.code, Some(0), "{once:?}");
    assert!(once.err.contains("jobs"), "{once:?}");
    assert_eq!(
        place.number("SELECT count(DISTINCT route) FROM polls WHERE outcome <> 'failed'"),
        5
    );
}

#[tokio::test]
async fn a_route_that_refuses_stops_no_other() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    let kind = FaultKind::Status { code: 404, retry_after: None };
    workspace.fault(Some(Route::Leads), kind, u32::MAX);
    let state = |status: &Value, wanted: &str| leads(status)["state"] == wanted;
    let broken = |status: &Value| state(status, "route_broken");
    let status = place.status_when("the route is broken", broken).await;
    assert!(status["reasons"].to_string().contains("leads"), "{status}");
    let asked = answered(&workspace, 404);
    for _ in 0..3 {
        workspace.polled(Route::Jobs).await;
    }
    assert_eq!((asked, answered(&workspace, 404)), (1, 1), "it is not asked again and again");
    workspace.sandbox.clear_faults();
    daemon.signal(Signal::HUP);
    place.status_when("the route is read again", |status| state(status, "ok")).await;
}

#[tokio::test]
async fn a_route_that_is_missing_after_other_failures_rests_a_minute_at_first() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    for (code, count) in [(503, 3), (404, u32::MAX)] {
        workspace.fault(Some(Route::Leads), FaultKind::Status { code, retry_after: None }, count);
    }
    let _daemon = place.started().await;
    let broken = |status: &Value| leads(status)["state"] == "route_broken";
    let status = place.status_when("the route is broken", broken).await;
    let rest = leads(&status)["next_poll_s"].as_f64().unwrap();
    assert!(rest < 67.0, "{status}");
}
