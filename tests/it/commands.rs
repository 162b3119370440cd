//! How commands end: the code, what is said and where, and that saying it is never what fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use shopmirror::sandbox::Route;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::support::{Place, Workspace, wait_until};

/// Begins the program with a standard error that takes nothing.
const MUTE: [&str; 4] = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];

#[tokio::test]
async fn a_daemon_whose_log_cannot_be_written_goes_on() {
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
async fn a_command_that_cannot_say_what_is_wrong_ends_with_the_code_for_it() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    assert_eq!(place.run_by(&MUTE, &["once"]).await.code, Some(75));
    assert_eq!(place.run_by(&MUTE, &["show", "leads", "1"]).await.code, Some(65));
}

#[tokio::test]
async fn once_says_a_failure_that_every_route_met_once() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
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
        place.log().matches("interrupted: the next run").count() == 2
    })
    .await;
}

#[tokio::test]
async fn the_cause_of_a_failure_is_said_once() {
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
    assert!(ended.err.contains("longer than"), "{ended:?}");
}

/// Somebody else on this machine, who is in no group; only root can become him.
const STRANGER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[tokio::test]
async fn who_may_not_read_or_write_is_told_so_and_what_to_do() {
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
    assert!(ended.err.contains("join the group"), "{ended:?}");
}

#[test]
fn a_configuration_in_a_folder_that_may_not_be_read_is_not_called_absent() {
    // An /etc of its own with the folder as the shipped files make it, seen by somebody else.
    let script = "mount -t tmpfs tmpfs /etc && mkdir -m \"$1\" /etc/shopmirror && \
        echo wrong >/etc/shopmirror/config.toml && cd \"$2\" && \
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$3\" status";
    let closed = tempfile::tempdir().unwrap();
    let closed = closed.path().to_str().unwrap();
    for (mode, folder, word) in [
        ("0750", "/", "join the group"),
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
async fn a_daemon_that_does_not_answer_is_not_called_absent() {
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
async fn an_answer_of_another_version_is_the_daemons_fault() {
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
async fn a_store_in_use_by_another_command_is_neither_stopped_nor_asked_around() {
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
