//! `restore`: what it refuses, what it keeps, and how the daemon goes on from a restored store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rusqlite::Connection;
use sandbox::Route;
use serde_json::{Value, json};

use super::{LAST, filled, names, one, opened};
use crate::missed::restart::{settled, work};
use crate::support::{Place, Receiver, Workspace, text};

/// What tells one change from another, as a receiver sees it.
fn change(event: &Value) -> String {
    ["route", "record_id", "kind", "version", "record"].map(|key| event[key].to_string()).join(" ")
}

#[tokio::test]
async fn a_store_restored_from_a_backup_under_load_goes_on_under_the_same_event_ids() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    // Far enough down the page that `work` does not touch them.
    let leads = workspace.sandbox.truth(Route::Leads);
    let [repeated, diverging] = [50, 51].map(|place| text(&leads[leads.len() - place].id));
    let place = workspace.place();
    let all = "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\", \"gap\"]";
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), all));
    let daemon = place.started().await;
    settled(&workspace, &place).await;
    let load = async {
        work(&workspace, &mut random);
        workspace.polled(Route::Leads).await;
    };
    let (made, ()) = tokio::join!(place.run(["backup", "copy.db"]), load);
    assert_eq!(made.code, Some(0), "{made:?}");
    settled(&workspace, &place).await;
    // What the backup does not know, and the receiver does.
    work(&workspace, &mut random);
    workspace.edit(Route::Leads, &repeated, json!({"status": "B"}));
    workspace.edit(Route::Leads, &diverging, json!({"status": "B"}));
    settled(&workspace, &place).await;
    daemon.kill().await;
    let lost = place.number(LAST);
    workspace.edit(Route::Leads, &diverging, json!({"status": "C"}));

    let in_backup: i64 = one(&opened(&place.path("copy.db")), LAST);
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(place.number(LAST), in_backup);
    assert!(in_backup < lost, "the backup is older");
    let kept = names(&place.path(""));
    let kept = kept.iter().find(|name| name.starts_with("mirror-replaced-")).unwrap();
    assert_eq!(one::<i64>(&opened(&place.path(kept)), LAST), lost, "with all that its log held");

    let before = hook.events().len();
    let daemon = place.started().await;
    work(&workspace, &mut random);
    settled(&workspace, &place).await;
    daemon.stop().await;
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");

    let events = hook.events();
    let mut changes_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut ids_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for event in &events {
        let id = event["event_id"].as_str().unwrap();
        changes_of.entry(id).or_default().insert(change(event));
        ids_of.entry(change(event)).or_default().insert(id);
    }
    for (id, changes) in &changes_of {
        assert_eq!(changes.len(), 1, "{id} names several changes: {changes:?}");
    }
    for (change, ids) in &ids_of {
        assert_eq!(ids.len(), 1, "{change} came under several ids: {ids:?}");
    }
    // Neither check was empty: one change came in both lives, and one version meant two texts.
    let of = |events: &[Value], id: &str| -> Vec<String> {
        let second = |event: &&Value| event["record_id"] == id && event["version"] == 2;
        events.iter().filter(second).map(|e| e["event_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&events[..before], &repeated), of(&events[before..], &repeated));
    assert_eq!(of(&events, &diverging).len(), 2);
}

#[tokio::test]
async fn restore_is_refused_while_a_daemon_runs_and_needs_no_store() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let last = place.number(LAST);
    let daemon = place.started().await;
    let pid = daemon.pid().to_string();
    let refused = place.run(["restore", "copy.db"]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains(&format!("process {pid}:")), "{refused:?}");
    daemon.stop().await;
    for name in names(&place.path("")).iter().filter(|name| name.starts_with("mirror.db")) {
        fs::remove_file(place.path(name)).unwrap();
    }
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert!(!restored.out.contains("it replaced"), "{restored:?}");
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(LAST), last, "nothing is taken for new");
}

#[tokio::test]
async fn restore_refuses_what_is_no_sound_backup_and_leaves_the_store_as_it_is() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let sound = fs::read(place.path("copy.db")).unwrap();
    fs::write(place.path("cut.db"), &sound[..sound.len() / 2]).unwrap();
    place.write("notes.db", &"These are notes, not a database.\n".repeat(200));
    place.write("empty.db", "");
    for (name, sql) in [
        ("newer.db", "PRAGMA user_version = 9999"),
        ("disagreeing.db", "UPDATE changes SET body = replace(body, 'e', 'o') WHERE seq = 3"),
    ] {
        fs::write(place.path(name), &sound).unwrap();
        Connection::open(place.path(name)).unwrap().execute_batch(sql).unwrap();
    }
    fs::create_dir(place.path("folder.db")).unwrap();
    let before = place.files();
    for file in ["cut", "notes", "empty", "newer", "absent", "folder", "disagreeing"] {
        let refused = place.run(["restore", &format!("{file}.db")]).await;
        assert_eq!(refused.code, Some(65), "{file}: {refused:?}");
        assert!(refused.err.contains(file), "{file}: {refused:?}");
        assert!(place.files() == before, "{file} changed something: {:?}", names(&place.path("")));
    }
    let itself = place.run(["restore", "mirror.db"]).await;
    assert_eq!(itself.code, Some(64), "{itself:?}");
    assert!(place.files() == before);
    // A backup whose parts disagree may be better than none.
    let accepted = place.run(["restore", "disagreeing.db", "--accept-damage"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert_eq!(place.run(["verify"]).await.code, Some(65));
}
