//! Backups: made by command beside a running daemon, and by the daemon once a day.

mod restored;
mod verified;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::tz::TimeZone;
use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;
use sandbox::Route;
use serde_json::Value;

use crate::support::{Place, Workspace, far_time_of_day, wait_until};

/// Opens a database as a tool does that must not write beside it.
pub(super) fn opened(path: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).unwrap()
}

pub(super) fn one<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> T {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const LAST: &str = "SELECT max(seq) FROM changes";

/// A place whose store has seen every route once.
pub(super) async fn filled() -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink(
        "audit",
        "start = \"beginning\"\nchanges = [\"baseline\"]",
    ));
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
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    let copy = opened(&file);
    assert_eq!(one::<String>(&copy, "PRAGMA integrity_check"), "ok");
    assert_eq!(
        one::<String>(&copy, "PRAGMA journal_mode"),
        "delete",
        "it needs no side file"
    );
    let last: i64 = one(&copy, LAST);
    assert!(
        before <= last && last <= place.number(LAST),
        "{before} {last}"
    );
    assert!(made.out.contains(&format!("{last} changes")), "{made:?}");
    drop(copy);
    daemon.stop().await;

    let kept = fs::read(&file).unwrap();
    let refused = place.run(["backup", path]).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.err.contains("--replace"), "{refused:?}");
    // Every write past 64 KiB of a file fails.
    let limit = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
    let failed = place
        .run_by(&["sh", "-c", limit, "sh"], &["backup", path, "--replace"])
        .await;
    assert!(matches!(failed.code, Some(74 | 75)), "{failed:?}");
    assert!(
        failed.err.contains("could not copy the store"),
        "{failed:?}"
    );
    assert_eq!(fs::read(&file).unwrap(), kept, "the one before stays");
    let replaced = place.run(["backup", path, "--replace"]).await;
    assert_eq!(replaced.code, Some(0), "without a daemon: {replaced:?}");
    assert_eq!(one::<i64>(&opened(&file), LAST), place.number(LAST));
    assert_eq!(names(&folder), ["copy.db"]);
}

#[tokio::test]
async fn a_backup_never_takes_the_place_of_the_store_or_of_what_is_no_backup() {
    let (_workspace, place) = filled().await;
    place.write("notes.txt", "not a backup");
    // The store of another daemon, which may be running.
    std::fs::copy(place.store(), place.path("other.db")).unwrap();
    place.write("other.db-lock", "");
    let before = place.files();
    for file in [
        "mirror.db",
        "./mirror.db",
        "mirror.db-wal",
        "mirror.db-lock",
        "notes.txt",
        "other.db",
    ] {
        let refused = place.run(["backup", file, "--replace"]).await;
        assert_eq!(refused.code, Some(64), "{file}: {refused:?}");
    }
    assert_eq!(place.files(), before);
}

/// A store that looks as old as if its first page had been read in 2020.
async fn aged(backup: &str) -> (Workspace, Place) {
    let (workspace, place) = filled().await;
    place.configure(&format!("[backup]\n{backup}\n"));
    let sql = "UPDATE _pollers SET first_polled_at = '2020-01-01T00:00:00.000000Z'";
    place.writer().execute_batch(sql).unwrap();
    (workspace, place)
}

/// Whether the failure of a backup is among the reasons of the health.
fn told_of_backups(status: &Value) -> bool {
    status["reasons"]
        .to_string()
        .contains("the last backup failed")
}

#[tokio::test]
async fn a_backup_that_was_missed_is_made_at_the_start_and_only_old_backups_go() {
    let at = far_time_of_day(TimeZone::system());
    let (_workspace, place) = aged(&format!("keep = 3\nat = \"{at}\"")).await;
    let folder = place.path("backups");
    fs::create_dir(&folder).unwrap();
    for day in 1..=4 {
        fs::write(folder.join(format!("mirror-2019010{day}T033000Z.db")), "").unwrap();
    }
    fs::write(folder.join("mirror-20190101T033000Z.db.4gT7x1.partial"), "").unwrap();
    // It was made while the clock was wrong.
    fs::write(folder.join("mirror-20991227T033000Z.db"), "").unwrap();
    let others = [
        "notes.txt",
        "mirror.db",
        "my-mirror-20190101T033000Z.db",
        "mirror-north-20190101T033000Z.db",
        "mirror-replaced-20190101T033000Z.db",
        "mirror-20191301T033000Z.db",
        "mirror-2019011T1033000Z.db",
        "mirror-20190101.db",
        "mirror-20190101T033000Z.db-old",
        "mirror-20190101T033000Z.db.partial.txt",
    ];
    for other in others {
        fs::write(folder.join(other), "").unwrap();
    }
    let daemon = place.started().await;
    let made = place
        .status_when("a backup was made", |status| {
            status["backup"]["last_file"]
                .as_str()
                .is_some_and(|file| !file.contains("-2019") && !file.contains("-2099"))
        })
        .await;
    assert!(!told_of_backups(&made), "{made}");
    assert!(
        made["backup"]["next_at"].as_str() > made["backup"]["last_at"].as_str(),
        "{made}"
    );
    let file = made["backup"]["last_file"].as_str().unwrap().to_owned();
    let newest = file.rsplit('/').next().unwrap();
    assert!(one::<i64>(&opened(&folder.join(newest)), LAST) > 0);
    let mut left = [
        newest,
        "mirror-20190103T033000Z.db",
        "mirror-20190104T033000Z.db",
    ]
    .to_vec();
    left.extend(others);
    left.sort_unstable();
    wait_until("only old backups go", || names(&folder) == left).await;
    daemon.stop().await;
    // Nothing is due again before the next day.
    let daemon = place.started().await;
    place
        .status_when("it knows the next", |status| {
            status["backup"]["next_at"].is_string()
        })
        .await;
    assert_eq!(names(&folder), left);
    daemon.stop().await;
}

#[tokio::test]
async fn a_backup_that_fails_is_a_reason_of_health_and_polling_goes_on() {
    // The folder cannot be made: a file has its name.
    let (workspace, place) = aged("path = \"api-key\"").await;
    let daemon = place.started().await;
    let failed = place
        .status_when("the failure is told", |status| {
            status["backup"]["last_error"].is_string()
        })
        .await;
    assert_ne!(failed["health"], "ok", "{failed}");
    assert!(told_of_backups(&failed), "{failed}");
    let leads = place.number("SELECT count(*) FROM leads");
    workspace.sandbox.burst(Route::Leads, 3);
    let more = || place.number("SELECT count(*) FROM leads") == leads + 3;
    wait_until("the new leads are mirrored", more).await;
    // A reload tries again at once.
    place.configure("");
    daemon.signal(Signal::HUP);
    let over = place
        .status_when("a backup was made", |status| {
            status["backup"]["last_file"].is_string()
        })
        .await;
    assert_eq!(over["backup"]["last_error"], Value::Null);
    assert!(!told_of_backups(&over), "{over}");
    daemon.stop().await;
}
