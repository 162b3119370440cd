//! `status`: health with a daemon and without, what a monitor reads, and the live status.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::filled;
use crate::support::{Pages, Workspace};

const ONCE: &str = "[once]\nevery = \"1h\"\n";

fn reasons(status: &Value) -> String {
    status["reasons"].to_string()
}

#[tokio::test]
async fn a_timer_that_runs_once_is_healthy_and_a_monitor_reads_the_exit_code() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let monitor = ["status", "--exit-code", "--json"];
    assert_eq!(place.run(monitor).await.code, Some(3), "there is no store");
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let ended = place.run(monitor).await;
    assert_eq!(
        (ended.code, &ended.json()["health"]),
        (Some(2), &json!("failing")),
        "{ended:?}"
    );
    assert!(
        reasons(&ended.json()).contains("no daemon is running"),
        "{ended:?}"
    );

    place.configure(ONCE);
    let ended = place.run(monitor).await;
    assert_eq!(
        (ended.code, &ended.json()["health"]),
        (Some(0), &json!("ok")),
        "{ended:?}"
    );

    place.configure("[once]\nevery = \"1s\"\n");
    let late = |status: &Value| reasons(status).contains("has not read jobs, customers, leads");
    let status = place.status_when("the timer is late", late).await;
    assert_eq!(status["health"], "failing", "{status}");
}

#[tokio::test]
async fn a_route_that_turns_empty_is_reported() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    place.configure(ONCE);
    workspace.show("leads", r#"[{"id":2,"name":"Ada"},{"id":1,"name":"Bob"}]"#);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.status().await["health"], "ok");
    workspace.show("leads", "[]");
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let status = place.status().await;
    assert_eq!(status["health"], "degraded", "{status}");
    assert!(
        reasons(&status).contains("leads: the workspace now returns no records"),
        "{status}"
    );
    let gaps = place.run(["gaps"]).await.out;
    assert!(
        gaps.contains("leads: the workspace now returns no records"),
        "{gaps}"
    );
    workspace.show("leads", r#"[{"id":3,"name":"Cyd"},{"id":2,"name":"Ada"}]"#);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.status().await["emptied"], json!([]));
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_not_reported_as_stopped() {
    let (_workspace, place) = filled("").await;
    let daemon = place.started().await;
    place
        .status_when("the daemon answers", |status| status["running"] == true)
        .await;
    daemon.signal(Signal::STOP);
    let reasons = reasons(&place.status().await);
    daemon.signal(Signal::CONT);
    assert!(reasons.contains("does not answer"), "{reasons}");
    assert!(!reasons.contains("no daemon is running"), "{reasons}");
    daemon.stop().await;
}

#[tokio::test]
async fn an_archive_for_support_has_no_record_no_secret_and_no_name() {
    let workspace = Workspace::start().await;
    workspace.add(
        sandbox::Route::Leads,
        json!({"name": "Xylo Phonist", "mobile_number": "0301234567"}),
    );
    let place = workspace.place();
    place.configure(
        "[sinks.erp]\ntype = \"webhook\"\nurl = \"http://127.0.0.1:9/CANARYHOOK\"\nroutes = [\"jobs\"]\n",
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(
        place.number("SELECT count(*) FROM leads WHERE name = 'Xylo Phonist'"),
        1
    );
    let unseen = place.run(["status", "--support", "ask.tar.gz"]).await;
    assert_eq!(unseen.code, Some(64), "{unseen:?}");
    assert!(unseen.err.contains("--yes") && !place.path("ask.tar.gz").exists());
    let written = place
        .run(["status", "--support", "ask.tar.gz", "--yes"])
        .await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let listed = std::process::Command::new("tar")
        .args(["xzOf", "ask.tar.gz"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    for part in [
        "SQLite",
        "type = \"webhook\"",
        "\"pollers\"",
        "CREATE TABLE",
        "[hidden]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let key = std::fs::read_to_string(place.path("api-key")).unwrap();
    for canary in ["Xylo", "Phonist", "0301234567", "CANARY", key.trim()] {
        assert!(!text.contains(canary), "{canary}: {text}");
    }
    let again = place
        .run(["status", "--support", "ask.tar.gz", "--yes"])
        .await;
    assert_eq!(again.code, Some(74), "no file is replaced: {again:?}");
}
