//! Whose fault a failure is: the endpoint's, one change's own, or nobody's; and what a backlog costs.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::hooked;
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
async fn a_stop_counts_as_a_refusal_of_nothing() {
    let (hook, workspace, place, mut daemon) = hooked("retry = []").await;
    hook.always(Answer::status(503));
    for name in ["First", "Second"] {
        workspace.add(Route::Leads, json!({"name": name}));
    }
    wait_until("the endpoint failed three times", || count(&hook, "First") == 3).await;
    // From here on the change behind is tried first, and the one at fault does not answer.
    hook.refuse("First", Answer::silence());
    hook.always(Answer::status(204));
    wait_until("both are tried", || names(&hook).ends_with(&["Second".into(), "First".into()]))
        .await;
    daemon.signal(Signal::TERM);
    wait_until("it is stopping", || place.log().contains(" stopping")).await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().await.code(), Some(0), "{}", place.log());
    assert_eq!(exceptions(&place), [json!(["retrying", 0])], "{}", place.log());

    hook.forgive();
    let before = count(&hook, "First");
    let _daemon = place.started().await;
    wait_until("it comes again", || count(&hook, "First") > before).await;
    assert_eq!(count(&hook, "Second"), 2);
}

#[tokio::test]
async fn a_change_that_fails_alone_does_not_hold_up_the_next_one() {
    let (hook, workspace, place, _daemon) = hooked("").await;
    hook.refuse("Poison", Answer::status(500));
    workspace.add(Route::Leads, json!({"name": "Poison"}));
    let pause = |status: &Value| status["sinks"][0]["next_attempt_s"].as_f64().unwrap_or_default();
    let status = place.status_when("the pause is long", |status| pause(status) > 8.0).await;
    let begun = Instant::now();
    workspace.add(Route::Leads, json!({"name": "Good"}));
    wait_until("the next one arrives", || count(&hook, "Good") == 1).await;
    let limit = Duration::from_secs_f64(pause(&status) - 2.0);
    assert!(begun.elapsed() < limit, "{:?} of {limit:?}", begun.elapsed());
    wait_until("the first is its own fault", || exceptions(&place) == [json!(["retrying", 1])])
        .await;
}

#[tokio::test]
async fn a_record_that_fails_and_changes_again_does_not_hold_up_others() {
    let (hook, workspace, place, _daemon) = hooked("concurrency = 1").await;
    hook.refuse("Poison", Answer::status(500));
    let id = workspace.add(Route::Leads, json!({"name": "Poison"}));
    workspace.polled(Route::Leads).await;
    workspace.edit(Route::Leads, &id, json!({"name": "Poison again"}));
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({"name": "Good"}));
    wait_until("the good one arrives", || count(&hook, "Good") == 1).await;
    let parked = [json!(["retrying", 1]), json!(["waiting", 0])];
    wait_until("both versions are parked", || exceptions(&place) == parked).await;
    assert_eq!(count(&hook, "Poison again"), 0, "it waits for the one before");
    hook.forgive();
    wait_until("both arrive in order", || count(&hook, "Poison again") == 1).await;
}

#[tokio::test]
async fn many_changes_that_fail_do_not_hold_up_the_next_one() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    for _ in 0..12 {
        workspace.add(Route::Leads, json!({"name": "Poison"}));
    }
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({"name": "Good"}));
    workspace.polled(Route::Leads).await;
    hook.refuse("Poison", Answer::status(500));
    let rest = "start = \"beginning\"\nconcurrency = 16";
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), rest));
    daemon.signal(Signal::HUP);
    wait_until("the good one arrives", || count(&hook, "Good") == 1).await;
    workspace.add(Route::Leads, json!({"name": "Late"}));
    wait_until("the late one arrives", || count(&hook, "Late") == 1).await;
}

#[tokio::test]
async fn a_disk_with_room_for_the_next_line_alone_is_no_fault_of_the_one_before() {
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
    let pause = |status: &Value| status["sinks"][0]["next_attempt_s"].as_f64().unwrap_or_default();
    // So long only after the fourth attempt.
    place
        .status_when("it gave up or goes on", |status| {
            pause(status) > 4.0 || !exceptions(&place).is_empty()
        })
        .await;
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
async fn a_single_run_passes_what_fails_alone_and_a_dead_sink_slows_no_other() {
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
    let ended = place.run_by(&["timeout", "--preserve-status", "-s", "INT", "5"], &["once"]).await;
    assert!(ended.err.contains("interrupted"), "{ended:?}");
    let lock = fs::read_to_string(place.path("mirror.db-lock")).unwrap();
    assert_eq!(lock, "", "the store was closed in order");
}

#[tokio::test]
async fn a_large_change_that_fails_alone_does_not_hold_up_the_next_one() {
    let pages = Pages::start().await;
    let place = pages.place();
    let (program, taken) = (place.path("take"), place.path("taken"));
    place.write("take", "if grep -q Poison; then exit 75; fi; echo taken >> \"$1\"\n");
    place.configure(&format!(
        "[sinks.label]\ntype = \"command\"\ncommand = [\"/bin/sh\", \"{}\", \"{}\"]\n",
        program.display(),
        taken.display(),
    ));
    let daemon = place.started().await;
    pages.shown("leads", json!([{"id": 1}]).to_string()).await;
    let poison = json!({"id": 2, "name": "Poison", "note": "x".repeat(5 << 20)});
    pages.shown("leads", json!([poison, {"id": 1}]).to_string()).await;
    pages.shown("leads", json!([{"id": 3}, {"id": 1}]).to_string()).await;
    wait_until("the next one arrives", || taken.exists()).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_wait_refuses_no_change_by_it() {
    let (hook, workspace, place, _daemon) = hooked("retry = []").await;
    hook.refuse("Busy", Answer::status(429).header("retry-after", "1"));
    for name in ["Busy", "Good"] {
        workspace.add(Route::Leads, json!({"name": name}));
        workspace.polled(Route::Leads).await;
    }
    wait_until("the other passes it", || count(&hook, "Good") == 1).await;
    let before = count(&hook, "Busy");
    wait_until("it is tried again", || count(&hook, "Busy") > before + 1).await;
    assert_eq!(exceptions(&place), [json!(["retrying", 0])], "{}", place.log());
    hook.forgive();
    wait_until("nothing is left of it", || exceptions(&place).is_empty()).await;
}
