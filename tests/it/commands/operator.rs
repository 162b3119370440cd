//! What an operator sees: health without a daemon, exit codes for monitors, times, one shape of JSON.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sandbox::{FaultKind, Route};
use serde_json::{Value, json};

use crate::support::{Answer, Pages, Place, Receiver, Workspace, wait_until};

const ONCE: &str = "[once]\nevery = \"1h\"\n";

fn reasons(status: &Value) -> String {
    status["reasons"].to_string()
}

#[tokio::test]
async fn a_timer_that_runs_once_is_healthy_and_its_failures_are_named() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(ONCE);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let status = place.status().await;
    assert_eq!((&status["health"], &status["running"]), (&json!("ok"), &json!(false)), "{status}");
    assert_eq!(status["last_run"]["polled"], 6, "{status}");
    let shown = place.run(["status"]).await.out;
    assert!(shown.contains("last run") && shown.contains("6 pollers"), "{shown}");

    workspace.fault(Some(Route::Leads), FaultKind::Html, 1);
    assert_eq!(place.run(["once"]).await.code, Some(65));
    let status = place.status().await;
    assert_eq!(status["health"], "degraded", "{status}");
    assert!(reasons(&status).contains("leads: the last poll failed"), "{status}");
    assert_eq!(status["last_run"]["failed"][0]["poller"], "leads");

    place.configure("[once]\nevery = \"1s\"\n");
    let store = place.writer();
    store.execute_batch("UPDATE polls SET to_at = '2026-01-01T00:00:00.000000Z'").unwrap();
    let status = place.status().await;
    assert_eq!(status["health"], "failing", "{status}");
    assert!(reasons(&status).contains("more than twice its interval"), "{status}");
}

#[tokio::test]
async fn the_exit_code_of_status_is_that_of_a_monitor() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let args = ["status", "--exit-code"];
    let ended = place.run(args).await;
    assert_eq!(ended.code, Some(3), "there is no store: {ended:?}");
    assert!(ended.err.contains("there is no store"), "{ended:?}");
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.run(args).await.code, Some(2), "no daemon");
    place.configure(ONCE);
    assert_eq!(place.run(args).await.code, Some(0), "a timer runs once");
    workspace.sandbox.burst(Route::Jobs, 150);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let ended = place.run(["status", "--exit-code", "--json"]).await;
    assert_eq!(ended.code, Some(1), "a gap: {ended:?}");
    assert_eq!(ended.json()["health"], "degraded");
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
    assert!(reasons(&status).contains("leads: the workspace now returns no records"), "{status}");
    assert_eq!(status["emptied"][0]["records"], 2);
    let gaps = place.run(["gaps"]).await.out;
    assert!(gaps.contains("leads: the workspace now returns no records"), "{gaps}");
    assert!(!gaps.contains("no gaps"), "{gaps}");
    workspace.show("leads", r#"[{"id":3,"name":"Cyd"},{"id":2,"name":"Ada"}]"#);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.status().await["emptied"], json!([]));
}

