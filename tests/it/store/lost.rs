//! A database that is gone: it is missed and not begun again in silence, until a person puts it
//! back, restores a backup, or says that an empty one is wanted.

use std::fs;
use std::path::Path;

use sandbox::Route;

use crate::support::{Ended, Place, Workspace};

/// Removes the files of a folder whose names begin so.
fn remove(folder: &Path, beginning: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with(beginning) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// `run` and `once` end with 78 and make no database; returns what `once` printed.
async fn refused(place: &Place, wrapper: &[&str], store: &Path) -> Ended {
    let mut last = None;
    for command in ["run", "once"] {
        let ended = place.run_by(wrapper, &[command]).await;
        assert_eq!(ended.code, Some(78), "{command}: {ended:?}");
        let is_empty = fs::metadata(store).map_or(0, |found| found.len()) == 0;
        assert!(is_empty, "{command} has begun a database");
        last = Some(ended);
    }
    last.unwrap()
}

const PLAIN: &[&str] = &["env"];
const LEADS: &str = "SELECT count(*) FROM leads";

#[tokio::test]
async fn a_database_that_is_gone_is_not_begun_again_until_a_person_says_how() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let leads = place.number(LEADS);
    assert_eq!(place.run(["backup", "kept.db"]).await.code, Some(0));
    workspace.sandbox.burst(Route::Leads, 2);
    assert_eq!(place.run(["once"]).await.code, Some(0));

    // Removed alone: the lock file names it. A log without its database holds nothing.
    fs::rename(place.store(), place.path("elsewhere.db")).unwrap();
    let said = refused(&place, PLAIN, &place.store()).await;
    for part in ["its lock file", "mv FILE", "restore FILE", "--new-store"] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    // Emptied, as by a program that failed.
    place.write("mirror.db", "");
    refused(&place, PLAIN, &place.store()).await;
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("--new-store"), "{checked:?}");

    // Put back.
    fs::rename(place.path("elsewhere.db"), place.store()).unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(LEADS), leads + 2);
    let there = place.run(["restore", "--new-store"]).await;
    assert_eq!(there.code, Some(64), "{there:?}");
    assert!(place.number(LEADS) == leads + 2, "what is there stays");

    // Restored, beside the log of the one that is gone.
    fs::remove_file(place.store()).unwrap();
    assert!(place.path("mirror.db-wal").exists());
    assert_eq!(place.run(["restore", "kept.db"]).await.code, Some(0));
    assert_eq!(place.number(LEADS), leads);
    assert_eq!(place.run(["verify"]).await.code, Some(0));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(LEADS), leads + 2);

    // Begun again.
    fs::remove_file(place.store()).unwrap();
    refused(&place, PLAIN, &place.store()).await;
    fs::remove_file(place.path("api-key")).unwrap();
    let begun = place.run(["restore", "--new-store"]).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    assert_eq!(place.number(LEADS), 0, "it needs no key, and asks nobody");
    place.write_key(&workspace.sandbox.automation_key());
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(place.number(LEADS), leads + 2);
}

#[tokio::test]
async fn a_backup_of_a_database_that_is_gone_is_named_in_the_command_that_restores_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    fs::create_dir(place.path("backups")).unwrap();
    for name in ["mirror-20260101T033000Z.db", "mirror-20260102T033000Z.db"] {
        let file = format!("backups/{name}");
        assert_eq!(place.run(["backup", &file]).await.code, Some(0));
    }
    remove(&place.path(""), "mirror.db");
    let said = refused(&place, PLAIN, &place.store()).await;
    let newest = place.path("backups/mirror-20260102T033000Z.db");
    let config = place.path("shopmirror.toml");
    let command = format!(
        "`shopmirror restore {} --config {}`",
        newest.display(),
        config.display()
    );
    assert!(said.err.contains(&command), "{said:?}");
    let restored = place.run(["restore", newest.to_str().unwrap()]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(place.run(["once"]).await.code, Some(0));
}

#[tokio::test]
async fn a_disk_that_is_missing_is_missed_by_the_state_folder() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let store = disk.join("mirror.db");
    place.configure(&format!(
        "[store]\npath = \"{0}\"\n[backup]\npath = \"{1}\"\n",
        store.display(),
        place.path("backups").display()
    ));
    let state = format!("STATE_DIRECTORY={}", place.path("state").display());
    let as_service: &[&str] = &["env", &state];
    let once = place.run_by(as_service, &["once"]).await;
    assert_eq!(once.code, Some(0), "{once:?}");
    // The folder that the disk is mounted on.
    fs::rename(&disk, place.path("unmounted")).unwrap();
    let said = refused(&place, as_service, &store).await;
    assert!(said.err.contains("mount its disk"), "{said:?}");
    assert!(!disk.exists(), "nothing was made in its place");
    fs::rename(place.path("unmounted"), &disk).unwrap();
    let mounted = place.run_by(as_service, &["once"]).await;
    assert_eq!(mounted.code, Some(0), "{mounted:?}");

    remove(&disk, "mirror.db");
    refused(&place, as_service, &store).await;
    let begun = place.run_by(as_service, &["restore", "--new-store"]).await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let again = place.run_by(as_service, &["once"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
}

#[tokio::test]
async fn a_first_start_that_died_is_begun_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("mirror.db-lock", "4711\n");
    place.write("mirror.db", "");
    let once = place.run(["once"]).await;
    assert_eq!(once.code, Some(0), "{once:?}");
}
