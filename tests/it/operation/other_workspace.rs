//! Another workspace behind `base_url` or the key never gets into the store: nothing is read from it until
//! the operator has corrected the address or accepted the name.

use rustix::process::Signal;
use sandbox::{Fault, FaultKind, Options, Provider, Route};
use serde_json::{Value, json};

use crate::support::{BUDGET, EAGER, Place, Workspace, wait_until};

const SHOP_A: &str = "Shop A";
const SHOP_B: &str = "Shop B";

async fn shop(seed: u64, name: &str) -> Workspace {
    let options = Options { seed, requests_per_minute: 60_000, ..Workspace::usual() };
    let workspace = Workspace::of(options).await;
    workspace.sandbox.pause_growth(true);
    workspace.sandbox.set_workspace_name(Some(name));
    workspace
}

/// Has the configuration lead to this workspace, with the sink `audit`.
fn lead_to(place: &Place, workspace: &Workspace) {
    place.write(
        "config.toml",
        &format!(
            "[workspace]\nbase_url = \"{}\"\napi_key_file = \"api-key\"\n{BUDGET}{EAGER}{}",
            workspace.base_url(),
            Place::file_sink("audit", "start = \"beginning\"")
        ),
    );
    place.write_key(&workspace.sandbox.automation_key());
}

fn name(place: &Place) -> Option<String> {
    let rows = place.rows("SELECT value ->> 'name' FROM meta WHERE name = 'workspace'");
    rows.first().map(|row| row[0].as_str().unwrap().to_owned())
}

/// A store that the workspace has filled, and what it holds.
async fn filled(workspace: &Workspace) -> (Place, i64) {
    let place = workspace.place();
    lead_to(&place, workspace);
    let daemon = place.started().await;
    workspace.all_polled().await;
    wait_until("the name is read", || name(&place).is_some()).await;
    daemon.stop().await;
    assert_eq!(name(&place).as_deref(), Some(SHOP_A));
    let stored = place.number("SELECT max(seq) FROM changes");
    (place, stored)
}

fn polls(workspace: &Workspace) -> usize {
    Route::ALL.map(|route| workspace.asked(route)).iter().sum()
}

fn is_refused(status: &Value) -> bool {
    status["pollers"].as_array().unwrap().iter().all(|p| p["state"] == "other_workspace")
}

/// The status names both workspaces and the remedy, and nothing of the other one was read or stored.
async fn assert_refused(place: &Place, other: &Workspace, stored: i64) {
    let status = place.status_when("the other workspace is named", is_refused).await;
    assert_eq!(status["health"], "failing");
    let reason = status["reasons"][0].as_str().unwrap();
    for word in [SHOP_A, SHOP_B, "shopmirror workspace accept", "base_url"] {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(polls(other), 0);
    assert_eq!(place.number("SELECT max(seq) FROM changes"), stored);
    let said = place.log();
    assert_eq!(said.matches("polling is paused until this is fixed").count(), 1, "{said}");
}

#[tokio::test]
async fn after_a_restart_nothing_of_another_workspace_is_read_until_the_address_is_corrected() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("WRONG workspace") && checked.out.contains(SHOP_A), "{checked:?}");

    let daemon = place.daemon();
    assert_refused(&place, &b, stored).await;
    let shown = place.run(["workspace", "--json"]).await.json();
    assert_eq!((&shown["name"], &shown["other"]["name"]), (&json!(SHOP_A), &json!(SHOP_B)));
    let why = place.run(["why", "jobs"]).await;
    assert!(why.out.contains("shopmirror workspace"), "{why:?}");
    let searched = place.run(["search", "an", "--store"]).await;
    assert_eq!(searched.code, Some(69), "{searched:?}");

    a.add(Route::Leads, json!({}));
    lead_to(&place, &a);
    daemon.signal(Signal::HUP);
    wait_until("it polls again", || place.number("SELECT max(seq) FROM changes") == stored + 1)
        .await;
    let status = place.run(["status", "--json"]).await.json();
    assert_eq!(status["health"], "ok", "{status}");
    let shown = place.run(["workspace", "--json"]).await.json();
    assert_eq!((&shown["name"], &shown["other"]), (&json!(SHOP_A), &Value::Null));
    daemon.stop().await;
}

