//! `once` ends in order: with a store that fails for one sink, and when it is told to stop.

use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Receiver, Workspace, wait_until};

/// What names the process that has the store; empty when that was closed in order.
fn holder(place: &Place) -> String {
    fs::read_to_string(place.path("mirror.db-lock")).unwrap().trim().to_owned()
}

/// A run waits only two seconds for the store's write lock. A machine that is busy for longer ends it
/// before the test is at its point, so such a test is begun again.
const TRIES: usize = 20;

#[tokio::test]
async fn a_store_error_of_one_sink_lets_the_others_finish_and_the_store_be_closed() {
    let (spoilt, well) = (Receiver::start().await, Receiver::start().await);
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "{}{}",
        Place::webhook_sink("spoilt", &spoilt.url("/"), ""),
        Place::webhook_sink("well", &well.url("/"), "concurrency = 1"),
    ));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let store = place.writer();
    store
        .execute_batch(
            "CREATE TRIGGER spoil BEFORE UPDATE OF position ON sinks WHEN NEW.name = 'spoilt' \
             BEGIN SELECT RAISE(ABORT, 'spoilt on purpose'); END",
        )
        .unwrap();
    drop(store);
    for _ in 0..80 {
        workspace.add(Route::Leads, json!({}));
    }
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(74), "{ended:?}");
    assert!(ended.err.contains("spoilt on purpose"), "{ended:?}");
    assert_eq!(well.received().len(), 80, "the other sink got everything");
    let behind = "SELECT max(seq) - (SELECT position FROM sinks WHERE name = 'well') FROM changes";
    assert_eq!(place.number(behind), 0, "and that was saved");
    assert_eq!(holder(&place), "", "the store was closed in order");
}

#[tokio::test]
async fn an_interrupt_is_obeyed_while_the_store_is_being_opened() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = workspace.sandbox.requests().total;
    // Its row would have to be made first, were the interrupt kept until the store is open.
    place.configure(&Place::file_sink("new", ""));
    for _ in 0..TRIES {
        let mut once = place.background(["once"]);
        let pid = once.pid().to_string();
        let opens = || holder(&place) == pid || !once.is_running();
        wait_until("it opens the store", opens).await;
        if once.is_running() {
            once.signal(Signal::INT);
        }
        assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
        assert_eq!(workspace.sandbox.requests().total, asked, "it did not begin");
        if place.log().contains("interrupted") {
            return;
        }
    }
    panic!("the interrupt is never obeyed: {}", place.log());
}

#[tokio::test]
async fn a_second_signal_waits_for_nothing() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.add(Route::Leads, json!({}));
    // What was polled must be stored before the end in order, which waits for this.
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..TRIES {
        let asked = workspace.asked(Route::Leads);
        let mut once = place.background(["once"]);
        let has_polled = || workspace.asked(Route::Leads) > asked || !once.is_running();
        wait_until("it has something to store", has_polled).await;
        if once.is_running() {
            once.signal(Signal::INT);
            once.signal(Signal::TERM);
        }
        assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
        if place.log().contains("interrupted") {
            return;
        }
    }
    panic!("the signals are never obeyed: {}", place.log());
}
