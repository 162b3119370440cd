//! A program that takes batches, and everything that may happen to a sink meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sandbox::Route;
use serde_json::{Value, json};

use super::{assert_verified, make_due, reload};
use crate::support::{Daemon, Place, Workspace, wait_until};

/// Takes its batch as a whole: what it was given is in `got` and the number of changes in `runs`. With the
/// file `strict` it refuses a batch with `Parked` in it; with `hold` it waits, before it takes anything, and
/// with `hold-after` before it ends. It ends also when the folder is gone.
const PROGRAM: &str = "cd \\\"$1\\\" || exit 75; input=$(cat); \
    [ -e strict ] && case \\\"$input\\\" in *Parked*) exit 1;; esac; \
    : > begun; while [ -e hold ]; do sleep 0.02; done; \
    printf '%s\\\\n' \\\"$input\\\" >> got; printf '%s\\\\n' \\\"$input\\\" | wc -l >> runs; \
    while [ -e hold-after ]; do sleep 0.02; done";

/// The sink `label` with this program, which may wait for longer than a test does.
fn sink(place: &Place, rest: &str) -> String {
    let folder = place.path("");
    format!(
        "[sinks.label]\ntype = \"command\"\nretry = [\"1h\", \"1h\"]\ntimeout = \"10m\"\n\
         command = [\"/bin/sh\", \"-c\", \"{PROGRAM}\", \"sh\", \"{}\"]\n{rest}\n",
        folder.display()
    )
}

fn got(place: &Place) -> Vec<Value> {
    place.lines("got")
}

