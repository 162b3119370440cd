//! Commands that send requests to the workspace: `search` through the daemon, `check` by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sandbox::{Fault, FaultKind, Options, Route, Shop};
use serde_json::{Value, json};

use super::{filled, may_become_another_user};
use crate::support::{BUDGET, EAGER, Workspace, wait_until};

#[tokio::test]
async fn a_failed_search_has_the_exit_code_of_its_cause() {
    let (workspace, place) = filled("").await;
    for term in ["", " ", &"x".repeat(101)] {
        let ended = place.run(["search", term]).await;
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains("write at"), "{ended:?}");
    }
    let ended = place.run(["search", "x"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("searches go through it"), "{ended:?}");
    let daemon = place.started().await;
    place
        .status_when("the daemon answers", |status| status["running"] == true)
        .await;
    let unavailable = FaultKind::Status {
        code: 503,
        retry_after: None,
    };
    for (kind, code) in [(unavailable, 75), (FaultKind::NotJson, 65)] {
        workspace.sandbox.clear_faults();
        let route = Some("search".to_owned());
        workspace.sandbox.fault(Fault {
            route,
            kind,
            count: u32::MAX,
        });
        assert_eq!(place.run(["search", "x"]).await.code, Some(code));
    }
    drop(daemon);
}

#[tokio::test]
async fn a_search_is_of_the_business_that_is_named() {
    let options = Options {
        shop: Shop::Chain,
        requests_per_minute: 60_000,
        ..Workspace::usual()
    };
    let workspace = Workspace::still(options).await;
    let place = workspace.place();
    place.configure_all(&format!("{BUDGET}{EAGER}"));
    let Value::Object(customer) = json!({"name": "Aino Quillfeather"}) else {
        unreachable!()
    };
    workspace
        .sandbox
        .add_record(Route::Customers, Some(2), customer)
        .unwrap();
    let daemon = place.started().await;
    place
        .status_when("every route is read", |s| s["records"]["jobs"] == 100)
        .await;
    for (business, found) in [("2", 1), ("1", 0)] {
        let words = ["search", "Quillfeather", "--business", business, "--json"];
        let ended = place.run(words).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(
            ended.json().as_array().unwrap().len(),
            found,
            "{business}: {ended:?}"
        );
    }
    drop(daemon);
}

#[tokio::test]
async fn commands_without_a_daemon_keep_within_one_budget() {
    let (workspace, place) = filled("").await;
    let limit = workspace.sandbox.requests().total + 8;
    place.configure_all(&format!(
        "[budget]\nrequests_per_minute = {limit}\nreserve = 0\n"
    ));
    let is_waiting = || place.log().contains("waiting for a free request");
    // Each sends one request at least, and a minute has room for eight more.
    for _ in 0..=8 {
        let mut check = place.background(["check"]);
        wait_until("it ends or waits", || is_waiting() || !check.is_running()).await;
        if is_waiting() {
            check.kill().await;
            break;
        }
    }
    assert!(is_waiting(), "{}", place.log());
    assert!(
        workspace.sandbox.requests().total <= limit,
        "{}",
        place.log()
    );
}

#[tokio::test]
async fn a_command_waits_as_long_as_the_workspace_asked_an_earlier_one_to_wait() {
    let (workspace, place) = filled("").await;
    let refused = FaultKind::Status {
        code: 429,
        retry_after: Some("3".to_owned()),
    };
    let route = Some("automation-ping".to_owned());
    workspace.sandbox.fault(Fault {
        route,
        kind: refused,
        count: 1,
    });
    for code in [75, 0] {
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
    let log = workspace.sandbox.requests().log;
    let sent = log.iter().filter(|one| one.route == "automation-ping");
    let sent: Vec<f64> = sent.map(|one| one.elapsed_s).collect();
    let [.., refused, waited] = sent[..] else {
        panic!("{sent:?}")
    };
    assert!(waited - refused >= 3.0, "{sent:?}");
}

#[tokio::test]
async fn a_member_of_the_readers_group_reads_and_does_not_spend_the_budget() {
    if !may_become_another_user() {
        return;
    }
    let reader = ["setpriv", "--reuid=65534", "--regid=0", "--clear-groups"];
    let (workspace, place) = filled("").await;
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = place.started().await;
    place
        .status_when("the daemon answers", |status| status["running"] == true)
        .await;
    let ended = place.run_by(&reader, &["status", "--json"]).await;
    assert_eq!(
        (ended.code, &ended.json()["running"]),
        (Some(0), &json!(true)),
        "{ended:?}"
    );
    for args in [&["search", "a"][..], &["search", "a", "--store"]] {
        let ended = place.run_by(&reader, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(
            ended.err.contains("as the user of the service"),
            "{args:?}: {ended:?}"
        );
    }
    let log = workspace.sandbox.requests().log;
    assert!(
        log.iter().all(|request| request.route != "search"),
        "{log:?}"
    );
    assert_eq!(
        place.run(["search", "a"]).await.code,
        Some(0),
        "its own user may"
    );
    daemon.stop().await;
}
