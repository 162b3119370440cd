//! Root in the folder of the service's user: what root makes there belongs to that user, so that
//! the service can go on with it. Only root can run this test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::{Place, Workspace};

/// Stands for the service's user and group.
const SERVICE: u32 = 65_534;
pub(super) const AS_SERVICE: [&str; 6] = [
    "setpriv",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
];

/// What lies below a folder and does not belong to the service.
fn of_others(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        // A file that was only there for a moment.
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            found.extend(of_others(&path));
        }
        if (metadata.uid(), metadata.gid()) != (SERVICE, SERVICE) {
            found.push(path);
        }
    }
    found
}

/// A place whose store lies in a folder of the service; `None` where this user cannot make one.
pub(super) async fn of_the_service(workspace: &Workspace) -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can act for two users");
        return None;
    }
    let place = workspace.place();
    place.configure(
        "[store]\npath = \"state/mirror.db\"\n[sinks.audit]\ntype = \"file\"\n\
         path = \"state/audit.ndjson\"\nstart = \"beginning\"\nchanges = [\"baseline\"]\n",
    );
    fs::create_dir(place.path("state")).unwrap();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["state", "shopmirror.toml", "api-key"] {
        chown(place.path(name), Some(SERVICE), Some(SERVICE)).unwrap();
    }
    let tried = place.run_by(&AS_SERVICE, &["--version"]).await;
    if tried.code != Some(0) {
        eprintln!("SKIPPED: another user cannot run the program of this build: {tried:?}");
        return None;
    }
    Some(place)
}

#[tokio::test]
async fn what_root_makes_in_the_folder_of_the_service_belongs_to_the_service() {
    let workspace = Workspace::start().await;
    let Some(place) = of_the_service(&workspace).await else {
        return;
    };
    let state = place.path("state");
    let none: [PathBuf; 0] = [];

    let first = place.run(["once"]).await;
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(place.path("state/audit.ndjson").exists());
    assert_eq!(of_others(&state), none, "after the first `once`");

    // A lost disk: nothing is left but the backup.
    assert_eq!(place.run(["backup", "copy.db"]).await.code, Some(0));
    fs::remove_dir_all(&state).unwrap();
    fs::create_dir(&state).unwrap();
    chown(&state, Some(SERVICE), Some(SERVICE)).unwrap();
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(of_others(&state), none, "after the restore");
    let next = place.run_by(&AS_SERVICE, &["once"]).await;
    assert_eq!(next.code, Some(0), "{next:?}");

    // A daily backup is due.
    Connection::open(place.path("state/mirror.db"))
        .unwrap()
        .execute_batch("UPDATE _pollers SET first_polled_at = '2020-01-01T00:00:00.000000Z'")
        .unwrap();
    let daemon = place.started().await;
    place
        .status_when("a backup was made", |status| {
            status["backup"]["last_file"].is_string()
        })
        .await;
    assert!(place.path("state/mirror.db-sock").exists() && place.path("state/backups").exists());
    assert_eq!(of_others(&state), none, "while root runs the daemon");
    daemon.stop().await;

    let daemon = place.daemon_by(&AS_SERVICE);
    workspace.all_polled().await;
    daemon.stop().await;
    assert_eq!(of_others(&state), none);

    // Begun again, and made again.
    fs::remove_file(state.join("mirror.db")).unwrap();
    for command in [&["restore", "--new-store"][..], &["verify", "--rebuild"]] {
        let made = place.run(command).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        assert_eq!(of_others(&state), none, "after {command:?}");
    }
    let next = place.run_by(&AS_SERVICE, &["once"]).await;
    assert_eq!(next.code, Some(0), "{next:?}");
}

