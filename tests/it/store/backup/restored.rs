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
        for _ in 0..3 {
            work(&workspace, &mut random);
            workspace.polled(Route::Leads).await;
        }
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

    let positions = "SELECT position FROM sinks";
    let in_backup: (i64, i64) = {
        let copy = opened(&place.path("copy.db"));
        (one(&copy, LAST), one(&copy, positions))
    };
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!((place.number(LAST), place.number(positions)), in_backup);
    assert!(in_backup.0 < lost, "the backup is older");
    let kept = names(place.path("").as_path())
        .into_iter()
        .find(|name| name.starts_with("mirror-replaced-"))
        .unwrap_or_else(|| panic!("{restored:?}"));
    assert_eq!(one::<i64>(&opened(&place.path(&kept)), LAST), lost, "with all that its log held");

    let before = hook.events().len();
    let daemon = place.started().await;
    work(&workspace, &mut random);
    settled(&workspace, &place).await;
    daemon.stop().await;
    assert_eq!(place.run(["verify"]).await.code, Some(0), "{:?}", place.run(["verify"]).await);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0, "no burst was longer than a page");

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
    for row in place.rows("SELECT event_id FROM changes") {
        assert!(changes_of.contains_key(row[0].as_str().unwrap()), "{row} was not delivered");
    }
    // Neither check was empty: one change came in both lives, and one version meant two texts.
    let of = |events: &[Value], id: &str| -> Vec<String> {
        let second = |event: &&Value| event["record_id"] == id && event["version"] == 2;
        events.iter().filter(second).map(|e| e["event_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of(&events[..before], &repeated), of(&events[before..], &repeated));
    assert_ne!(of(&events[..before], &diverging), of(&events[before..], &diverging));
    assert_eq!(of(&events, &diverging).len(), 2);
}

#[tokio::test]
async fn restore_is_refused_while_a_daemon_runs() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let daemon = place.started().await;
    let pid = daemon.pid().to_string();
    let refused = place.run(["restore", "copy.db"]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains(&format!("process {pid}:")), "{refused:?}");
    daemon.stop().await;
    assert_eq!(place.run(["restore", "copy.db"]).await.code, Some(0));
}

#[tokio::test]
async fn restore_refuses_what_is_no_sound_backup_and_leaves_the_store_as_it_is() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let sound = fs::read(place.path("copy.db")).unwrap();
    let mut damaged = sound.clone();
    for page in 4..damaged.len() / 4096 {
        damaged[page * 4096 + 100..page * 4096 + 400].fill(0x5a);
    }
    fs::write(place.path("damaged.db"), damaged).unwrap();
    fs::write(place.path("cut.db"), &sound[..sound.len() / 2]).unwrap();
    place.write("notes.db", &"These are notes, not a database.\n".repeat(200));
    place.write("empty.db", "");
    for (name, change) in [("newer.db", "user_version = 9999"), ("other.db", "application_id = 1")]
    {
        fs::write(place.path(name), &sound).unwrap();
        let copy = Connection::open(place.path(name)).unwrap();
        copy.execute_batch(&format!("PRAGMA {change}")).unwrap();
    }
    let before = place.files();
    let unusable =
        ["damaged.db", "cut.db", "notes.db", "empty.db", "newer.db", "other.db", "absent.db"];
    for file in unusable {
        let refused = place.run(["restore", file]).await;
        assert_eq!(refused.code, Some(65), "{file}: {refused:?}");
        assert!(refused.err.contains(file), "{file}: {refused:?}");
        assert!(place.files() == before, "{file} changed something: {:?}", names(&place.path("")));
    }
    let itself = place.run(["restore", "mirror.db"]).await;
    assert_eq!(itself.code, Some(64), "{itself:?}");
    assert!(place.files() == before);
}

#[tokio::test]
async fn a_backup_whose_parts_disagree_is_restored_only_on_request() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let copy = Connection::open(place.path("copy.db")).unwrap();
    copy.execute_batch("UPDATE changes SET body = replace(body, 'e', 'o') WHERE seq = 3").unwrap();
    drop(copy);
    let before = place.files();
    let refused = place.run(["restore", "copy.db"]).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(
        refused.err.contains("change 3") && refused.err.contains("--accept-damage"),
        "{refused:?}"
    );
    assert!(place.files() == before, "{:?}", names(&place.path("")));
    // Twice within a second: each keeps the store that it replaces.
    for _ in 0..2 {
        let restored = place.run(["restore", "copy.db", "--accept-damage"]).await;
        assert_eq!(restored.code, Some(0), "{restored:?}");
    }
    let kept = names(&place.path(""));
    let kept = kept.iter().filter(|name| name.starts_with("mirror-replaced-")).count();
    assert_eq!(kept, 2);
    assert_eq!(place.run(["verify"]).await.code, Some(65));
}

#[tokio::test]
async fn a_pipe_or_a_folder_is_no_backup_and_a_configuration_is_not_overwritten() {
    let (_workspace, place) = filled().await;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("pipe.db"), mode).unwrap();
    fs::create_dir(place.path("folder.db")).unwrap();
    for file in ["pipe.db", "folder.db"] {
        let refused = place.run(["restore", file]).await;
        assert_eq!(refused.code, Some(65), "{refused:?}");
        assert!(refused.err.contains("no regular file"), "{refused:?}");
    }
    place.write("notes.txt", "not a backup");
    let refused = place.run(["backup", "notes.txt", "--replace"]).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert_eq!(fs::read_to_string(place.path("notes.txt")).unwrap(), "not a backup");
}

#[tokio::test]
async fn a_backup_is_restored_where_there_is_no_store() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let last = place.number(LAST);
    for name in names(&place.path("")).iter().filter(|name| name.starts_with("mirror.db")) {
        fs::remove_file(place.path(name)).unwrap();
    }
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert!(!restored.out.contains("it replaced"), "{restored:?}");
    assert_eq!(place.number(LAST), last);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(LAST), last, "nothing is taken for new");
}
