//! The end of the daemon: it comes in order whatever a sink, the workspace or the log's reader
//! does, and repeats no delivery that was not cut short.

use std::io::{PipeReader, PipeWriter, Write};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;

use crate::support::{Pages, Place, Receiver, Workspace, wait_until};

const CUT_SHORT: &str = "a delivery takes too long";

#[tokio::test]
async fn a_hanging_sink_and_a_hanging_poll_do_not_hold_up_a_stop() {
    let (hook, pages) = (Receiver::start_held().await, Pages::start().await);
    let place = pages.place();
    place.configure(&Place::webhook_sink(
        "hook",
        &hook.url("/"),
        "timeout = \"10m\"",
    ));
    let mut daemon = place.started().await;
    pages.polled("leads").await;
    pages.show("leads", json!([{"id": 1, "name": "Ada"}]).to_string());
    wait_until("the sink hangs", || hook.received().len() == 1).await;
    let _held = pages.hold_next("leads");
    pages.held("leads").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    assert!(place.log().contains(CUT_SHORT), "{}", place.log());

    hook.release();
    let daemon = place.daemon();
    wait_until("the change comes again", || hook.events().len() == 2).await;
    let events = hook.events();
    assert_eq!(events[0], events[1], "under the same event id");
    daemon.stop().await;
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_in_order() {
    let hook = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink(
        "hook",
        &hook.url("/"),
        "timeout = \"10m\"",
    ));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("the sink hangs", || hook.received().len() == 1).await;
    daemon.signal(Signal::TERM);
    wait_until("it is stopping", || place.log().contains(" stopping")).await;
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    let log = std::fs::metadata(place.path("mirror.db-wal")).unwrap();
    assert_eq!(log.len(), 0, "the store was closed in order");
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_delivery_repeats_nothing() {
    let hook = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let rest = "concurrency = 4\ntimeout = \"10m\"";
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), rest));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Payments, 20);
    hook.answer(7);
    wait_until("four are under way", || hook.received().len() == 11).await;
    daemon.signal(Signal::TERM);
    wait_until("it is stopping", || place.log().contains(" stopping")).await;
    hook.release();
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    let daemon = place.started().await;
    let behind = "SELECT (SELECT count(*) FROM _sinks WHERE position < (SELECT max(seq) FROM changes)) \
                  + (SELECT count(*) FROM _queue)";
    wait_until("the sink is done", || place.number(behind) == 0).await;
    daemon.stop().await;
    let mut arrived: Vec<i64> = hook
        .events()
        .iter()
        .map(|event| event["seq"].as_i64().unwrap())
        .collect();
    let all = arrived.len();
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived.len(), 20);
    // A machine that is busy for seconds may cut a delivery short, which repeats it.
    assert!(
        all == 20 || place.log().contains(CUT_SHORT),
        "{all} arrived: {}",
        place.log()
    );
}

/// A pipe that takes nothing more, because nobody reads it.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[tokio::test]
async fn a_standard_error_that_nobody_reads_stops_no_poll_no_delivery_and_no_stop() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), ""));
    let (_reader, writer) = full_pipe();
    let mut daemon = place.daemon_saying_to(writer);
    workspace.all_polled().await;
    daemon.signal(Signal::HUP);
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("the change arrives", || hook.received().len() == 1).await;
    place
        .status_when("it answers", |status| status["health"] == "ok")
        .await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().await.code(), Some(0));
}
