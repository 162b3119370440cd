//! How commands end when something is wrong: the exit code, one message, and nothing done by half.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{STRANGER, filled, may_become_another_user};
use crate::support::{ClosedPort, Place};

/// Starts the program with a standard error that cannot be written.
const MUTE: [&str; 4] = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];
/// Starts the program with a standard output that is closed already.
const UNREAD: [&str; 6] = ["bash", "-o", "pipefail", "-c", "\"$@\" | true", "bash"];

#[tokio::test]
async fn exit_codes_name_the_kind_of_error() {
    let (workspace, place) = filled("").await;
    let asked = workspace.sandbox.requests().total;
    for (args, code, word) in [
        (&["no-such-command"][..], 64, "unrecognized"),
        (&["records", "invoices"], 64, "[possible values: jobs, "),
        (
            &["records", "leads", "--where", "no_such=1"],
            64,
            "has no column",
        ),
        (
            &["records", "leads", "--limit", "18446744073709551615"],
            64,
            "--limit",
        ),
        (&["log", "--since", "yesterday"], 64, "--since"),
        (&["sinks", "absent", "dead"], 64, "no sink"),
        (&["sinks", "test"], 64, "name the sink before the verb"),
        (&["records", "leads", "no-such-id"], 65, "not in the mirror"),
        (
            &["--config", "missing.toml", "status"],
            78,
            "missing.toml: No such file",
        ),
    ] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(
            ended.err.contains(word) && ended.out.is_empty(),
            "{args:?}: {ended:?}"
        );
    }
    assert_eq!(workspace.sandbox.requests().total, asked);
    place.write_key("no-key-of-this-workspace");
    for args in [["once"], ["check"]] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
    }
}

#[tokio::test]
async fn without_a_workspace_a_store_or_a_key_nothing_is_made() {
    let closed = ClosedPort::new();
    let place = Place::new(&closed.base_url(), "key");
    for command in [&["status"][..], &["backfill"]] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(69), "there is no store yet: {ended:?}");
        assert!(!place.store().exists(), "{command:?}");
    }
    fs::remove_file(place.path("api-key")).unwrap();
    let before = place.files();
    for command in ["run", "once"] {
        let ended = place.run([command]).await;
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert_eq!(place.files(), before, "{command}");
        assert_eq!(ended.err.matches("No such file").count(), 1, "{ended:?}");
    }
    place.write_key("key");
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(75), "it may work later: {ended:?}");
    assert_eq!(
        ended.err.matches("could not connect").count(),
        1,
        "once for all routes: {ended:?}"
    );
    // A message that cannot be printed does not change the exit code.
    for wrapper in [&MUTE[..], &UNREAD] {
        assert_eq!(
            place.run_by(wrapper, &["once"]).await.code,
            Some(75),
            "{wrapper:?}"
        );
    }
}

#[tokio::test]
async fn only_a_command_that_asks_the_workspace_itself_needs_a_key() {
    let (_workspace, place) = filled("").await;
    let text = fs::read_to_string(place.path("shopmirror.toml")).unwrap();
    place.write(
        "shopmirror.toml",
        &text.replace("api_key_file = \"api-key\"\n", ""),
    );
    for args in [
        &["status"][..],
        &["records", "leads"],
        &["status", "leads"],
        &["check", "--offline"],
    ] {
        let ended = place.run(args).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    }
    for args in [["once"], ["run"], ["check"]] {
        let ended = place.run(args).await;
        let said = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.code, Some(78), "{args:?}: {said}");
        assert!(said.contains("there is no API key"), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn a_user_without_permission_is_told_what_to_do() {
    if !may_become_another_user() {
        return;
    }
    let (_workspace, place) = filled("").await;
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode("mirror.db", 0o600);
    let ended = place.run_by(&STRANGER, &["status"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    for said in [
        "systemd-tmpfiles --create shopmirror.conf",
        "the group shopmirror-secrets",
        "usermod -aG shopmirror",
    ] {
        assert!(ended.err.contains(said), "{ended:?}");
    }

    // The files may be read, but not written.
    for name in [
        "shopmirror.toml",
        "api-key",
        "mirror.db",
        "mirror.db-wal",
        "mirror.db-shm",
    ] {
        mode(name, 0o644);
    }
    for args in [&["gaps", "accept", "--all"][..], &["once"]] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(
            ended.err.contains("as the user of the service"),
            "{args:?}: {ended:?}"
        );
    }
    // The database cannot be read either.
    mode("mirror.db", 0o600);
    for args in [&["status"][..], &["status", "leads"], &["records", "leads"]] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(77), "{args:?}: {ended:?}");
        assert!(
            !ended.err.contains("there is no store"),
            "{args:?}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn who_may_read_the_database_needs_neither_the_configuration_nor_the_key() {
    if !may_become_another_user() {
        return;
    }
    let (_workspace, place) = filled("[reports]\njob_link = \"job_number\"\n").await;
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    for name in ["mirror.db", "mirror.db-wal", "mirror.db-shm"] {
        mode(name, 0o644);
    }
    for args in [
        &["report", "intake"][..],
        &["records", "jobs"],
        &["status"],
        &["log"],
        &["gaps"],
        &["records", "jobs", "--format", "csv"],
    ] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    }
    for args in [&["check"][..], &["once"], &["search", "Ann"]] {
        let ended = place.run_by(&STRANGER, args).await;
        assert_eq!(ended.code, Some(78), "{args:?}: {ended:?}");
    }
    let shared = place.rows("SELECT value FROM _meta WHERE name = 'shared_config'");
    let shared = shared[0][0].as_str().unwrap();
    assert!(
        shared.contains("job_number") && !shared.contains("key"),
        "{shared}"
    );
}

#[tokio::test]
async fn the_sandbox_overwrites_only_its_own_file() {
    let place = Place::new("https://real.example.com/api", "real-key");
    let before = place.files();
    let args = [
        "sandbox",
        "--listen",
        "127.0.0.1:0",
        "--state",
        "shopmirror.toml",
    ];
    let ended = place.run(args).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert_eq!(place.files(), before);
}
