//! `restore`: what it refuses, what it keeps, and how the daemon goes on from a restored store.

use std::collections::HashMap;
use std::fs;

use rusqlite::Connection;
use sandbox::Route;
use serde_json::json;

use super::{LAST, filled, names, one, opened};
use crate::missed::restart::settled;
use crate::support::{Place, Receiver, Workspace, text};

#[tokio::test]
async fn a_store_restored_from_a_backup_goes_on_under_the_same_event_ids() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let lead = text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    let place = workspace.place();
    let all = "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\", \"gap\"]";
    let webhook = Place::webhook_sink("hook", &hook.url("/"), all);
    place.configure(&(webhook + &Place::file_sink("audit", all)));
    let daemon = place.started().await;
    settled(&workspace, &place).await;
    let made = place.run(["backup", "copy.db"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    // What the backup does not know, and the receiver does.
    workspace.edit(Route::Leads, &lead, json!({"status": "B"}));
    workspace.sandbox.burst(Route::Jobs, 3);
    settled(&workspace, &place).await;
    daemon.kill().await;
    let (lost, before) = (place.number(LAST), hook.events().len());
    let written = fs::read_to_string(place.path("audit.ndjson")).unwrap();

    let beside = ["restore", "copy.db", "--to", "look"];
    let looked = place.run(beside).await;
    assert_eq!(looked.code, Some(0), "{looked:?}");
    assert_eq!(place.number(LAST), lost, "the store in use stays");
    let shown: i64 = one(&opened(&place.path("look/mirror.db")), LAST);
    assert_eq!(shown, lost - 4);
    let again = place.run(beside).await;
    assert_eq!(again.code, Some(64), "nothing is replaced: {again:?}");
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(place.number(LAST), lost - 4);
    let kept = names(&place.path(""));
    let kept = kept
        .iter()
        .find(|name| name.starts_with("mirror-replaced-"))
        .unwrap();
    assert_eq!(
        one::<i64>(&opened(&place.path(kept)), LAST),
        lost,
        "with all that its log held"
    );

    let daemon = place.started().await;
    settled(&workspace, &place).await;
    // The shop has changed again since.
    workspace.edit(Route::Leads, &lead, json!({"status": "C"}));
    settled(&workspace, &place).await;
    daemon.stop().await;
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let events = hook.events();
    assert!(
        events.len() > before + 4,
        "the changes since the backup came again"
    );
    let mut texts = HashMap::new();
    for event in &events {
        let change = ["route", "record_id", "kind", "version", "record"].map(|key| &event[key]);
        let id = event["event_id"].as_str().unwrap();
        assert_eq!(
            texts.entry(id).or_insert(change),
            &change,
            "{id} names several changes"
        );
    }
    assert_eq!(
        texts.len(),
        before + 1,
        "what came again came under the id that it had"
    );
    let file = fs::read_to_string(place.path("audit.ndjson")).unwrap();
    assert!(
        file.starts_with(&written),
        "lines that were written since the backup stay"
    );
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
    assert!(
        refused.err.contains(&format!("process {pid}:")),
        "{refused:?}"
    );
    daemon.stop().await;
    for name in names(&place.path(""))
        .iter()
        .filter(|name| name.starts_with("mirror.db"))
    {
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
    place.write(
        "notes.db",
        &"These are notes, not a database.\n".repeat(200),
    );
    place.write("empty.db", "");
    fs::write(place.path("newer.db"), &sound).unwrap();
    let newer = Connection::open(place.path("newer.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 9999").unwrap();
    drop(newer);
    fs::create_dir(place.path("folder.db")).unwrap();
    // The lock file names the process that held it last.
    let is_lock = |path: &std::path::Path| path.ends_with("mirror.db-lock");
    let files = || -> Vec<_> {
        place
            .files()
            .into_iter()
            .filter(|(path, _)| !is_lock(path))
            .collect()
    };
    let before = files();
    for file in ["cut", "notes", "empty", "newer", "absent", "folder"] {
        let refused = place.run(["restore", &format!("{file}.db")]).await;
        assert_eq!(refused.code, Some(65), "{file}: {refused:?}");
        assert!(refused.err.contains(file), "{file}: {refused:?}");
        assert!(
            files() == before,
            "{file} changed something: {:?}",
            names(&place.path(""))
        );
    }
    let itself = place.run(["restore", "mirror.db"]).await;
    assert_eq!(itself.code, Some(65), "{itself:?}");
    assert!(files() == before);
}

#[tokio::test]
async fn restore_replaces_no_file_that_was_never_a_store_and_says_what_to_do() {
    let (_workspace, place) = filled().await;
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    let other = Connection::open(place.path("other.db")).unwrap();
    other
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
        .unwrap();
    place.write("notes.txt", "These are notes, not a database.\n");
    for name in ["notes.txt", "other.db"] {
        place.configure(&format!("[store]\npath = \"{name}\"\n"));
        let before = place.files();
        let refused = place.run(["restore", "copy.db"]).await;
        assert_eq!(refused.code, Some(65), "{name}: {refused:?}");
        let remedy = format!("`mv ./{name} ./{name}.old`");
        assert!(refused.err.contains(&remedy), "{name}: {refused:?}");
        assert!(place.files() == before, "{:?}", names(&place.path("")));
    }
    drop(other);

    // As the message says.
    place.configure("[store]\npath = \"notes.txt\"\n");
    let store = place.path("notes.txt");
    fs::rename(&store, place.path("notes.txt.old")).unwrap();
    let moved = place.run(["restore", "copy.db"]).await;
    assert_eq!(moved.code, Some(0), "{moved:?}");

    // A damaged store is known by what lies beside it.
    assert_eq!(place.run(["once"]).await.code, Some(0));
    fs::write(&store, "damaged").unwrap();
    let by_lock = place.run(["restore", "copy.db"]).await;
    assert_eq!(by_lock.code, Some(0), "{by_lock:?}");
    fs::write(&store, "damaged").unwrap();
    fs::remove_file(place.path("notes.txt-lock")).unwrap();
    fs::write(place.path("notes.txt-wal"), "damaged").unwrap();
    let by_log = place.run(["restore", "copy.db"]).await;
    assert_eq!(by_log.code, Some(0), "{by_log:?}");
}
