//! How commands end: the exit code, the message, and that printing it never changes the code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandbox::{Fault, FaultKind, Options, Route, Shop};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::support::{Answer, ClosedPort, Place, Receiver, Workspace, wait_until};

/// Starts the program with a standard error that cannot be written.
const MUTE: [&str; 4] = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];

#[tokio::test]
async fn a_daemon_whose_log_cannot_be_written_continues() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mut daemon = place.daemon_by(&MUTE);
    workspace.all_polled().await;
    place.configure("[sinks");
    daemon.signal(Signal::HUP);
    workspace.all_polled().await;
    assert!(daemon.is_running());
    daemon.stop().await;
}

#[tokio::test]
async fn a_command_that_cannot_print_its_error_still_returns_the_exit_code() {
    let closed = ClosedPort::new();
    let place = Place::new(&closed.base_url(), "key");
    assert_eq!(place.run_by(&MUTE, &["once"]).await.code, Some(75));
    assert_eq!(place.run_by(&MUTE, &["show", "leads", "1"]).await.code, Some(65));
}

#[tokio::test]
async fn once_returns_its_exit_code_after_a_closed_pipe() {
    let closed = ClosedPort::new();
    let place = Place::new(&closed.base_url(), "key");
    let unread = ["bash", "-o", "pipefail", "-c", "\"$@\" | true", "bash"];
    assert_eq!(place.run_by(&unread, &["once"]).await.code, Some(75));
}

#[tokio::test]
async fn once_prints_an_error_of_every_route_only_once() {
    let closed = ClosedPort::new();
    let place = Place::new(&closed.base_url(), "key");
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert_eq!(ended.err.matches("could not connect").count(), 1, "{ended:?}");
    for route in Route::ALL {
        let name = route.segment().replace('-', "_");
        assert!(ended.err.contains(&name), "{name}: {ended:?}");
    }
}

#[tokio::test]
async fn once_is_interrupted_while_a_sink_does_not_answer() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let rest = "timeout = \"1h\"\nconcurrency = 1\nstart = \"beginning\"\nchanges = [\"baseline\"]";
    place.configure(&Place::webhook_sink("hangs", &url, rest));
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    for signal in [Signal::INT, Signal::TERM] {
        let mut once = place.background(["once"]);
        let _connection = listener.accept().await.unwrap();
        once.signal(signal);
        assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
        let lock = std::fs::read_to_string(place.path("mirror.db-lock")).unwrap();
        assert_eq!(lock, "", "the store was closed in order");
    }
    wait_until("it says what to do", || {
        place.log().matches("interrupted; the next run").count() == 2
    })
    .await;
}

#[tokio::test]
async fn the_cause_of_an_error_is_printed_once() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    fs::remove_file(place.path("api-key")).unwrap();
    for args in [&["once"][..], &["--config", "absent.toml", "status"]] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert_eq!(ended.err.matches("No such file").count(), 1, "{ended:?}");
    }
}

