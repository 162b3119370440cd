//! Delivery: every sink gets every change it asked for, in order per record, whatever the others
//! do.

mod alerts;
mod endpoint;
mod exceptions;
mod flood;
mod job;
mod replay;
mod shapes;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Daemon, Place, Receiver, Workspace, wait_until};

/// Longer than any answer takes on a busy machine.
const PATIENT: &str = "timeout = \"10m\"";

/// A receiver, and a daemon that has read everything once and whose one sink posts to it, with
/// `rest` in the sink's section.
async fn hooked(rest: &str) -> (Receiver, Workspace, Place, Daemon) {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let rest = format!("{PATIENT}\n{rest}");
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), &rest));
    let daemon = place.started().await;
    workspace.all_polled().await;
    (hook, workspace, place, daemon)
}

/// The numbers of the log's changes of these kinds.
fn logged(place: &Place, kinds: &str) -> Vec<i64> {
    let rows = place.rows(&format!(
        "SELECT seq FROM changes WHERE kind IN ({kinds}) ORDER BY seq"
    ));
    rows.iter().map(|row| row[0].as_i64().unwrap()).collect()
}

fn seqs(events: &[Value]) -> Vec<i64> {
    events
        .iter()
        .map(|event| event["seq"].as_i64().unwrap())
        .collect()
}

const NEW: &str = "'created', 'updated'";

#[tokio::test]
async fn a_sink_gets_what_it_asked_for_and_nothing_else() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let beginning = "start = \"beginning\"";
    place.configure(&format!(
        "{}{}{}{}{}",
        Place::file_sink(
            "all",
            "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\"]"
        ),
        Place::file_sink(
            "jobs",
            &format!("{beginning}\nroutes = [\"jobs\", \"payments\"]")
        ),
        Place::file_sink("updated", &format!("{beginning}\nchanges = [\"updated\"]")),
        Place::file_sink(
            "completed",
            &format!(
                "{beginning}\nwhere = {{ status_stage = \"completed\", urgent = true, floor = 2 }}"
            )
        ),
        Place::file_sink("now", ""),
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let lead = json!({"status_stage": "completed", "urgent": true, "floor": 2});
    workspace.add(Route::Leads, lead);
    workspace.add(
        Route::Leads,
        json!({"status_stage": "completed", "urgent": true, "floor": 3}),
    );
    workspace.add(
        Route::Leads,
        json!({"status_stage": "completed", "floor": 2}),
    );
    let job = workspace.add(Route::Jobs, json!({"status_stage": "open"}));
    workspace.add(Route::Payments, json!({}));
    workspace.all_polled().await;
    workspace.edit(
        Route::Jobs,
        &job,
        json!({"urgent": true, "floor": 2, "status_stage": "completed"}),
    );
    workspace.all_polled().await;

    let last = place.number("SELECT max(seq) FROM changes");
    let behind = "SELECT (SELECT count(*) FROM _sinks WHERE position < (SELECT max(seq) FROM changes)) \
                  + (SELECT count(*) FROM _queue)";
    wait_until("every sink is done", || place.number(behind) == 0).await;
    let got = |name: &str| seqs(&place.lines(&format!("{name}.ndjson")));
    let of = |wheres: &str| -> Vec<i64> {
        let rows = place.rows(&format!(
            "SELECT seq FROM changes WHERE {wheres} ORDER BY seq"
        ));
        rows.iter().map(|row| row[0].as_i64().unwrap()).collect()
    };
    assert_eq!(got("all"), (1..=last).collect::<Vec<i64>>());
    assert_eq!(
        got("jobs"),
        of("route IN ('jobs', 'payments')"),
        "with the baseline"
    );
    assert_eq!(got("updated"), of("kind = 'updated'"));
    assert_eq!(got("updated").len(), 1);
    let completed = of(
        "kind <> 'baseline' AND json_extract(body, '$.floor') = 2 AND json_extract(body, '$.urgent') = 1",
    );
    assert_eq!(got("completed"), completed);
    assert_eq!(completed.len(), 2);
    assert_eq!(got("now"), of("kind <> 'baseline'"));
    daemon.stop().await;
}

#[tokio::test]
async fn a_new_sink_starts_where_its_configuration_says() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({}));
    workspace.polled(Route::Leads).await;
    let row = place
        .rows("SELECT seq, observed_at FROM changes ORDER BY seq DESC LIMIT 1")
        .remove(0);
    let (first, at) = (
        row[0].as_i64().unwrap(),
        row[1].as_str().unwrap().to_owned(),
    );
    workspace.add(Route::Leads, json!({}));
    workspace.polled(Route::Leads).await;

    place.configure(&format!(
        "{}{}{}",
        Place::file_sink("now", ""),
        Place::file_sink("beginning", "start = \"beginning\""),
        Place::file_sink(
            "time",
            &format!("start = \"{at}\"\nchanges = [\"baseline\", \"created\"]")
        ),
    ));
    daemon.signal(Signal::HUP);
    wait_until("the sinks are there", || {
        place.number("SELECT count(*) FROM _sinks") == 3
    })
    .await;
    workspace.add(Route::Leads, json!({}));
    workspace.polled(Route::Leads).await;
    let behind = "SELECT (SELECT count(*) FROM _sinks WHERE position < (SELECT max(seq) FROM changes)) \
                  + (SELECT count(*) FROM _queue)";
    wait_until("every sink is done", || place.number(behind) == 0).await;
    let got = |name: &str| seqs(&place.lines(&format!("{name}.ndjson")));
    assert_eq!(got("now"), [first + 2]);
    assert_eq!(
        got("beginning"),
        (1..=first + 2).collect::<Vec<i64>>(),
        "with the baseline"
    );
    assert_eq!(got("time"), [first, first + 1, first + 2]);
    daemon.stop().await;
}

#[tokio::test]
async fn two_different_changes_never_share_an_event_id_not_even_after_a_backup_was_restored() {
    let (hook, workspace, place, daemon) = hooked("").await;
    let lead = workspace.add(Route::Leads, json!({"name": "First"}));
    wait_until("it arrives", || hook.events().len() == 1).await;
    daemon.stop().await;
    std::fs::copy(place.store(), place.path("backup.db")).unwrap();

    let daemon = place.started().await;
    workspace.edit(Route::Leads, &lead, json!({"name": "Second"}));
    wait_until("the edit arrives", || hook.events().len() == 2).await;
    daemon.stop().await;
    for file in ["mirror.db", "mirror.db-wal", "mirror.db-shm"] {
        let _ = std::fs::remove_file(place.path(file));
    }
    std::fs::copy(place.path("backup.db"), place.store()).unwrap();

    workspace.edit(Route::Leads, &lead, json!({"name": "Third"}));
    let daemon = place.started().await;
    wait_until("the other edit arrives", || hook.events().len() == 3).await;
    let events = hook.events();
    assert_eq!(
        (&events[1]["version"], &events[2]["version"]),
        (&json!(2), &json!(2))
    );
    assert_ne!(
        events[1]["event_id"], events[2]["event_id"],
        "a receiver drops repeats by it"
    );
    daemon.stop().await;
}
