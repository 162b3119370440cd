//! What only a process can show: a backlog in little memory, single runs.

use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Pages, Place, Receiver, Workspace, wait_until};

fn count(hook: &Receiver, name: &str) -> usize {
    hook.events()
        .iter()
        .filter(|event| event["record"]["name"] == name)
        .count()
}

fn exceptions(place: &Place) -> Vec<Value> {
    place.rows("SELECT state FROM _queue WHERE state <> 'ready'")
}

fn memory_kib(pid: u32, figure: &str) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with(figure))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_backlog_of_large_records_is_delivered_in_little_memory() {
    let pages = Pages::start().await;
    let place = pages.place();
    let daemon = place.started().await;
    for note in ["a", "b"] {
        let records = (1..=100).map(|id| json!({"id": id, "note": note.repeat(70_000)}));
        pages
            .shown("leads", records.collect::<Value>().to_string())
            .await;
    }
    pages.shown("leads", "[]").await;
    assert_eq!(
        place.number("SELECT count(*) FROM changes WHERE kind <> 'gap'"),
        200
    );
    let last = place.number("SELECT max(seq) FROM changes");
    let changes = "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\"]";
    place.configure(&Place::file_sink("audit", changes));
    fs::write(format!("/proc/{}/clear_refs", daemon.pid()), "5").unwrap();
    let before = memory_kib(daemon.pid(), "VmRSS");
    daemon.signal(Signal::HUP);
    wait_until("the sink is done", || place.is_delivered(last)).await;
    let grown = memory_kib(daemon.pid(), "VmHWM") - before;
    assert!(grown < 24 * 1024, "{grown} KiB on top of {before}");
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
        // How often they were tried depends on how long the run takes.
        let parked = [json!(["retrying"]), json!(["retrying"])];
        wait_until("what fails is parked", || exceptions(&place) == parked).await;
    };
    tokio::select! {
        ended = run => panic!("the silent sink is still asked: {ended:?}"),
        () = delivered => {}
    }
}
