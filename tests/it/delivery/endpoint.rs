//! Failures that only a process can show: a full disk, a backlog in little memory, single runs.

use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Pages, Place, Receiver, TinyDisk, Workspace, wait_until};

fn names(hook: &Receiver) -> Vec<String> {
    let name = |event: &Value| event["record"]["name"].as_str().unwrap_or_default().to_owned();
    hook.events().iter().map(name).collect()
}

fn count(hook: &Receiver, name: &str) -> usize {
    names(hook).iter().filter(|found| *found == name).count()
}

fn exceptions(place: &Place) -> Vec<Value> {
    place.rows("SELECT state, attempts FROM deliveries ORDER BY seq")
}

#[tokio::test]
async fn a_line_that_does_not_fit_on_the_disk_is_not_refused_when_a_shorter_one_fits() {
    let Some(disk) = TinyDisk::mount() else {
        eprintln!("SKIPPED: a full disk needs the right to mount a tmpfs");
        return;
    };
    let path = disk.path().join("audit.ndjson");
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!("[sinks.audit]\ntype = \"file\"\npath = \"{}\"\n", path.display()));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let written = || fs::read_to_string(&path).unwrap_or_default().lines().count();
    workspace.add(Route::Leads, json!({"name": "Small"}));
    wait_until("the first line is written", || written() == 1).await;
    let ballast = disk.path().join("ballast");
    let _ = fs::write(&ballast, vec![0; 64 * 1024]);
    workspace.add(Route::Leads, json!({"name": "Large".repeat(2000)}));
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({"name": "Small"}));
    place.status_when("it is paused", |status| status["sinks"][0]["state"] == "paused").await;
    assert_eq!(exceptions(&place), [] as [Value; 0]);
    fs::remove_file(&ballast).unwrap();
    wait_until("both are written", || written() == 3).await;
    daemon.stop().await;
}

/// A figure of the process's memory in KiB.
fn memory(pid: u32, figure: &str) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_backlog_of_large_records_is_delivered_in_little_memory() {
    let pages = Pages::start().await;
    let place = pages.place();
    let daemon = place.started().await;
    for note in ["a", "b"] {
        for first in [1, 101, 201] {
            let records: Vec<Value> = (first..first + 100)
                .map(|id| json!({"id": id, "note": note.repeat(70_000)}))
                .collect();
            pages.shown("leads", Value::from(records).to_string()).await;
        }
    }
    pages.shown("leads", "[]").await;
    assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind <> 'gap'"), 600);
    let last = place.number("SELECT max(seq) FROM changes");
    let changes = "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\"]";
    place.configure(&Place::file_sink("audit", changes));
    fs::write(format!("/proc/{}/clear_refs", daemon.pid()), "5").unwrap();
    let before = memory(daemon.pid(), "VmRSS");
    daemon.signal(Signal::HUP);
    wait_until("the sink is done", || place.number("SELECT position FROM sinks") == last).await;
    let grown = memory(daemon.pid(), "VmHWM") - before;
    assert!(grown < 64 * 1024, "{grown} KiB on top of {before}");
    daemon.stop().await;
}

#[tokio::test]
async fn once_delivers_around_a_failing_change_and_a_dead_sink_delays_no_other() {
    let hook = Receiver::start().await;
    let silent = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "{}{}{}",
        Place::webhook_sink("a-silent", &silent.url("/"), "timeout = \"10m\""),
        Place::webhook_sink("hook", &hook.url("/"), "concurrency = 1"),
        Place::file_sink("well", ""),
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    daemon.stop().await;
    hook.refuse("Poison", Answer::status(500));
    for name in ["Good", "Poison", "Good", "Good", "Poison", "Good"] {
        workspace.add(Route::Leads, json!({"name": name}));
    }
    let run = place.run(["once"]);
    let delivered = async {
        wait_until("the others have what they can take", || {
            count(&hook, "Good") == 4 && place.lines("well.ndjson").len() == 6
        })
        .await;
        let parked = [json!(["retrying", 1]), json!(["retrying", 1])];
        wait_until("what fails is parked", || exceptions(&place) == parked).await;
    };
    tokio::select! {
        ended = run => panic!("the silent sink is still asked: {ended:?}"),
        () = delivered => {}
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_single_run_that_waits_for_a_sink() {
    let silent = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::webhook_sink("silent", &silent.url("/"), "timeout = \"10m\""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.add(Route::Leads, json!({}));
    let mut once = place.background(["once"]);
    wait_until("the sink has it", || silent.received().len() == 1).await;
    once.signal(Signal::INT);
    assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
    assert!(place.log().contains("interrupted"), "{}", place.log());
    let lock = fs::read_to_string(place.path("mirror.db-lock")).unwrap();
    assert_eq!(lock, "", "the store was closed in order");
}
