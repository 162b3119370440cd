//! Backups, restored stores and `verify`: through the real program, on stores in use.

mod daily;
mod restored;
mod verified;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use sandbox::Route;

use crate::support::{Place, TinyDisk, Workspace};

/// Opens a database as a tool does that must not write beside it.
fn opened(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).unwrap()
}

fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> T {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const LAST: &str = "SELECT max(seq) FROM changes";

/// A place whose store has seen every route once.
async fn filled() -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\"]"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    (workspace, place)
}

#[tokio::test]
async fn a_backup_beside_a_running_daemon_is_one_whole_file_for_owner_and_group() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.started().await;
    workspace.all_polled().await;
    let folder = place.path("kept");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("copy.db");
    let path = file.to_str().unwrap();
    for route in Route::ALL {
        workspace.sandbox.burst(route, 50);
    }
    let before = place.number(LAST);
    let made = place.run(["backup", path]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(names(&folder), ["copy.db"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    let copy = opened(&file);
    assert_eq!(one::<String>(&copy, "PRAGMA integrity_check"), "ok");
    assert_eq!(one::<String>(&copy, "PRAGMA journal_mode"), "delete", "it needs no side file");
    let last: i64 = one(&copy, LAST);
    assert!(before <= last && last <= place.number(LAST), "{before} {last}");
    assert!(made.out.contains(&format!("{last} changes")), "{made:?}");
    drop(copy);

    let kept = fs::read(&file).unwrap();
    let refused = place.run(["backup", path]).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.err.contains("--replace"), "{refused:?}");
    assert_eq!(fs::read(&file).unwrap(), kept, "nothing was overwritten");

    daemon.stop().await;
    let replaced = place.run(["backup", path, "--replace"]).await;
    assert_eq!(replaced.code, Some(0), "without a daemon: {replaced:?}");
    assert_eq!(one::<i64>(&opened(&file), LAST), place.number(LAST));
    assert_eq!(names(&folder), ["copy.db"]);
}

#[tokio::test]
async fn a_backup_never_takes_the_place_of_the_store_or_of_what_is_no_file() {
    let (_workspace, place) = filled().await;
    let before = place.files();
    fs::create_dir(place.path("folder")).unwrap();
    for file in ["mirror.db", "./mirror.db", "mirror.db-wal", "mirror.db-lock", "folder"] {
        let refused = place.run(["backup", file, "--replace"]).await;
        assert_eq!(refused.code, Some(64), "{file}: {refused:?}");
    }
    fs::remove_dir(place.path("folder")).unwrap();
    assert_eq!(place.files(), before);
}

#[tokio::test]
async fn a_backup_without_room_leaves_no_file() {
    let (_workspace, place) = filled().await;
    let Some(disk) = TinyDisk::mount() else {
        eprintln!("SKIPPED: this user may not mount a small disk");
        return;
    };
    let file = disk.path().join("copy.db");
    let full = place.run(["backup", file.to_str().unwrap()]).await;
    assert_eq!(full.code, Some(75), "{full:?}");
    assert!(full.err.contains("too little room"), "{full:?}");
    assert!(names(disk.path()).is_empty());
}

#[tokio::test]
async fn a_backup_that_fails_half_way_leaves_the_one_before_and_no_partial_file() {
    let (_workspace, place) = filled().await;
    let folder = place.path("kept");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("copy.db");
    let path = file.to_str().unwrap();
    assert_eq!(place.run(["backup", path]).await.code, Some(0));
    let kept = fs::read(&file).unwrap();
    // Every write past 64 KiB of a file fails.
    let limit = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
    let failed = place.run_by(&["sh", "-c", limit, "sh"], &["backup", path, "--replace"]).await;
    assert!(matches!(failed.code, Some(74 | 75)), "{failed:?}");
    assert!(failed.err.contains("could not copy the store"), "{failed:?}");
    assert_eq!(names(&folder), ["copy.db"]);
    assert_eq!(fs::read(&file).unwrap(), kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_a_folder_that_can_hold_no_backup() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("taken", "a file");
    for (path, said) in [
        ("taken", Some("taken is a file: name a folder")),
        ("taken/below", Some("could not write to")),
        ("made/by/the/daemon", None),
    ] {
        place.configure(&format!("[backup]\npath = \"{path}\"\n"));
        let ended = place.run(["check"]).await;
        assert_eq!(ended.code, Some(if said.is_some() { 78 } else { 0 }), "{path}: {ended:?}");
        assert!(said.is_none_or(|said| ended.out.contains(said)), "{path}: {ended:?}");
    }
}
