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
