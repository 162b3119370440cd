//! A standard error that nobody reads: nothing waits for it.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use sandbox::Route;

use crate::support::{Place, Receiver, Workspace, wait_until};

/// A pipe that takes nothing more before it is read, and how much it holds.
fn full_pipe() -> (PipeReader, PipeWriter, usize) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    let mut held = 0;
    while let Ok(written) = writer.write(&[b'\n'; 4096]) {
        held += written;
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer, held)
}

#[tokio::test]
async fn a_standard_error_that_nobody_reads_stops_no_poll_and_no_delivery() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), ""));
    let (_reader, writer, _) = full_pipe();
    let mut daemon = place.daemon_saying_to(writer);
    workspace.all_polled().await;
    daemon.signal(Signal::HUP);
    workspace.sandbox.burst(Route::Leads, 1);
    wait_until("the change arrives", || hook.received().len() == 1).await;
    place.status_when("it answers", |status| status["health"] == "ok").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().await.code(), Some(0));
}

#[tokio::test]
async fn lines_that_waited_for_a_reader_come_in_their_order() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("");
    let (mut reader, writer, held) = full_pipe();
    let mut daemon = place.daemon_saying_to(writer);
    workspace.all_polled().await;
    // All that is said up to here waits.
    place.configure(&Place::file_sink("audit", ""));
    daemon.signal(Signal::HUP);
    place.status_when("the reload is done", |status| status["sinks"][0]["name"] == "audit").await;
    let is_empty = Arc::new(AtomicBool::new(false));
    let emptied = is_empty.clone();
    let reading = tokio::task::spawn_blocking(move || {
        reader.read_exact(&mut vec![0; held]).unwrap();
        emptied.store(true, Ordering::Relaxed);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        said
    });
    // The end of the process waits for a reader by a second only.
    wait_until("there is room again", || is_empty.load(Ordering::Relaxed)).await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().await.code(), Some(0));
    let said = reading.await.unwrap();
    let waited = ["sinks=0", "reloading", "sinks=1"].map(|word| said.find(word));
    assert!(waited.iter().all(Option::is_some) && waited.is_sorted(), "{said}");
    // On a busy machine the last line may come too late.
    assert!(said.find("stopping").is_none_or(|place| Some(place) > waited[2]), "{said}");
}

#[tokio::test]
async fn a_run_that_cannot_start_ends_although_nobody_reads_why() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("[store]\nlog_retention = \"never mind\"\n");
    let (_reader, writer, _) = full_pipe();
    let mut daemon = place.daemon_saying_to(writer);
    assert_eq!(daemon.wait().await.code(), Some(78));
}
