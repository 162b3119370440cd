//! Somebody between shopmirror and the workspace: a bot check, a login page, a portal. Its answer is
//! taken for nothing else, its words are shown to the operator only.

use rustix::process::Signal;
use sandbox::{FaultKind, Route};
use serde_json::Value;

use crate::page::Site;
use crate::support::{Pages, Workspace, wait_until};

const TITLE: &str = "Just a moment, Ann";

fn challenge(code: u16) -> FaultKind {
    FaultKind::Between {
        code,
        body: format!("<!doctype html><title>{TITLE}</title><p>Please wait."),
    }
}

#[tokio::test]
async fn check_names_the_answer_of_somebody_between_and_the_address_first() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    for code in [403, 401, 404, 200] {
        workspace.sandbox.clear_faults();
        workspace.fault(None, challenge(code), u32::MAX);
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(75), "{ended:?}");
        let words = format!("answers in its place with a web page (status {code}); check base_url");
        assert!(ended.out.contains(&words), "{ended:?}");
        assert!(ended.out.contains(TITLE), "{ended:?}");
    }
    // Once it has been read, the address is right.
    workspace.sandbox.clear_faults();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.fault(None, challenge(403), u32::MAX);
    let ended = place.run(["check"]).await;
    assert!(
        ended
            .out
            .contains("let requests of this machine to base_url through"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_challenge_is_no_refused_key_and_its_words_are_for_the_operator_only() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("[status]\nlisten = \"127.0.0.1:0\"\n");
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.fault(None, challenge(403), u32::MAX);
    let is_held = |status: &Value| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers.iter().all(|p| p["state"] == "somebody_between")
    };
    let status = place.status_when("every route waits", is_held).await;
    assert_eq!(status["paused_quotation"], TITLE);
    let reasons = status["reasons"].to_string();
    assert!(reasons.contains("somebody between"), "{status}");
    assert!(!reasons.contains("Ann"), "{status}");
    let shown = place.run(["status"]).await;
    assert!(shown.out.contains(TITLE), "{shown:?}");

    let site = Site::of(&place).await;
    for path in ["/api/status", "/system", "/metrics"] {
        let reply = site.get(path).await;
        assert!(
            !reply.body.is_empty() && !reply.body.contains("Ann"),
            "{path}: {reply:?}"
        );
    }

    workspace.sandbox.clear_faults();
    daemon.signal(Signal::HUP);
    let is_read = |status: &Value| status["health"] == "ok";
    place.status_when("all is read again", is_read).await;
    assert!(!place.log().contains("Ann"), "{}", place.log());
    daemon.stop().await;
}

#[tokio::test]
async fn a_run_of_once_reads_the_other_routes_without_a_wait() {
    let workspace = Workspace::start().await;
    workspace.fault(Some(Route::Leads), challenge(200), u32::MAX);
    let place = workspace.place();
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.err.contains("leads: somebody between"), "{ended:?}");
    assert!(!ended.err.contains("Ann"), "{ended:?}");
    assert_eq!(place.number("SELECT count(*) FROM _pollers"), 5);
    wait_until("nothing of leads is stored", || {
        place.number("SELECT count(*) FROM leads") <= 0
    })
    .await;
}

#[tokio::test]
async fn a_response_that_a_cache_repeats_is_not_taken_for_a_read_and_new_records_are() {
    let pages = Pages::start().await;
    pages.set_date("Thu, 01 Jan 2026 00:00:00 GMT");
    pages.show(
        "leads",
        r#"[{"id":1,"created_at":"2026-01-01T00:00:00.000000Z"}]"#,
    );
    let place = pages.place();
    let daemon = place.started().await;
    let is_named = |status: &Value| {
        let pollers = status["pollers"].as_array().unwrap();
        pollers
            .iter()
            .any(|p| p["route"] == "leads" && p["last_error"] == "cached" && p["failures"] != 0)
    };
    let status = place.status_when("the cache is named", is_named).await;
    assert_ne!(status["health"], "ok", "{status}");
    let reasons = status["reasons"].to_string();
    assert!(reasons.contains("a cache between"), "{reasons}");
    // A server whose clock stands still is read all the same.
    let body = r#"[{"id":2,"created_at":"2026-01-01T00:00:00.000000Z"},
        {"id":1,"created_at":"2026-01-01T00:00:00.000000Z"}]"#;
    pages.show("leads", body);
    wait_until("the new lead is stored", || {
        place.number("SELECT count(*) FROM leads") == 2
    })
    .await;
    daemon.stop().await;
}
