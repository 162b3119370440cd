//! Another program holds the store's write lock: the daemon waits, answers meanwhile, ends when
//! told to, and goes on by itself.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::Signal;
use sandbox::Route;
use serde_json::Value;

use crate::support::{Daemon, Place, Receiver, Workspace, wait_until};

/// Sinks whose saving waits for the lock as well.
const SINKS: usize = 4;

/// A daemon with changes to store and sinks with positions to save, and the one who is in the way.
async fn locked() -> (Vec<Receiver>, Workspace, Place, Daemon, Connection) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mut hooks = Vec::new();
    let mut sinks = String::new();
    for n in 0..SINKS {
        let hook = Receiver::start_held().await;
        // Longer than this test holds an answer.
        let patient = "timeout = \"10m\"";
        sinks.push_str(&Place::webhook_sink(&format!("hook{n}"), &hook.url("/"), patient));
        hooks.push(hook);
    }
    place.configure(&sinks);
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("each sink has it", || hooks.iter().all(|h| h.received().len() == 1)).await;
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for hook in &hooks {
        hook.release();
    }
    for route in Route::ALL {
        workspace.sandbox.burst(route, 5);
    }
    (hooks, workspace, place, daemon, other)
}

fn states(status: &Value) -> Vec<&str> {
    status["pollers"].as_array().unwrap().iter().map(|p| p["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_daemon_answers_while_another_program_holds_the_write_lock_and_then_goes_on() {
    let (hooks, _workspace, place, daemon, other) = locked().await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        place.status_when("the daemon answers", |status| status["running"] == true).await;
    }
    let all = |status: &Value| states(status) == ["store_locked"; 6];
    place.status_when("every poller waits", all).await;
    other.execute_batch("ROLLBACK").unwrap();
    let all = "SELECT count(*) FROM changes WHERE kind = 'created'";
    wait_until("everything is stored", || place.number(all) == 31).await;
    let done = "SELECT count(*) FROM sinks WHERE position = (SELECT max(seq) FROM changes)";
    wait_until("and delivered", || place.number(done) == SINKS as i64).await;
    assert!(hooks.iter().all(|hook| hook.received().len() == 31), "nothing came twice");
    daemon.stop().await;
}

#[tokio::test]
async fn a_write_lock_held_by_another_program_does_not_hold_up_a_stop() {
    let (_hooks, workspace, place, mut daemon, other) = locked().await;
    daemon.signal(Signal::TERM);
    daemon.wait_as_promised().await;
    drop(other);
    let daemon = place.started().await;
    workspace.all_polled().await;
    assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'created'"), 31);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_and_a_start_wait_for_no_write_lock() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    daemon.signal(Signal::HUP);
    wait_until("it runs on", || place.log().matches(" running ").count() == 2).await;
    daemon.signal(Signal::TERM);
    daemon.wait().await;
    let daemon = place.started().await;
    other.execute_batch("ROLLBACK").unwrap();
    workspace.sandbox.burst(Route::Leads, 3);
    wait_until("it stores and delivers", || place.lines("audit.ndjson").len() == 3).await;
    daemon.stop().await;
}