#[tokio::test]
async fn the_status_of_a_daemon_that_has_read_nothing_yet_says_what_the_store_knows() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.fault(None, FaultKind::Status { code: 503, retry_after: None }, u32::MAX);
    let daemon = place.started().await;
    let status = place.status_when("the daemon answers", |status| status["running"] == true).await;
    for poller in status["pollers"].as_array().unwrap() {
        assert!(poller["last_success_age_s"].is_number(), "{poller}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn dropped_dead_letters_are_no_longer_reported() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(400));
    place.configure(&Place::webhook_sink("erp", &hook.url("/"), "retry = []"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    let dead = |status: &Value| status["sinks"][0]["dead"] == 1;
    let status = place.status_when("it is dead", dead).await;
    assert_eq!(status["health"], "degraded", "{status}");
    let ended = place.run(["dead", "erp", "drop", "--all"]).await;
    assert_eq!(ended.out, "1 dead letter dropped; the changes stay in the log\n", "{ended:?}");
    let none = |status: &Value| status["sinks"][0]["dead"] == 0;
    let status = place.status_when("none is dead", none).await;
    assert_eq!(status["health"], "ok", "{status}");
    assert_eq!(status["sinks"][0]["last_error"], Value::Null, "a fault that is over: {status}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_record_has_one_shape_in_every_listing() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    let body = r#"{"id":7,"name":"Ada","paid":true,"parts":[{"sku":"a"}],"amount":12.5}"#;
    workspace.show("payments", format!("[{body}]"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let wanted: Value = serde_json::from_str(body).unwrap();
    let shown = place.run(["show", "payments", "7", "--json"]).await.json();
    for record in [
        &place.run(["records", "payments", "--json"]).await.json()[0],
        &shown["record"],
        &shown["changes"][0]["record"],
        &place.run(["log", "--json"]).await.json()[0]["record"],
    ] {
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(&record[name], value, "{name}: {record}");
        }
    }
    assert_eq!(shown["record"]["_seq"], 1);
}

#[tokio::test]
async fn the_log_begins_where_it_is_told_and_shows_local_time_on_a_terminal() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let store = place.writer();
    store.execute_batch("UPDATE changes SET observed_at = '2026-01-01T20:00:00.000000Z'").unwrap();
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for since in ["1h", "2026-01-02T00:00:00Z"] {
        let found = place.run(["log", "--since", since, "--json"]).await.json();
        assert_eq!(found.as_array().unwrap().len(), 1, "{since}: {found}");
    }
    assert_eq!(place.run(["log", "--since", "yesterday"]).await.code, Some(64));

    let terminal = ["env", "TZ=Asia/Tokyo", "sh", "-c", "exec script -qec \"$*\" /dev/null", "sh"];
    let args = ["log", "--route", "payments", "--limit", "1"];
    let shown = place.run_by(&terminal, &args).await.out;
    assert!(shown.contains("2026-01-02 05:00:00"), "{shown}");
    let piped = place.run(args).await.out;
    assert!(piped.contains("2026-01-01T20:00:00Z"), "{piped}");
}

#[tokio::test]
async fn a_member_of_the_readers_group_reads_and_neither_writes_nor_spends_the_budget() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let reader = ["setpriv", "--reuid=65534", "--regid=0", "--clear-groups"];
    let workspace = Workspace::start().await;
    let place = workspace.place();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = place.started().await;
    workspace.all_polled().await;
    let ended = place.run_by(&reader, &["status", "--json"]).await;
    assert_eq!((ended.code, &ended.json()["running"]), (Some(0), &json!(true)), "{ended:?}");
    let searches = || {
        let log = workspace.sandbox.requests().log;
        log.iter().filter(|request| request.route == "search").count()
    };
    for args in [&["search", "a"][..], &["search", "a", "--store"]] {
        let ended = place.run_by(&reader, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(ended.err.contains("as the user of the service"), "{args:?}: {ended:?}");
    }
    assert_eq!(searches(), 0);
    assert_eq!(place.run(["search", "a"]).await.code, Some(0), "its own user may");
    daemon.stop().await;
}

#[tokio::test]
async fn a_command_of_a_command_has_a_manual_page() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let page = place.run(["man", "dead", "list"]).await;
    assert!(page.out.contains(".TH shopmirror-dead-list 1"), "{page:?}");
    assert_eq!(place.run(["man", "dead", "nothing"]).await.code, Some(64));
}

#[tokio::test]
async fn a_list_of_changes_that_is_cut_says_so() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for (args, which) in [
        (&["--since", "1h"][..], "only the last 50 matching changes"),
        (&["--after", "0"][..], "only the first 50 matching changes"),
        (&["--since", "1h", "--json"][..], "only the last 50 matching changes"),
        (&["--since", "1h", "--limit", "50"][..], ""),
        (&["--since", "1h", "--limit", "100000"][..], ""),
        (&["--kind", "updated"][..], ""),
    ] {
        let ended = place.run(["log"].iter().chain(args)).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.err.is_empty(), which.is_empty(), "{args:?}: {ended:?}");
        assert!(ended.err.contains(which), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn a_hundred_refusals_are_a_few_lines_of_the_log_and_all_are_listed() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(422).body("no such customer"));
    place.configure(&Place::webhook_sink("erp", &hook.url("/"), "retry = []"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    // One after the other, so that no two of the first are refused in one round.
    for number in 1..=90 {
        workspace.add(Route::Leads, json!({"name": format!("Ada {number}")}));
        let sql = "SELECT dead FROM sinks";
        if number <= 20 || number == 90 {
            wait_until("it is dead", || place.number(sql) == number).await;
        }
    }
    assert_eq!(place.run(["dead", "erp", "--json"]).await.json().as_array().unwrap().len(), 90);
    daemon.stop().await;
    let log = place.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("refused for good")).collect();
    // One a minute, and one when the daemon stops.
    assert!((1..10).contains(&lines.len()), "{lines:#?}");
    let counted: u64 = lines
        .iter()
        .filter_map(|line| line.split("count=").nth(1)?.split(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(counted, 90, "{lines:#?}");
    assert!(lines[0].contains("no such customer"), "{lines:#?}");
}

#[tokio::test]
async fn a_plan_without_a_store_does_not_show_figures_that_were_not_measured() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let plan = place.run(["plan"]).await;
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert!(plan.out.contains("not watched yet") && !plan.out.contains("0 in 0"), "{plan:?}");
    let why = place.run(["why", "leads"]).await;
    assert!(why.out.contains("not known yet"), "{why:?}");
}

#[tokio::test]
async fn after_a_restart_a_route_that_was_read_shortly_before_is_ok_before_its_next_page() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    place.configure("");
    let daemon = place.started().await;
    workspace.shown("leads", r#"[{"id":1}]"#).await;
    daemon.stop().await;
    let release = workspace.hold_next("leads");
    let daemon = place.started().await;
    workspace.held("leads").await;
    let status = place.status().await;
    let pollers = status["pollers"].as_array().unwrap();
    let leads = pollers.iter().find(|poller| poller["route"] == "leads").unwrap();
    assert_eq!(leads["state"], "ok", "{status}");
    release.notify_one();
    daemon.stop().await;
}

#[tokio::test]
async fn a_wrong_clock_is_reported_by_check_and_by_health() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    place.configure("");
    let right = place.run(["check"]).await;
    assert_eq!(right.code, Some(0), "{right:?}");
    workspace.set_date("Thu, 01 Jan 2026 00:00:00 GMT");
    let wrong = place.run(["check"]).await;
    assert_eq!(wrong.code, Some(78), "{wrong:?}");
    assert!(wrong.out.contains("WRONG clock      this machine's clock is "), "{wrong:?}");
    assert!(wrong.out.contains("ahead of the workspace's: set it right"), "{wrong:?}");

    let daemon = place.started().await;
    workspace.polled("leads").await;
    let status = place.status().await;
    assert_eq!(status["health"], "degraded", "{status}");
    assert!(reasons(&status).contains("ahead of the workspace's"), "{status}");
    let logged = || place.log().matches("ahead of the workspace's").count();
    wait_until("it is logged", || logged() > 0).await;
    daemon.stop().await;
    assert_eq!(logged(), 1, "it is logged once: {}", place.log());
}