/// How many changes each run was given; a run writes its number when `got` holds its whole batch.
fn runs(place: &Place) -> Vec<usize> {
    let text = fs::read_to_string(place.path("runs")).unwrap_or_default();
    // A line being written has no end yet.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// How often each event id was taken.
fn times(place: &Place) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for event in got(place) {
        *times.entry(event["event_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    times
}

/// The event ids of the log that fit the condition.
fn stored(place: &Place, condition: &str) -> BTreeSet<String> {
    let sql = format!(
        "SELECT event_id FROM changes WHERE kind IN ('created', 'updated') AND {condition}"
    );
    place.rows(&sql).iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

/// Asserts that exactly these were taken, each as often as `most` allows, in order per record.
fn assert_taken(place: &Place, wanted: &BTreeSet<String>, most: usize) {
    let times = times(place);
    let taken: BTreeSet<String> = times.keys().cloned().collect();
    assert_eq!(taken, *wanted);
    let more: Vec<_> = times.iter().filter(|(_, count)| **count > most).collect();
    assert!(more.is_empty(), "taken more than {most} times: {more:?}");
    let mut newest: BTreeMap<(String, String), i64> = BTreeMap::new();
    for event in got(place) {
        let record = (event["route"].to_string(), event["record_id"].to_string());
        let version = event["version"].as_i64().unwrap();
        let before = newest.insert(record, version);
        assert!(most > 1 || before < Some(version), "after version {before:?}: {event}");
    }
}

fn number(place: &Place, column: &str) -> i64 {
    place.number(&format!("SELECT {column} FROM sinks WHERE name = 'label'"))
}

async fn all_passed(place: &Place) {
    let last = || place.number("SELECT max(seq) FROM changes");
    wait_until("all is done", || {
        number(place, "position") == last() && number(place, "retrying") == 0
    })
    .await;
}

/// Waits until so many payments are stored and the sink is at the end of the log, whatever is parked.
async fn passed(place: &Place, payments: i64) {
    let sql = format!(
        "SELECT position = (SELECT max(seq) FROM changes) AND {payments} = (SELECT count(*) FROM changes \
         WHERE route = 'payments' AND kind = 'created') FROM sinks WHERE name = 'label'"
    );
    wait_until("it is at the end", || place.number(&sql) == 1).await;
}

/// A daemon whose sink with these settings refused a lead, which is parked; and the id of the lead.
async fn with_a_parked_lead(rest: &str) -> (Workspace, Place, Daemon, String) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&sink(&place, rest));
    place.write("strict", "");
    let daemon = place.started().await;
    workspace.all_polled().await;
    let parked = workspace.add(Route::Leads, json!({"name": "Parked"}));
    wait_until("it is parked", || number(&place, "retrying") == 1).await;
    (workspace, place, daemon, parked)
}

/// Has what is parked delivered, and everything else, and stops the daemon.
async fn deliver_all(place: &Place, daemon: Daemon) {
    fs::remove_file(place.path("strict")).unwrap();
    make_due(place);
    daemon.signal(rustix::process::Signal::HUP);
    all_passed(place).await;
    daemon.stop().await;
}

#[tokio::test]
async fn other_settings_of_a_batch_in_the_middle_of_a_backlog_lose_and_double_nothing() {
    let (workspace, place, daemon, parked) = with_a_parked_lead("batch = 7").await;
    workspace.edit(Route::Leads, &parked, json!({"name": "Later"}));
    workspace.polled(Route::Leads).await;
    let mut delivers = true;
    for rest in [
        Some("batch = 50\nformat = \"standard\""),
        Some("batch = 1"),
        None,
        Some("batch = 9\nin_order = \"sink\""),
        // What is filtered out here is filtered for good.
        Some("batch = 20\nroutes = [\"leads\", \"payments\"]"),
        Some("batch = 3\nwhere = { after.name = { exists = true } }"),
        Some("batch = 500"),
    ] {
        let before = got(&place).len();
        workspace.sandbox.burst(Route::Payments, 90);
        if delivers {
            wait_until("some have arrived", || got(&place).len() > before).await;
        } else {
            workspace.polled(Route::Payments).await;
        }
        let text = rest.map(|rest| sink(&place, rest)).unwrap_or_default();
        reload(&place, &daemon, &text).await;
        delivers = rest.is_some_and(|rest| !rest.contains("in_order") && !rest.contains("where"));
    }
    deliver_all(&place, daemon).await;
    let taken: BTreeSet<String> = times(&place).into_keys().collect();
    let all = stored(&place, "1");
    let filtered = i64::try_from(all.difference(&taken).count()).unwrap();
    let others = "SELECT count(*) FROM changes WHERE kind NOT IN ('created', 'updated')";
    assert_eq!(number(&place, "filtered + skipped"), filtered + place.number(others));
    // Nothing but payments was filtered, in the one configuration that asked for names only.
    let payments = stored(&place, "route = 'payments'");
    assert!(all.difference(&taken).all(|id| payments.contains(id)));
    assert_taken(&place, &taken, 1);
    assert!(stored(&place, "route = 'leads'").is_subset(&taken), "the parked ones came");
    let runs = runs(&place);
    assert!(runs.iter().any(|count| *count > 20) && runs.iter().all(|count| *count <= 500));
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_a_batch_repeats_that_batch_and_nothing_else() {
    let (workspace, place, daemon, parked) = with_a_parked_lead("batch = 40").await;
    workspace.sandbox.burst(Route::Payments, 60);
    passed(&place, 60).await;
    let (before, ran) = (got(&place).len(), runs(&place).len());
    // The program has taken a batch and has not ended yet.
    place.write("hold-after", "");
    workspace.sandbox.burst(Route::Payments, 80);
    wait_until("a batch is taken", || runs(&place).len() > ran).await;
    let first: BTreeSet<String> =
        got(&place)[before..].iter().map(|e| e["event_id"].to_string()).collect();
    daemon.kill().await;
    workspace.edit(Route::Leads, &parked, json!({"name": "Later"}));
    fs::remove_file(place.path("hold-after")).unwrap();
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    passed(&place, 140).await;
    deliver_all(&place, daemon).await;
    assert_taken(&place, &stored(&place, "1"), 2);
    let twice: BTreeSet<String> = times(&place)
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(id, _)| json!(id).to_string())
        .collect();
    assert_eq!(twice, first, "the batch in hand, and no other change");
    assert!(first.len() <= 40, "{}", first.len());
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_held_flood_of_batches_is_released_and_dropped_with_a_parked_change_beside_it() {
    let (workspace, place, daemon, _) = with_a_parked_lead("batch = 10\nhold_above = 15").await;
    let held = "SELECT gate = 'held' FROM sinks";
    workspace.sandbox.burst(Route::Payments, 40);
    wait_until("the flood is held", || place.number(held) == 1).await;
    assert_eq!(got(&place).len(), 0);
    // What was parked before is still delivered while the rest is held, and another batch size holds on.
    fs::remove_file(place.path("strict")).unwrap();
    make_due(&place);
    reload(&place, &daemon, &sink(&place, "batch = 25\nhold_above = 15")).await;
    wait_until("the parked one comes", || number(&place, "retrying") == 0).await;
    assert_eq!((place.number(held), got(&place).len()), (1, 1));
    let released = place.run(["sinks", "release", "label"]).await;
    assert_eq!(released.code, Some(0), "{released:?}");
    all_passed(&place).await;
    assert_eq!(got(&place).len(), 41);
    workspace.sandbox.burst(Route::Payments, 30);
    wait_until("the next flood is held", || place.number(held) == 1).await;
    workspace.polled(Route::Payments).await;
    let dropped = place.run(["sinks", "release", "label", "--skip"]).await;
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    let last = workspace.add(Route::Leads, json!({"name": "Last"}));
    let is_last = |event: &Value| event["record_id"] == last;
    wait_until("new ones come", || got(&place).iter().any(is_last)).await;
    all_passed(&place).await;
    daemon.stop().await;
    assert_eq!(got(&place).len(), 42, "what was dropped stays away");
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_record_that_is_forgotten_while_its_batch_is_under_way_comes_no_more() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&sink(
        &place,
        "batch = 50\nchanges = [\"created\", \"updated\", \"forgotten\"]",
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    place.write("strict", "");
    let parked = workspace.add(Route::Leads, json!({"name": "Parked"}));
    wait_until("it is parked", || number(&place, "retrying") == 1).await;
    place.write("hold", "");
    let _ = fs::remove_file(place.path("begun"));
    let early = workspace.add(Route::Leads, json!({"name": "Early"}));
    wait_until("a batch is under way", || place.path("begun").exists()).await;
    // Stored behind the batch in hand.
    let late = workspace.add(Route::Leads, json!({"name": "Late"}));
    let count = "SELECT count(*) FROM changes WHERE kind = 'created'";
    wait_until("all are stored", || place.number(count) == 3).await;
    for id in [&parked, &early, &late] {
        let forgotten = place.run(["forget", "leads", id]).await;
        assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    }
    fs::remove_file(place.path("hold")).unwrap();
    all_passed(&place).await;
    daemon.stop().await;
    let taken: Vec<(String, String)> = got(&place)
        .iter()
        .map(|event| {
            (
                event["record_id"].as_str().unwrap().to_owned(),
                event["kind"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let of = |id: &str| -> Vec<&str> {
        taken.iter().filter(|(record, _)| record == id).map(|(_, kind)| kind.as_str()).collect()
    };
    assert_eq!(of(&early), ["created", "forgotten"], "{taken:?}");
    assert_eq!((of(&late), of(&parked)), (vec!["forgotten"], vec!["forgotten"]), "{taken:?}");
    assert_verified(&place).await;
}

#[tokio::test]
async fn a_replay_in_batches_leaves_out_what_is_parked_and_changes_no_count() {
    let (workspace, place, daemon, parked) = with_a_parked_lead("batch = 20").await;
    workspace.sandbox.burst(Route::Payments, 70);
    passed(&place, 70).await;
    let delivered = number(&place, "delivered");
    let begun = place.run(["replay", "label", "--rate", "1000/s"]).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    reload(&place, &daemon, &sink(&place, "batch = 30")).await;
    let done = "SELECT count(*) FROM _replays WHERE state = 'done' AND left_out >= 1";
    wait_until("the replay is done", || place.number(done) == 1).await;
    assert_eq!(number(&place, "delivered"), delivered);
    let sent = place.number("SELECT sent FROM _replays");
    assert_eq!(usize::try_from(sent).unwrap(), got(&place).len() - 70);
    assert!(got(&place).iter().all(|event| event["record_id"] != parked));
    deliver_all(&place, daemon).await;
    assert_taken(&place, &stored(&place, "1"), 2);
    assert_verified(&place).await;
}
