//! Another workspace behind `base_url` or the key never gets into the store: nothing is read from
//! it until the operator has corrected the address or accepted the name.

use rustix::process::Signal;
use sandbox::{Fault, FaultKind, Options, Route};
use serde_json::{Value, json};

use crate::support::{BUDGET, EAGER, Place, Workspace, wait_until};

const SHOP_A: &str = "Shop A";
const SHOP_B: &str = "Shop B";

async fn shop(seed: u64, name: &str) -> Workspace {
    let options = Options {
        seed,
        requests_per_minute: 60_000,
        ..Workspace::usual()
    };
    let workspace = Workspace::still(options).await;
    workspace.sandbox.set_workspace_name(Some(name));
    workspace
}

/// Has the configuration lead to this workspace, with the sink `audit`.
fn lead_to(place: &Place, workspace: &Workspace) {
    place.write(
        "shopmirror.toml",
        &format!(
            "[workspace]\nbase_url = \"{}\"\napi_key_file = \"api-key\"\n{BUDGET}{EAGER}{}",
            workspace.base_url(),
            Place::file_sink("audit", "start = \"beginning\"")
        ),
    );
    place.write_key(&workspace.sandbox.automation_key());
}

fn name(place: &Place) -> Option<String> {
    let rows = place.rows("SELECT value ->> 'name' FROM _meta WHERE name = 'workspace'");
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
    status["pollers"]
        .as_array()
        .unwrap()
        .iter()
        .all(|p| p["state"] == "other_workspace")
}

/// The status names both workspaces and the remedy, and nothing of the other one was read or
/// stored.
async fn assert_refused(place: &Place, other: &Workspace, stored: i64) {
    let status = place
        .status_when("the other workspace is named", is_refused)
        .await;
    assert_eq!(status["health"], "failing");
    let reason = status["reasons"][0].as_str().unwrap();
    for word in [
        SHOP_A,
        SHOP_B,
        "shopmirror check --accept-workspace",
        "base_url",
    ] {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(polls(other), 0);
    assert_eq!(place.number("SELECT max(seq) FROM changes"), stored);
    let said = place.log();
    assert_eq!(
        said.matches("polling is paused until this is fixed")
            .count(),
        1,
        "{said}"
    );
}

#[tokio::test]
async fn after_a_restart_nothing_of_another_workspace_is_read_until_the_address_is_corrected() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(
        checked.out.contains("WRONG workspace") && checked.out.contains(SHOP_A),
        "{checked:?}"
    );

    // While the name cannot be read, nothing else is.
    let kind = FaultKind::Status {
        code: 503,
        retry_after: None,
    };
    b.sandbox.fault(Fault {
        route: Some("automation-ping".to_owned()),
        kind,
        count: 1_000,
    });
    let daemon = place.daemon();
    let waits = |status: &Value| status["reasons"].to_string().contains("reports its name");
    place.status_when("it waits for the name", waits).await;
    assert_eq!(polls(&b), 0);
    b.sandbox.clear_faults();
    assert_refused(&place, &b, stored).await;
    assert_eq!(name(&place).as_deref(), Some(SHOP_A));
    let searched = place.run(["search", "an", "--store"]).await;
    assert_eq!(searched.code, Some(69), "{searched:?}");

    a.add(Route::Leads, json!({}));
    lead_to(&place, &a);
    daemon.signal(Signal::HUP);
    wait_until("it polls again", || {
        place.number("SELECT max(seq) FROM changes") == stored + 1
    })
    .await;
    let status = place.run(["status", "--json"]).await.json();
    assert_eq!(status["health"], "ok", "{status}");
    daemon.stop().await;
}

#[tokio::test]
async fn after_a_reload_nothing_of_another_workspace_is_read_until_it_is_accepted() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let (place, stored) = filled(&a).await;
    let early = place.run(["check", "--accept-workspace"]).await;
    assert_eq!(early.code, Some(65), "{early:?}");
    let daemon = place.started().await;
    lead_to(&place, &b);
    daemon.signal(Signal::HUP);
    assert_refused(&place, &b, stored).await;

    let accepted = place.run(["check", "--accept-workspace"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(
        accepted.out.contains("belongs to Shop B from now on"),
        "{accepted:?}"
    );
    b.all_polled().await;
    wait_until("its records are stored", || {
        place.number("SELECT max(seq) FROM changes") > stored
    })
    .await;
    assert_eq!(name(&place).as_deref(), Some(SHOP_B));
    daemon.stop().await;
}

#[tokio::test]
async fn a_run_of_once_refuses_another_workspace_until_it_is_accepted() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    let place = a.place();
    lead_to(&place, &a);
    let first = place.run(["once"]).await;
    assert_eq!(
        (first.code, name(&place).as_deref()),
        (Some(0), Some(SHOP_A)),
        "{first:?}"
    );
    let stored = place.number("SELECT max(seq) FROM changes");

    lead_to(&place, &b);
    let refused = place.run(["once"]).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(
        refused.err.contains(SHOP_A) && refused.err.contains(SHOP_B),
        "{refused:?}"
    );
    assert_eq!(
        (polls(&b), place.number("SELECT max(seq) FROM changes")),
        (0, stored)
    );
    let status = place.status().await;
    assert!(status["reasons"].to_string().contains(SHOP_B), "{status}");

    assert_eq!(
        place.run(["check", "--accept-workspace"]).await.code,
        Some(0)
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert!(place.number("SELECT max(seq) FROM changes") > stored);
}

#[tokio::test]
async fn a_workspace_without_a_name_holds_nothing_back_and_keeps_the_known_name() {
    let (a, b) = (shop(7, SHOP_A).await, shop(8, SHOP_B).await);
    b.sandbox.set_workspace_name(None);
    let (place, stored) = filled(&a).await;
    lead_to(&place, &b);
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("cannot be compared"), "{ended:?}");
    assert!(place.number("SELECT max(seq) FROM changes") > stored);
    assert_eq!(name(&place).as_deref(), Some(SHOP_A));
}

#[tokio::test]
async fn a_first_start_reads_the_lists_although_no_ping_is_answered() {
    let workspace = shop(7, SHOP_A).await;
    let kind = FaultKind::Status {
        code: 503,
        retry_after: None,
    };
    workspace.sandbox.fault(Fault {
        route: Some("automation-ping".to_owned()),
        kind,
        count: 1_000,
    });
    let place = workspace.place();
    lead_to(&place, &workspace);
    let daemon = place.started().await;
    workspace.all_polled().await;
    assert_eq!(name(&place), None);
    daemon.stop().await;
}
