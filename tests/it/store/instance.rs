//! One process per store. A file of another program or of a later version is refused and not changed.

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
        assert!(second.err.contains(&format!("process {pid}:")), "{second:?}");
    }
    workspace.polled(Route::Leads).await;
    assert!(first.is_running(), "the first goes on");
    first.kill().await;
    assert_eq!(place.run(["once"]).await.code, Some(0), "a dead holder holds nothing");
}

#[tokio::test]
async fn a_store_with_a_second_name_is_refused_by_whatever_writes() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    fs::hard_link(place.store(), place.path("linked.db")).unwrap();
    for command in [&["run"][..], &["once"], &["forget", "leads", "1"], &["rebuild"]] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(78), "{command:?}: {ended:?}");
        let says = ended.err.contains("hard links") && ended.err.contains("-samefile");
        assert!(says, "{command:?}: {ended:?}");
    }
    assert_eq!(place.run(["records", "leads"]).await.code, Some(0), "reading does no harm");
    fs::remove_file(place.path("linked.db")).unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
}

#[tokio::test]
async fn a_limit_of_open_files_that_is_too_low_is_raised_or_said() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let limited = |how: &'static str| place.daemon_by(&["sh", "-c", how, "sh"]);
    let mut refused = limited("ulimit -n 24; exec \"$@\"");
    assert_eq!(refused.wait().await.code(), Some(78));
    assert!(place.log().contains("may open 24 files"), "{}", place.log());
    let daemon = limited("ulimit -S -n 24; exec \"$@\"");
    workspace.polled(Route::Leads).await;
    daemon.stop().await;
}

/// Runs the program on the file at the store's path; it must end with 65 and change nothing.
async fn refused(place: &Place, word: &str) {
    let before = fs::read(place.store()).unwrap();
    for command in ["run", "once"] {
        let ended = place.run([command]).await;
        assert_eq!(ended.code, Some(65), "{ended:?}");
        assert!(ended.err.contains(word), "{ended:?}");
        assert!(fs::read(place.store()).unwrap() == before, "{command} changed the file");
        for side in ["mirror.db-wal", "mirror.db-journal"] {
            assert!(!place.path(side).exists(), "{side}");
        }
    }
    let listed = place.run(["records", "leads"]).await;
    assert_eq!(listed.code, Some(65), "{listed:?}");
    assert!(fs::read(place.store()).unwrap() == before);
}

#[tokio::test]
async fn a_file_of_another_program_is_refused_and_not_changed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("mirror.db", "These are some notes, not a database.\n".repeat(100).as_str());
    refused(&place, "was not made by shopmirror").await;

    fs::remove_file(place.store()).unwrap();
    let other = Connection::open(place.store()).unwrap();
    other.execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('keep me')").unwrap();
    other.close().unwrap();
    refused(&place, "was not made by shopmirror").await;
    assert_eq!(workspace.sandbox.requests().total, 0, "nothing was asked for");
}

#[tokio::test]
async fn a_damaged_store_is_called_damaged_and_not_another_program_s_file() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let store = Connection::open(place.store()).unwrap();
    store.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    store.close().unwrap();
    let whole = fs::read(place.store()).unwrap();
    let damage = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0xa5);
        fs::write(place.store(), bytes).unwrap();
    };
    // The first page without its header; then everything of it, with a log left beside.
    damage(100, 4096);
    for command in [&["once"][..], &["check"], &["records", "leads"]] {
        let ended = place.run(command).await;
        let said = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.code, Some(65), "{command:?}: {said}");
        assert!(said.contains("is damaged") && said.contains("restore a backup"), "{said}");
        assert!(!said.contains("another file"), "it would begin an empty history: {said}");
    }
    damage(0, 4096);
    place.write("mirror.db-wal", "");
    let ended = place.run(["once"]).await;
    assert!(ended.err.contains("restore a backup"), "{ended:?}");
}

#[tokio::test]
async fn a_store_of_a_later_version_is_refused_and_not_changed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let store = Connection::open(place.store()).unwrap();
    store.execute_batch("PRAGMA user_version = 9999; PRAGMA journal_mode = DELETE;").unwrap();
    store.close().unwrap();
    refused(&place, "schema 9999").await;
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
    assert!(place.log().contains("was deleted or replaced"), "{}", place.log());
    assert!(!place.store().exists());
}
