//! Another program holds the store's write lock: the daemon waits, answers, reloads and stops
//! meanwhile.

use rustix::process::Signal;
use sandbox::Route;
use serde_json::Value;

use crate::support::{Place, Receiver, Workspace, wait_until};

#[tokio::test]
async fn a_write_lock_held_by_another_program_holds_up_no_answer_no_reload_and_no_stop() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (mut hooks, mut sinks) = (Vec::new(), String::new());
    for n in 0..4 {
        let hook = Receiver::start_held().await;
        // Longer than this test holds an answer.
        let patient = "timeout = \"10m\"";
        sinks.push_str(&Place::webhook_sink(
            &format!("hook{n}"),
            &hook.url("/"),
            patient,
        ));
        hooks.push(hook);
    }
    place.configure(&sinks);
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("each sink has it", || {
        hooks.iter().all(|h| h.received().len() == 1)
    })
    .await;
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    hooks.iter().for_each(Receiver::release);
    for route in Route::ALL {
        workspace.sandbox.burst(route, 5);
    }
    let all_wait = |status: &Value| {
        let pollers = status["pollers"].as_array().unwrap();
        status["running"] == true && pollers.iter().all(|p| p["state"] == "store_locked")
    };
    place
        .status_when("the daemon answers, and every poller waits", all_wait)
        .await;
    daemon.signal(Signal::HUP);
    wait_until("it runs on", || {
        place.log().matches(" running ").count() == 2
    })
    .await;
    other.execute_batch("ROLLBACK").unwrap();
    let stored = || place.number("SELECT count(*) FROM changes WHERE kind = 'created'");
    wait_until("everything is stored", || stored() == 31).await;
    let done = "SELECT count(*) FROM _sinks WHERE position = (SELECT max(seq) FROM changes)";
    wait_until("and delivered", || place.number(done) == 4).await;

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    workspace.sandbox.burst(Route::Leads, 5);
    let waits = |status: &Value| {
        status["pollers"]
            .as_array()
            .unwrap()
            .iter()
            .any(|p| p["state"] == "store_locked")
    };
    place
        .status_when("it waits for the lock again", waits)
        .await;
    daemon.signal(Signal::TERM);
    daemon.wait().await;

    // A start waits for it, and can be stopped or given another configuration.
    let waiting = || place.log().matches("could not open the sinks").count();
    place.configure(&Place::file_sink("wrong", ""));
    let daemon = place.daemon();
    wait_until("a start waits for the lock", || waiting() == 1).await;
    daemon.stop().await;
    let daemon = place.daemon();
    wait_until("another start waits for it", || waiting() == 2).await;
    place.configure(&Place::file_sink("right", ""));
    daemon.signal(Signal::HUP);
    wait_until("the configuration is read again", || {
        place.log().ends_with("reloading\n")
    })
    .await;
    other.execute_batch("ROLLBACK").unwrap();
    wait_until("nothing was lost", || stored() == 36).await;
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    assert_eq!(
        place.number("SELECT count(*) FROM _sinks WHERE name IN ('right', 'wrong')"),
        1
    );
    daemon.stop().await;
}
