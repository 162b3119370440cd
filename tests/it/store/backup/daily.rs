//! The daily backup of the daemon: a missed one is made at once, old ones go, a failure is reported.

use std::fs;

use jiff::tz::TimeZone;
use rusqlite::Connection;
use sandbox::Route;

use super::{LAST, filled, names, one, opened};
use crate::support::{Place, Workspace, far_time_of_day, wait_until};

/// Makes the store look as old as if its first page had been read in 2020.
fn age(place: &Place) {
    let store = Connection::open(place.store()).unwrap();
    store
        .execute_batch("UPDATE pollers SET first_polled_at = '2020-01-01T00:00:00.000000Z'")
        .unwrap();
}

async fn aged(backup: &str) -> (Workspace, Place) {
    let (workspace, place) = filled().await;
    place.configure(&format!("[backup]\n{backup}\n"));
    age(&place);
    (workspace, place)
}

/// Whether the failure of a backup is among the reasons of the health.
fn told_of_backups(status: &serde_json::Value) -> bool {
    status["reasons"].to_string().contains("the last backup failed")
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
    fs::write(folder.join("notes.txt"), "").unwrap();
    fs::write(folder.join("mirror-20190101T033000Z.db.partial"), "").unwrap();
    let daemon = place.started().await;
    let made = place
        .status_when("a backup was made", |status| {
            status["backup"]["last_file"].as_str().is_some_and(|file| !file.contains("-2019"))
        })
        .await;
    assert!(!told_of_backups(&made), "{made}");
    assert!(made["backup"]["next_at"].as_str() > made["backup"]["last_at"].as_str(), "{made}");
    let file = made["backup"]["last_file"].as_str().unwrap().to_owned();
    let newest = file.rsplit('/').next().unwrap();
    assert!(one::<i64>(&opened(&folder.join(newest)), LAST) > 0);
    let left = [newest, "notes.txt", "mirror-20190103T033000Z.db", "mirror-20190104T033000Z.db"];
    let mut left = left.map(str::to_owned).to_vec();
    left.sort();
    assert_eq!(names(&folder), left);
    daemon.stop().await;

    let stopped = place.status().await;
    assert_eq!(stopped["backup"]["last_file"], file.as_str(), "also without a daemon");
    // Nothing is due again before the next day.
    let daemon = place.started().await;
    place.status_when("it knows the next", |status| status["backup"]["next_at"].is_string()).await;
    assert_eq!(names(&folder), left);
    daemon.stop().await;
}

#[tokio::test]
async fn a_backup_that_fails_is_a_reason_of_health_and_polling_goes_on() {
    // The folder cannot be made: a file has its name.
    let (workspace, place) = aged("path = \"api-key\"").await;
    let daemon = place.started().await;
    let failed = place
        .status_when("the failure is told", |status| status["backup"]["last_error"].is_string())
        .await;
    assert_ne!(failed["health"], "ok", "{failed}");
    assert!(told_of_backups(&failed), "{failed}");
    let leads = place.number("SELECT count(*) FROM leads");
    workspace.sandbox.burst(Route::Leads, 3);
    let more = || place.number("SELECT count(*) FROM leads") == leads + 3;
    wait_until("the new leads are mirrored", more).await;
    // A reload tries again at once.
    place.configure("");
    daemon.signal(rustix::process::Signal::HUP);
    let over = place
        .status_when("a backup was made", |status| status["backup"]["last_file"].is_string())
        .await;
    assert_eq!(over["backup"]["last_error"], serde_json::Value::Null);
    assert!(!told_of_backups(&over), "{over}");
    daemon.stop().await;
}

#[tokio::test]
async fn none_are_made_where_none_are_kept() {
    let (workspace, place) = aged("keep = 0").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    assert_eq!(place.status().await["backup"], serde_json::Value::Null);
    daemon.stop().await;
    assert!(!place.path("backups").exists());
}
