//! A destination that others emptied while the daemon runs or stands still: new changes go on, and a
//! replay brings what it had.

use std::collections::BTreeSet;

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::servers::moto::Moto;
use crate::support::servers::nats::Nats;
use crate::support::{Place, Workspace, wait_until};

/// Adds a lead, and waits until every sink has it.
async fn add(workspace: &Workspace, place: &Place) {
    workspace.add(Route::Leads, json!({"name": "Zoë"}));
    workspace.polled(Route::Leads).await;
    let behind = "SELECT count(*) FROM sinks WHERE position < (SELECT max(seq) FROM changes)";
    wait_until("the sinks are done", || place.number(behind) == 0).await;
}

fn ids(lines: &[Value]) -> BTreeSet<String> {
    let id = |line: &Value| line["event_id"].as_str().unwrap().to_owned();
    let found: BTreeSet<String> = lines.iter().map(id).collect();
    assert_eq!(found.len(), lines.len(), "no change is there twice");
    found
}

fn all(place: &Place) -> BTreeSet<String> {
    let rows = place.rows("SELECT event_id FROM changes WHERE route = 'leads'");
    rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

async fn replay(place: &Place, sink: &str) {
    let said = place.run(["replay", sink, "--rate", "1000/s"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = place.run(["verify"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[tokio::test]
async fn a_file_that_was_deleted_is_begun_anew_and_a_replay_fills_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "routes = [\"leads\"]\nstart = \"beginning\""));
    let mut daemon = place.started().await;
    add(&workspace, &place).await;
    for stands_still in [false, true] {
        if stands_still {
            daemon.stop().await;
            std::fs::remove_file(place.path("audit.ndjson")).unwrap();
            daemon = place.started().await;
        } else {
            std::fs::remove_file(place.path("audit.ndjson")).unwrap();
        }
        add(&workspace, &place).await;
        assert_eq!(place.lines("audit.ndjson").len(), 1, "only what is new");
        replay(&place, "audit").await;
        assert!(ids_of_file(&place).is_superset(&all(&place)));
    }
    daemon.stop().await;
}

/// The new line is there once more, after the older ones.
fn ids_of_file(place: &Place) -> BTreeSet<String> {
    let lines = place.lines("audit.ndjson");
    lines.iter().map(|line| line["event_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_stream_that_was_deleted_is_made_anew_and_a_replay_fills_it() {
    let Some(nats) = Nats::shared() else { return };
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "[sinks.bus]\ntype = \"nats\"\nurl = \"{}\"\nstream = \"GONE\"\nworkspace = \"north\"\n\
         subject = \"GONE.{{workspace}}.{{route}}.{{kind}}\"\nroutes = [\"leads\"]\nstart = \"beginning\"\n",
        nats.url("all", "right")
    ));
    let mut daemon = place.started().await;
    add(&workspace, &place).await;
    for stands_still in [false, true] {
        if stands_still {
            daemon.stop().await;
            nats.delete("GONE").await;
            daemon = place.started().await;
        } else {
            nats.delete("GONE").await;
        }
        add(&workspace, &place).await;
        let bodies = |messages: Vec<(String, Value)>| -> Vec<Value> {
            messages.into_iter().map(|(_, body)| body).collect()
        };
        assert_eq!(nats.stream("GONE").await.0, 1, "only what is new");
        replay(&place, "bus").await;
        assert_eq!(ids(&bodies(nats.stream("GONE").await.1)), all(&place));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_bucket_that_was_emptied_gets_what_is_new_and_a_replay_fills_it() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("emptied").await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("access", "AKIDTEST\nSECRETTEST\n");
    place.configure(&format!(
        "[sinks.archive]\ntype = \"s3\"\nendpoint = \"{}\"\nbucket = \"emptied\"\nworkspace = \"north\"\n\
         access_key_file = \"access\"\nevery = \"1s\"\nroutes = [\"leads\"]\nstart = \"beginning\"\n",
        moto.url()
    ));
    let daemon = place.started().await;
    add(&workspace, &place).await;
    assert_eq!(ids(&moto.lines("emptied").await), all(&place));
    moto.empty("emptied").await;
    add(&workspace, &place).await;
    assert_eq!(moto.lines("emptied").await.len(), 1, "only what is new");
    replay(&place, "archive").await;
    let lines = moto.lines("emptied").await;
    let found: BTreeSet<String> =
        lines.iter().map(|line| line["event_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, all(&place));
    daemon.stop().await;
}