#[tokio::test]
async fn after_a_reload_nothing_of_another_workspace_is_read_until_it_is_accepted() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    let early = place.run(["workspace", "accept"]).await;
    assert_eq!(early.code, Some(65), "{early:?}");
    let daemon = place.started().await;
    lead_to(&place, &b);
    daemon.signal(Signal::HUP);
    assert_refused(&place, &b, stored).await;

    let accepted = place.run(["workspace", "accept"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.out.contains("belongs to Shop B from now on"), "{accepted:?}");
    b.all_polled().await;
    wait_until("its records are stored", || place.number("SELECT max(seq) FROM changes") > stored)
        .await;
    assert_eq!(name(&place).as_deref(), Some(SHOP_B));
    daemon.stop().await;
    // The next start compares nothing, because the address and the key are the accepted ones.
    let asked = pings(&b);
    let daemon = place.started().await;
    b.all_polled().await;
    assert_eq!(pings(&b), asked);
    daemon.stop().await;
}

/// Answers every ping with this status from now on.
fn refuse_pings(workspace: &Workspace, code: u16) {
    let kind = FaultKind::Status { code, retry_after: None };
    workspace.sandbox.fault(Fault { route: Some("ping".to_owned()), kind, count: 1_000 });
}

/// `once` reads what has no name, says so, and the known name is kept.
async fn assert_read_without_a_name(place: &Place, stored: i64) {
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("cannot be compared"), "{ended:?}");
    assert!(place.number("SELECT max(seq) FROM changes") > stored);
    assert_eq!(name(place).as_deref(), Some(SHOP_A));
}

/// `once` refuses the other workspace and names both.
async fn assert_once_names_both(place: &Place) {
    let refused = place.run(["once"]).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.err.contains(SHOP_A) && refused.err.contains(SHOP_B), "{refused:?}");
}

fn pings(workspace: &Workspace) -> usize {
    let log = workspace.sandbox.requests().log;
    log.iter().filter(|request| request.route.ends_with("ping")).count()
}

#[tokio::test]
async fn a_run_of_once_refuses_another_workspace_and_the_status_says_so() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let place = a.place();
    lead_to(&place, &a);
    let first = place.run(["once"]).await;
    assert_eq!((first.code, name(&place).as_deref()), (Some(0), Some(SHOP_A)), "{first:?}");
    let asked = a.sandbox.requests().total;
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(a.sandbox.requests().total, asked + 6, "the name is not asked for each time");
    let stored = place.number("SELECT max(seq) FROM changes");

    lead_to(&place, &b);
    for _ in 0..2 {
        assert_once_names_both(&place).await;
    }
    assert_eq!((polls(&b), place.number("SELECT max(seq) FROM changes")), (0, stored));
    let status = place.run(["status", "--json"]).await.json();
    let reasons = status["reasons"].to_string();
    assert!(reasons.contains(SHOP_B), "{status}");
    for command in [&["search", "an", "--store"][..], &["custom-fields", "--refresh"]] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
    }

    assert_eq!(place.run(["workspace", "accept"]).await.code, Some(0));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert!(place.number("SELECT max(seq) FROM changes") > stored);
}

#[tokio::test]
async fn a_new_key_of_the_same_workspace_is_used_and_a_new_name_alone_is_kept() {
    let a = shop(7, SHOP_A).await;
    let (place, stored) = filled(&a).await;
    a.sandbox.add_key("rotated-key", "rotated", Provider::Automation);
    place.write_key("rotated-key");
    a.add(Route::Leads, json!({}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number("SELECT max(seq) FROM changes"), stored + 1);

    // The name was read two days ago.
    let store = place.writer();
    let old = "UPDATE meta SET value = json_set(value, '$.at', '2026-01-01T00:00:00Z') WHERE name = 'workspace'";
    store.execute(old, []).unwrap();
    drop(store);
    a.sandbox.set_workspace_name(Some("Shop A and Sons"));
    let renamed = place.run(["once"]).await;
    assert_eq!(renamed.code, Some(0), "{renamed:?}");
    assert_eq!(name(&place).as_deref(), Some("Shop A and Sons"));
}

#[tokio::test]
async fn a_workspace_without_a_name_holds_nothing_back_and_keeps_the_known_name() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    b.sandbox.set_workspace_name(None);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    assert_read_without_a_name(&place, stored).await;
}

