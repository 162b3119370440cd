//! One process per store. A file of another program or of a later version is refused and not
//! changed.

use std::fs;

use rusqlite::Connection;
use sandbox::Route;

use crate::support::{Place, Workspace};

#[tokio::test]
async fn a_second_instance_ends_with_75_and_names_the_holder() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mut first = place.started().await;
    let pid = first.pid().to_string();
    for command in ["run", "once"] {
        let second = place.run([command]).await;
        assert_eq!(second.code, Some(75), "{second:?}");
        assert!(
            second.err.contains(&format!("process {pid}:")),
            "{second:?}"
        );
    }
    workspace.polled(Route::Leads).await;
    assert!(first.is_running(), "the first goes on");
    first.kill().await;
    assert_eq!(
        place.run(["once"]).await.code,
        Some(0),
        "a dead holder holds nothing"
    );
}

/// Runs the program on the file at the store's path; it must end with 65 and change nothing.
async fn refused(place: &Place, word: &str) {
    let before = fs::read(place.store()).unwrap();
    for command in [&["run"][..], &["once"], &["records", "leads"]] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(65), "{ended:?}");
        assert!(ended.err.contains(word), "{ended:?}");
        assert!(
            fs::read(place.store()).unwrap() == before,
            "{command:?} changed the file"
        );
        for side in ["mirror.db-wal", "mirror.db-journal"] {
            assert!(!place.path(side).exists(), "{side}");
        }
    }
}

#[tokio::test]
async fn a_file_of_another_program_of_a_later_version_or_damaged_is_refused_and_not_changed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write(
        "mirror.db",
        "These are some notes, not a database.\n"
            .repeat(100)
            .as_str(),
    );
    refused(&place, "was not made by shopmirror").await;

    fs::remove_file(place.store()).unwrap();
    let other = Connection::open(place.store()).unwrap();
    other
        .execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('keep me')")
        .unwrap();
    other.close().unwrap();
    refused(&place, "was not made by shopmirror").await;
    assert_eq!(
        workspace.sandbox.requests().total,
        0,
        "nothing was asked for"
    );

    fs::remove_file(place.store()).unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let store = Connection::open(place.store()).unwrap();
    store
        .execute_batch("PRAGMA user_version = 9999; PRAGMA journal_mode = DELETE;")
        .unwrap();
    store.close().unwrap();
    refused(&place, "schema 9999").await;

    // The first page without its header: damage, and not another program's file.
    let mut bytes = fs::read(place.store()).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(place.store(), bytes).unwrap();
    refused(&place, "restore a backup").await;
    let store = place.store().display().to_string();
    refused(&place, &store).await;
}

#[tokio::test]
async fn a_store_that_is_removed_ends_the_daemon_and_is_not_recreated() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    fs::rename(place.store(), place.path("taken-away.db")).unwrap();
    workspace.sandbox.burst(Route::Leads, 1);
    assert_eq!(daemon.wait().await.code(), Some(74), "{}", place.log());
    assert!(
        place.log().contains("was deleted or replaced"),
        "{}",
        place.log()
    );
    assert!(!place.store().exists());
}