#[tokio::test]
async fn an_endless_configuration_is_refused_and_a_piped_one_is_read() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let piped = ["sh", "-c", "cat config.toml | \"$1\" --config /dev/stdin check --offline", "sh"];
    let ended = place.run_by(&piped, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = place.run(["--config", "/dev/zero", "check"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.out.contains("longer than"), "{ended:?}");
}

/// Another user of this machine, in no group. Only root can switch to it.
const STRANGER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[tokio::test]
async fn a_user_without_permission_is_told_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(place.run(["once"]).await.code, Some(0));
    mode("", 0o755);
    let ended = place.run_by(&STRANGER, &["status"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.err.contains("a member of the group"), "{ended:?}");

    // The files may be read, but not written.
    for name in ["config.toml", "api-key", "mirror.db", "mirror.db-wal", "mirror.db-shm"] {
        mode(name, 0o644);
    }
    for args in [&["gaps", "accept", "--all"][..], &["once"]] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(ended.err.contains("as the user of the service"), "{args:?}: {ended:?}");
    }
    let ended = place.run_by(&STRANGER, &["check"]).await;
    assert!(ended.out.contains("this user may not write to"), "{ended:?}");

    // The database cannot be read either.
    mode("mirror.db", 0o600);
    for args in [&["status"][..], &["plan"], &["why", "leads"], &["records", "leads"]] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(!ended.err.contains("there is no store"), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_configuration_in_an_unreadable_folder_is_not_reported_as_missing() {
    // A separate /etc, with the folder as the shipped files create it, used by another user.
    let script = "mount -t tmpfs tmpfs /etc && mkdir -m \"$1\" /etc/shopmirror && \
        echo wrong >/etc/shopmirror/config.toml && cd \"$2\" && \
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$3\" status";
    let closed = tempfile::tempdir().unwrap();
    let closed = closed.path().to_str().unwrap();
    for (mode, folder, word) in [
        ("0750", "/", "a member of the group"),
        ("0750", closed, "/etc/shopmirror/config.toml: Permission denied"),
        ("0755", closed, "/etc/shopmirror/config.toml:1"),
    ] {
        let program = env!("CARGO_BIN_EXE_shopmirror");
        let args = ["-m", "sh", "-c", script, "sh", mode, folder, program];
        let ended = Command::new("unshare").args(args).env("NO_COLOR", "1").output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        if !said.starts_with("shopmirror: ") {
            eprintln!("SKIPPED: no mount namespace can be made here, or no other user become");
            return;
        }
        assert_eq!((ended.status.code(), said.contains(word)), (Some(78), true), "{said}");
    }
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_not_reported_as_stopped() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    daemon.signal(Signal::STOP);
    let reasons = place.status().await["reasons"].to_string();
    daemon.signal(Signal::CONT);
    assert!(reasons.contains("does not answer"), "{reasons}");
    assert!(!reasons.contains("no daemon is running"), "{reasons}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_reply_of_another_version_says_to_restart_the_daemon() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let listener = tokio::net::UnixListener::bind(place.path("mirror.db-sock")).unwrap();
    for args in [&["status"][..], &["sinks"], &["search", "x"]] {
        let answered = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = BufReader::new(&mut stream);
            asked.read_line(&mut String::new()).await.unwrap();
            stream.write_all(b"{\"another\": 1}\n").await.unwrap();
        };
        let (ended, ()) = tokio::join!(place.run(args), answered);
        assert_eq!(ended.code, Some(69), "{args:?}: {ended:?}");
        assert!(ended.err.contains("another version"), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn a_store_in_use_by_another_command_is_left_to_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let rest = "timeout = \"1h\"\nstart = \"beginning\"\nchanges = [\"baseline\"]";
    place.configure(&Place::webhook_sink("hangs", &url, rest));
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    let mut once = place.background(["once"]);
    let _connection = listener.accept().await.unwrap();
    let asked = workspace.sandbox.requests().total;
    let told = format!("process {} holds the store", once.pid());
    let reasons = place.status().await["reasons"].to_string();
    assert!(reasons.contains(&told) && !reasons.contains("no daemon is running"), "{reasons}");
    for args in [&["search", "x"][..], &["custom-fields", "--refresh"], &["backfill", "customers"]]
    {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(75), "{args:?}: {ended:?}");
        assert!(ended.err.contains(&told), "{args:?}: {ended:?}");
    }
    assert_eq!(workspace.sandbox.requests().total, asked, "beside the budget of the one at work");
    once.signal(Signal::TERM);
    assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
}

#[tokio::test]
async fn check_reports_a_configuration_problem_as_json_too() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("[sinks.audit]\ntype = \"file\"\n");
    let ended = place.run(["check", "--json"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let found = ended.json();
    assert_eq!((&found[0]["what"], &found[0]["ok"]), (&json!("config"), &json!(false)), "{found}");
    assert!(found[0]["said"].as_str().unwrap().contains("needs `path`"), "{found}");
}

#[tokio::test]
async fn arguments_out_of_range_are_usage_errors() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let asked = workspace.sandbox.requests().total;
    let long = "x".repeat(101);
    for args in [
        &["search", ""][..],
        &["search", &long],
        &["records", "leads", "--limit", "18446744073709551615"],
        &["log", "--limit", "18446744073709551615"],
        &["simulate", "--rates", "5"],
        &["simulate", "--rates", "1,2,3,4,5,6,7"],
    ] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
    }
    assert_eq!(workspace.sandbox.requests().total, asked);
    let ended = place.run(["simulate", "--rates", "5"]).await;
    assert!(ended.err.contains("jobs, customers, leads"), "{ended:?}");
}

#[tokio::test]
async fn a_simulation_without_arrivals_says_why() {
    let place = Place::new("https://unused.example.com/api", "unused");
    let ended = place.run(["simulate", "--shop", "quiet", "--hours", "3"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("opens at 9") && ended.err.lines().count() == 1, "{ended:?}");
    let ended = place.run(["simulate", "--shop", "quiet", "--hours", "11", "--json"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

#[tokio::test]
async fn the_demo_overwrites_only_its_own_files() {
    let place = Place::new("https://real.example.com/api", "real-key");
    let before = place.files();
    let dir = place.path("").display().to_string();
    let ended = place.run(["demo", "--for", "1s", "--dir", &dir]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert_eq!(place.files(), before);
    place.write("config.toml", "# Made by `shopmirror demo`: an earlier one\n");
    let demo = place.follow(["demo", "--dir", &dir]);
    let runs = || demo.lines().iter().any(|line| line.contains("A simulated shop is running"));
    wait_until("it runs", runs).await;
}

#[tokio::test]
async fn every_dead_letter_can_be_shown_and_a_cut_list_says_so() {
    let gone = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    gone.always(Answer::status(410));
    place.configure(&Place::webhook_sink(
        "erp",
        &gone.url("/"),
        "start = \"beginning\"\nchanges = [\"baseline\"]",
    ));
    assert_eq!(place.run(["once"]).await.code, Some(75));
    let store = rusqlite::Connection::open(place.store()).unwrap();
    store
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001) \
             INSERT INTO changes (seq, event_id, route, record_id, kind, version, observed_at, body) \
             SELECT 10000 + i, 'evt_' || i, 'leads', 'x' || i, 'created', 1, '2026-01-01T00:00:00Z', '{}' FROM n; \
             INSERT INTO deliveries (sink, seq, route, record_id, state, attempts, since) \
             SELECT 'erp', seq, route, record_id, 'dead', 1, observed_at FROM changes WHERE seq > 10000;",
        )
        .unwrap();
    let ended = place.run(["dead", "erp", "show", "20001", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["delivery"]["seq"], 20_001);
    let ended = place.run(["dead", "erp"]).await;
    assert!(ended.err.contains("only the oldest 10000 of 10001"), "{}", ended.err);
    // Showing one reads none of the others, not even one that cannot be read.
    let unreadable = "UPDATE deliveries SET last_error = CAST(x'ff' AS TEXT) WHERE seq = 10002";
    store.execute_batch(unreadable).unwrap();
    let ended = place.run(["dead", "erp", "show", "20001", "--json"]).await;
    assert_eq!(ended.json()["delivery"]["seq"], 20_001);
    // Its endpoint is gone: nothing is delivered until its url is corrected.
    let _daemon = place.started().await;
    place.status_when("it is disabled again", |s| s["sinks"][0]["state"] == "disabled").await;
    let ended = place.run(["dead", "erp", "redrive", "10001"]).await;
    assert!(ended.out.contains("after its url is corrected"), "{ended:?}");
}

#[tokio::test]
async fn a_trace_cannot_control_a_terminal() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.add(Route::Leads, json!({"id": "a\u{1b}[31m\u{9b}\u{202e}", "name": "x"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let ended = place.run(["trace"]).await;
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 2), "{ended:?}");
    assert!(ended.out.ends_with(",leads,a\\u{1b}[31m\\u{9b}\\u{202e}\n"), "{ended:?}");
}

#[tokio::test]
async fn a_malformed_log_filter_is_reported() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let ended = place.run_by(&["env", "SHOPMIRROR_LOG=a=b=c"], &["once"]).await;
    assert!(ended.err.contains("SHOPMIRROR_LOG cannot be used"), "{ended:?}");
}

#[tokio::test]
async fn a_failed_search_has_the_same_exit_code_with_a_daemon_and_without() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for (kind, code) in [
        (FaultKind::Status { code: 404, retry_after: None }, 78),
        (FaultKind::Status { code: 503, retry_after: None }, 75),
        (FaultKind::Html, 65),
    ] {
        workspace.sandbox.clear_faults();
        let route = Some("search".to_owned());
        workspace.sandbox.fault(Fault { route, kind, count: u32::MAX });
        assert_eq!(place.run(["search", "x"]).await.code, Some(code), "alone");
        let daemon = place.started().await;
        place.status_when("the daemon answers", |status| status["running"] == true).await;
        assert_eq!(place.run(["search", "x"]).await.code, Some(code), "with a daemon");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_backfill_of_several_businesses_keeps_to_its_number_of_searches() {
    let options = Options { shop: Shop::Chain, ..Workspace::usual() };
    let workspace = Workspace::of(Options { requests_per_minute: 60_000, ..options }).await;
    workspace.sandbox.pause_growth(true);
    let place = workspace.place();
    place.configure_all(
        "businesses = [1, 2, 3]\n[budget]\nrequests_per_minute = 60000\nreserve = 0\n",
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let shown = place.run(["status"]).await.out;
    let leads: Vec<&str> = shown.lines().filter(|line| line.starts_with(" leads ")).collect();
    // The fourth column is the number of records.
    let counted = leads.iter().filter(|line| line.split_whitespace().nth(3) != Some("-"));
    assert_eq!((leads.len(), counted.count()), (3, 1), "they are counted once: {shown}");
    let ended = place.run(["backfill", "customers", "--most", "2", "--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let asked = workspace.sandbox.requests().log;
    assert_eq!(asked.iter().filter(|request| request.route == "search").count(), 2);
}

#[tokio::test]
async fn a_refresh_without_a_daemon_keeps_within_the_budget() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure_all("[budget]\nrequests_per_minute = 240\nreserve = 0\n");
    let begun = Instant::now();
    let ended = place.run(["custom-fields", "--refresh"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let asked = workspace.sandbox.requests().total;
    assert!(asked > 3, "one for the list and one a form: {asked}");
    // Two may be sent at once, and then one per quarter of a second.
    let least = Duration::from_millis(250) * u32::try_from(asked - 2).unwrap();
    assert!(begun.elapsed() >= least, "{asked} requests in {:?}", begun.elapsed());
}

#[tokio::test]
async fn every_command_has_its_page_in_the_manual() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let program = place.run(["man"]).await;
    let named: Vec<&str> = program
        .out
        .lines()
        .filter_map(|line| line.strip_suffix("(1)")?.split("\\-").nth(1))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let page = place.run(["man", "why"]).await;
    assert!(page.out.contains(".TH shopmirror-why 1"), "{page:?}");
    assert!(page.out.contains("The business (branch), if several are polled"), "{page:?}");
    assert_eq!(place.run(["man", "nothing"]).await.code, Some(64));
}

#[tokio::test]
async fn a_backfill_before_the_first_poll_says_to_poll_first() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let ended = place.run(["backfill", "customers"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(!place.store().exists(), "it made a store");
}

#[tokio::test]
async fn a_sandbox_overwrites_only_its_own_state_file() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    let args = ["sandbox", "--listen", "127.0.0.1:0", "--state", "config.toml"];
    let ended = place.run(args).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
}
