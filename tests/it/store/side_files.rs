//! What lies beside the database: the files of SQLite, deleted, of another user, or left of another
//! database; and the lines of a sink that is younger than the store.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use sandbox::Route;

use super::root::{AS_SERVICE, of_the_service};
use crate::missed::restart::settled;
use crate::support::{Place, Workspace, wait_until};

const CHANGES: &str = "SELECT count(*) FROM changes";

#[tokio::test]
async fn nothing_is_lost_when_a_program_deletes_the_log_of_the_running_daemon() {
    for deleted in [&["mirror.db-wal"][..], &["mirror.db-shm", "mirror.db-wal"]] {
        let workspace = Workspace::start().await;
        let place = workspace.place();
        let daemon = place.started().await;
        settled(&workspace, &place).await;
        let before = place.number(CHANGES);
        for name in deleted {
            fs::remove_file(place.path(name)).unwrap();
        }
        wait_until("the daemon says so", || {
            place.log().contains("what it held was saved")
        })
        .await;
        workspace.sandbox.burst(Route::Leads, 3);
        settled(&workspace, &place).await;
        assert_eq!(
            place.number(CHANGES),
            before + 3,
            "another program sees all"
        );
        daemon.kill().await;
        assert_eq!(place.number(CHANGES), before + 3, "after a kill");
        let verified = place.run(["verify"]).await;
        assert_eq!(verified.code, Some(0), "{verified:?}");
        assert_eq!(place.log().matches("what it held was saved").count(), 1);
    }
}

#[tokio::test]
async fn a_file_that_another_user_made_is_named_with_the_command_that_gives_it_back() {
    let workspace = Workspace::start().await;
    let Some(place) = of_the_service(&workspace).await else {
        return;
    };
    assert_eq!(place.run_by(&AS_SERVICE, &["once"]).await.code, Some(0));
    for suffix in ["-wal", "-shm", "-lock", ""] {
        let file = place.path(&format!("state/mirror.db{suffix}"));
        chown(&file, Some(0), Some(0)).unwrap();
        let ended = place.run_by(&AS_SERVICE, &["once"]).await;
        assert_eq!(ended.code, Some(77), "{suffix}: {ended:?}");
        let command = format!(
            "`chown -h --reference={} {}`",
            place.path("state").display(),
            file.display()
        );
        assert!(ended.err.contains(&command), "{suffix}: {ended:?}");
        assert!(!ended.err.contains("run this as root, or"), "{ended:?}");
        let folder = fs::metadata(place.path("state")).unwrap();
        chown(&file, Some(folder.uid()), Some(folder.gid())).unwrap();
    }
    assert_eq!(place.run_by(&AS_SERVICE, &["once"]).await.code, Some(0));
}

#[tokio::test]
async fn a_log_beside_a_copied_backup_is_refused_and_a_copy_by_dump_says_what_it_lacks() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    workspace.sandbox.burst(Route::Leads, 2);
    let daemon = place.started().await;
    settled(&workspace, &place).await;
    daemon.kill().await;
    let changes = place.number(CHANGES);
    fs::copy(place.path("copy.db"), place.store()).unwrap();
    let log = place.path("mirror.db-wal");
    let left = fs::read(&log).unwrap();
    assert!(!left.is_empty());
    for command in ["run", "once", "verify"] {
        let ended = place.run([command]).await;
        assert_eq!(ended.code, Some(78), "{command}: {ended:?}");
        assert!(ended.err.contains("mirror.db-wal`"), "{ended:?}");
    }
    assert_eq!(fs::read(&log).unwrap(), left);
    fs::remove_file(&log).unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(CHANGES), changes, "seen again");
    assert_eq!(place.run(["verify"]).await.code, Some(0));

    // What `.dump` leaves out.
    let sql = "PRAGMA application_id = 0; PRAGMA user_version = 0";
    place.writer().execute_batch(sql).unwrap();
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    let (_, command) = ended.err.split_once("run `sqlite3 ").unwrap();
    let sql = command.split('\'').nth(1).unwrap();
    place.writer().execute_batch(sql).unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.run(["verify"]).await.code, Some(0));

    fs::hard_link(place.store(), place.path("second.db")).unwrap();
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("-samefile"), "{ended:?}");
}

#[tokio::test]
async fn a_file_sink_keeps_the_lines_that_a_store_which_was_put_back_does_not_know() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    // As `cp` of a stopped mirror.
    let kept: Vec<_> = ["mirror.db", "mirror.db-wal"]
        .map(|name| (name, fs::read(place.path(name)).unwrap()))
        .into();
    // Each version is on one page only: what comes later does not show it again.
    for step in 0..3 {
        for _ in 0..100 {
            let name = format!("Lead {step}");
            workspace.add(Route::Leads, serde_json::json!({ "name": name }));
        }
        assert_eq!(place.run(["once"]).await.code, Some(0));
    }
    let written = fs::read_to_string(place.path("audit.ndjson")).unwrap();
    for (name, bytes) in kept {
        fs::write(place.path(name), bytes).unwrap();
    }
    fs::remove_file(place.path("mirror.db-shm")).unwrap();
    let daemon = place.started().await;
    settled(&workspace, &place).await;
    wait_until("the sink has all", || {
        place.is_delivered(place.number("SELECT max(seq) FROM changes"))
    })
    .await;
    daemon.stop().await;
    let file = fs::read_to_string(place.path("audit.ndjson")).unwrap();
    assert!(file.starts_with(&written), "a line was cut");
    assert!(file.len() > written.len(), "it goes on behind them");
    assert!(
        place.log().contains("the store is older than the file")
            && place.log().contains("lines=30"),
        "{}",
        place.log()
    );
}