#[tokio::test]
async fn root_follows_no_link_in_the_folder_of_the_service() {
    let workspace = Workspace::start().await;
    let Some(place) = of_the_service(&workspace).await else {
        return;
    };
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let backup = place.path("backup.db");
    let saved = place.run(["backup", backup.to_str().unwrap()]).await;
    assert_eq!(saved.code, Some(0), "{saved:?}");
    let victim = place.path("victim");
    fs::write(&victim, "a file of root").unwrap();
    let store = place.path("state/mirror.db");
    let lock = place.path("state/mirror.db-lock");
    let aside = place.path("state/aside");

    fs::rename(&lock, &aside).unwrap();
    symlink(&victim, &lock).unwrap();
    let restored = place.run(["restore", backup.to_str().unwrap()]).await;
    assert_eq!(restored.code, Some(74), "{restored:?}");
    assert!(restored.err.contains("sudo -u '#65534'"), "{restored:?}");
    // As the service's user, which may not open it. Nobody is told to give it to that user.
    let once = place.run(["once"]).await;
    assert_eq!(once.code, Some(77), "{once:?}");
    assert!(!once.err.contains("chown"), "{once:?}");
    fs::rename(&aside, &lock).unwrap();

    fs::rename(&store, &aside).unwrap();
    symlink(&victim, &store).unwrap();
    let once = place.run(["once"]).await;
    assert_eq!(once.code, Some(77), "{once:?}");
    assert!(!once.err.contains("chown"), "{once:?}");
    for command in [
        &["restore", backup.to_str().unwrap()][..],
        &["records", "jobs"],
    ] {
        let ended = place.run(command).await;
        assert_ne!(ended.code, Some(0), "{command:?}: {ended:?}");
        assert!(
            ended.err.contains("sudo -u '#65534'"),
            "{command:?}: {ended:?}"
        );
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "a file of root");

    // For the service's user a link is as good as any file.
    fs::remove_file(&store).unwrap();
    symlink("aside", &store).unwrap();
    fs::rename(&lock, place.path("state/aside-lock")).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::rename(
            place.path(&format!("state/mirror.db{suffix}")),
            place.path(&format!("state/aside{suffix}")),
        );
    }
    let listed = place.run_by(&AS_SERVICE, &["records", "jobs"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
}

/// The ids that the kernel names for a process in the lines that begin so.
fn ids_of(pid: u32, line: &str) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ids = status.lines().find_map(|found| found.strip_prefix(line));
    ids.unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn root_runs_as_the_owner_of_the_folder_and_says_what_that_user_may_not_read() {
    let workspace = Workspace::start().await;
    let Some(place) = of_the_service(&workspace).await else {
        return;
    };
    // The service's user leads a folder of its own to one of root.
    place.configure(
        "[store]\npath = \"state/mirror.db\"\n[sinks.audit]\ntype = \"file\"\n\
         path = \"state/out/audit.ndjson\"\nstart = \"beginning\"\nchanges = [\"baseline\"]\n",
    );
    symlink(place.path(""), place.path("state/out")).unwrap();
    let once = place.run(["once"]).await;
    assert!(!place.path("audit.ndjson").exists(), "{once:?}");
    assert_eq!(once.code, Some(75), "{once:?}");
    assert!(once.err.contains("sink audit"), "{once:?}");

    let daemon = place.started().await;
    let user = SERVICE.to_string();
    for line in ["Uid:", "Gid:"] {
        assert_eq!(ids_of(daemon.pid(), line), [&*user; 4], "{line}");
    }
    let groups = ids_of(daemon.pid(), "Groups:");
    assert!(!groups.contains(&"0".to_owned()), "{groups:?}");
    let asked = place.run(["status"]).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    daemon.stop().await;

    for name in ["shopmirror.toml", "api-key"] {
        let file = place.path(name);
        chown(&file, Some(0), Some(0)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        for command in ["once", "run"] {
            let refused = place.run([command]).await;
            assert_eq!(refused.code, Some(78), "{command}, {name}: {refused:?}");
            for said in [name, "nobody", "state belongs"] {
                assert!(
                    refused.err.contains(said),
                    "{command}, {name}, {said}: {refused:?}"
                );
            }
        }
        chown(&file, Some(SERVICE), Some(SERVICE)).unwrap();
    }
}
