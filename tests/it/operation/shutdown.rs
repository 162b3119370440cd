//! Stopping: in order and within ten seconds, whatever a sink or the workspace does.

use rustix::process::Signal;
use sandbox::{FaultKind, Route};

use crate::support::{Place, Receiver, Workspace, wait_until};

/// A daemon waits only some seconds for the store's write lock, or for a delivery when it stops. A machine
/// that is busy for longer ends the wait before the test is at its point, so such a test is begun again.
const TRIES: usize = 20;

/// A daemon whose only sink has taken a change and does not answer.
async fn hanging() -> (Receiver, Workspace, Place, crate::support::Daemon) {
    let hook = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), "timeout = \"10m\""));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("the sink hangs", || hook.received().len() == 1).await;
    (hook, workspace, place, daemon)
}

#[tokio::test]
async fn a_hanging_sink_does_not_hold_up_a_stop_and_gets_the_change_again() {
    let (hook, _workspace, place, mut daemon) = hanging().await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait_as_promised().await.code(), Some(0), "{}", place.log());
    hook.release();
    let _daemon = place.daemon();
    wait_until("it comes again", || hook.events().len() == 2).await;
    let events = hook.events();
    assert_eq!(events[0], events[1], "under the same event id");
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_in_order() {
    let (_hook, _workspace, place, mut daemon) = hanging().await;
    daemon.signal(Signal::TERM);
    wait_until("it is stopping", || place.log().contains(" stopping")).await;
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    assert!(!place.log().contains("takes too long"), "it did not wait: {}", place.log());
    let lock = std::fs::read_to_string(place.path("mirror.db-lock")).unwrap();
    assert_eq!(lock, "", "the store was closed in order");
}

#[tokio::test]
async fn a_poll_under_way_does_not_hold_up_a_stop() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    for route in Route::ALL {
        workspace.fault(Some(route), FaultKind::Slow { ms: 600_000 }, u32::MAX);
    }
    let mut daemon = place.started().await;
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait_as_promised().await.code(), Some(0), "{}", place.log());
    assert!(!place.log().contains("did not end in time"), "the poll was cut: {}", place.log());
}

#[tokio::test]
async fn a_delivery_under_way_is_finished_before_the_end() {
    let (hook, workspace, place, mut daemon) = hanging().await;
    daemon.signal(Signal::TERM);
    wait_until("it is stopping", || place.log().contains(" stopping")).await;
    hook.release();
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    let _daemon = place.daemon();
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("the next one comes", || hook.events().len() == 2).await;
    let events = hook.events();
    assert_ne!(events[0], events[1], "the first was taken before the end");
}

/// The changes that arrived, each stop of the daemon in the middle of a delivery; `None` if the machine
/// was so busy that a delivery was cut short, which repeats it.
async fn arrived_beside_stops() -> Option<Vec<i64>> {
    let hook = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let rest = "concurrency = 4\ntimeout = \"10m\"";
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), rest));
    let behind = "SELECT count(*) FROM sinks WHERE position < (SELECT max(seq) FROM changes)";
    let stops = || place.log().matches(" stopping").count();
    let mut left = 0;
    for _ in 0..3 {
        let mut daemon = place.started().await;
        hook.answer(left);
        workspace.all_polled().await;
        wait_until("the sink is done", || place.number(behind) == 0).await;
        let (before, stopped) = (hook.received().len(), stops());
        workspace.sandbox.burst(Route::Payments, 20);
        hook.answer(7);
        wait_until("four are under way", || hook.received().len() == before + 11).await;
        daemon.signal(Signal::TERM);
        wait_until("it is stopping", || stops() > stopped).await;
        hook.answer(4);
        assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
        if place.log().contains("takes too long") {
            return None;
        }
        left = 9;
    }
    let daemon = place.started().await;
    hook.answer(left);
    workspace.all_polled().await;
    wait_until("the sink is done", || place.number(behind) == 0).await;
    daemon.stop().await;
    Some(hook.events().iter().map(|event| event["seq"].as_i64().unwrap()).collect())
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_delivery_repeats_nothing() {
    for _ in 0..TRIES {
        if let Some(mut arrived) = arrived_beside_stops().await {
            let all = arrived.len();
            arrived.sort_unstable();
            arrived.dedup();
            assert_eq!((arrived.len(), all), (60, 60));
            return;
        }
    }
    panic!("a delivery is always cut short");
}

/// A daemon that waits for the store, whose write lock another program holds for the moment; `None` if
/// its wait was over too soon.
async fn opening(place: &Place) -> Option<(rusqlite::Connection, crate::support::Daemon)> {
    let other = place.writer();
    // The daemon has to make the views again, and waits for the lock.
    other.execute_batch("DELETE FROM meta WHERE name = 'views'; BEGIN IMMEDIATE").unwrap();
    let mut daemon = place.daemon();
    let pid = daemon.pid().to_string();
    let holder = || std::fs::read_to_string(place.path("mirror.db-lock")).unwrap();
    wait_until("it opens the store", || holder().trim() == pid || !daemon.is_running()).await;
    daemon.is_running().then_some((other, daemon))
}

#[tokio::test]
async fn a_stop_while_the_store_is_being_opened_is_obeyed_before_it_is_open() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for _ in 0..TRIES {
        let Some((_other, mut daemon)) = opening(&place).await else { continue };
        daemon.signal(Signal::TERM);
        let code = daemon.wait().await.code();
        assert!(!place.log().contains(" running "), "{}", place.log());
        if code == Some(0) {
            return;
        }
    }
    panic!("the stop is never obeyed: {}", place.log());
}

#[tokio::test]
async fn a_reload_while_the_store_is_being_opened_is_done_when_it_is() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    for _ in 0..TRIES {
        place.configure("");
        let Some((other, mut daemon)) = opening(&place).await else { continue };
        place.configure(&Place::file_sink("audit", ""));
        daemon.signal(Signal::HUP);
        other.execute_batch("COMMIT").unwrap();
        let done = || place.log().contains("sinks=1") || !daemon.is_running();
        wait_until("the newer one runs", done).await;
        if daemon.is_running() {
            daemon.stop().await;
            return;
        }
    }
    panic!("the store is never opened: {}", place.log());
}