#[tokio::test]
async fn polls_wait_for_the_name_of_a_workspace_that_does_not_answer_pings() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    refuse_pings(&b, 503);
    lead_to(&place, &b);
    let daemon = place.daemon();
    let waits = |status: &Value| status["reasons"].to_string().contains("tells its name");
    let status = place.status_when("it waits for the name", waits).await;
    assert_eq!(status["health"], "failing");
    assert_eq!(polls(&b), 0);
    b.sandbox.clear_faults();
    assert_refused(&place, &b, stored).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_backup_of_another_workspace_is_not_filled_further() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (of_a, stored) = filled(&a).await;
    let copied = of_a.run(["backup", "a.db"]).await;
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let place = b.place();
    lead_to(&place, &b);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let polled = polls(&b);
    let restored = place.run(["restore", of_a.path("a.db").to_str().unwrap()]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_once_names_both(&place).await;
    assert_eq!(polls(&b), polled);
    assert_eq!(place.number("SELECT max(seq) FROM changes"), stored);
}

#[tokio::test]
async fn an_answer_of_something_in_between_lets_no_other_workspace_in() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    for command in [&["once"][..], &["search", "an", "--store"]] {
        b.sandbox.clear_faults();
        let ping = Some("ping".to_owned());
        b.sandbox.fault(Fault { route: ping, kind: FaultKind::Html, count: 1 });
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.err.contains(SHOP_B), "{ended:?}");
    }
    assert_eq!(place.number("SELECT max(seq) FROM changes"), stored);
}

#[tokio::test]
async fn a_ping_that_is_refused_for_ever_holds_no_run_of_once() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    refuse_pings(&b, 403);
    assert_read_without_a_name(&place, stored).await;
}

#[tokio::test]
async fn a_key_file_that_is_corrected_without_a_reload_ends_what_is_said_of_another_workspace() {
    let a = shop(7, SHOP_A).await;
    let (place, stored) = filled(&a).await;
    let key = a.sandbox.automation_key();
    a.sandbox.add_key("other-key", "other", Provider::Automation);
    a.sandbox.set_workspace_name(Some(SHOP_B));
    place.write_key("other-key");
    let daemon = place.daemon();
    place.status_when("the other workspace is named", is_refused).await;
    a.add(Route::Leads, json!({}));
    place.write_key(&key);
    wait_until("it polls again", || place.number("SELECT max(seq) FROM changes") == stored + 1)
        .await;
    let other = "SELECT count(*) FROM meta WHERE name = 'workspace_other'";
    wait_until("the other workspace is forgotten", || place.number(other) == 0).await;
    let refused = place.run(["workspace", "accept"]).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_workspace_that_was_met_with_another_address_is_not_accepted() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, _) = filled(&a).await;
    lead_to(&place, &b);
    assert_eq!(place.run(["once"]).await.code, Some(78));
    lead_to(&place, &a);
    let refused = place.run(["workspace", "accept"]).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(refused.err.contains("shopmirror once"), "{refused:?}");
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let shown = place.run(["workspace", "--json"]).await.json();
    assert_eq!((&shown["name"], &shown["other"]), (&json!(SHOP_A), &Value::Null));
}

#[tokio::test]
async fn an_address_whose_name_cannot_be_read_can_be_accepted() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_A).await);
    let (place, stored) = filled(&a).await;
    refuse_pings(&b, 503);
    lead_to(&place, &b);
    let daemon = place.daemon();
    let advised = |status: &Value| status["reasons"].to_string().contains("workspace accept");
    place.status_when("it waits for the name", advised).await;
    let accepted = place.run(["workspace", "accept"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.out.contains("without a look at the name"), "{accepted:?}");
    wait_until("it polls", || place.number("SELECT max(seq) FROM changes") > stored).await;
    assert_eq!(name(&place).as_deref(), Some(SHOP_A));
    daemon.stop().await;
}
