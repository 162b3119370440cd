//! A database that lost what it had: an older dump, a schema or a log that is gone. What is missing is
//! delivered again by itself, before anything new, and the daemon says so.

use sandbox::Route;
use serde_json::json;

use super::cells;
use super::daemon::{done, section};
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::{Place, Workspace, wait_until};

/// A daemon's place with its workspace, whose log was delivered.
async fn delivered(role: &Role, more: &str) -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!("{}{more}", section(&place, role)));
    (workspace, place)
}

/// Adds records to the workspace, and waits until the sink has passed them.
async fn add(workspace: &Workspace, place: &Place, count: usize) {
    for _ in 0..count {
        workspace.add(Route::Leads, json!({"name": "Zoë"}));
    }
    workspace.polled(Route::Leads).await;
    done(place).await;
}

/// The numbers of the log, in the store and in the database.
async fn logs(place: &Place, role: &Role) -> (Vec<String>, Vec<String>) {
    let ours = place.rows("SELECT seq || ' ' || event_id FROM changes ORDER BY seq");
    let ours = ours.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
    let theirs = cells(role, "SELECT seq || ' ' || event_id FROM {s}.changes ORDER BY seq").await;
    (ours, theirs)
}

async fn same(place: &Place, role: &Role) {
    let (ours, theirs) = logs(place, role).await;
    assert!(ours.len() > 5, "{}", ours.len());
    assert_eq!(ours, theirs);
    let newest = "SELECT count(*) FROM leads";
    assert_eq!(place.number(newest), role.number("SELECT count(*) FROM {s}.leads").await);
}

/// Keeps the tables as they are under another name, or puts them back: a dump, and its restore.
async fn dump(role: &Role) {
    role.run(&format!("CREATE SCHEMA dump_{0}", role.name)).await;
    for table in tables(role).await {
        role.run(&format!("CREATE TABLE dump_{0}.{table} AS SELECT * FROM {0}.{table}", role.name))
            .await;
    }
}

async fn restore(role: &Role) {
    let mut sql = String::new();
    for table in tables(role).await {
        sql.push_str(&format!(
            "DELETE FROM {0}.{table}; INSERT INTO {0}.{table} SELECT * FROM dump_{0}.{table};",
            role.name
        ));
    }
    role.run(&format!("BEGIN; {sql} COMMIT")).await;
}

async fn tables(role: &Role) -> Vec<String> {
    cells(role, &format!("SELECT tablename FROM pg_tables WHERE schemaname = '{}'", role.name))
        .await
}

/// The log of the store and the accounts agree, and the counts of the sink did not change.
async fn sound(place: &Place) {
    let said = place.run(["verify"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[tokio::test]
async fn a_database_restored_from_an_older_dump_gets_what_it_lost_while_the_daemon_runs() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let (workspace, place) = delivered(&role, "").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 3).await;
    dump(&role).await;
    let kept = role.number("SELECT max(seq) FROM {s}.positions").await;
    add(&workspace, &place, 15).await;
    let lost = place.number("SELECT max(seq) FROM changes");
    // The connection stays open.
    restore(&role).await;
    assert_eq!(role.number("SELECT max(seq) FROM {s}.changes").await, kept);
    add(&workspace, &place, 1).await;
    same(&place, &role).await;
    let said = place.rows("SELECT last_error FROM sinks").remove(0);
    let words = format!("up to change {kept} only: {} to {lost}", kept + 1);
    assert!(said[0].as_str().unwrap().contains(&words), "{words}: {said:?} {}", place.log());
    let position = role.number("SELECT seq FROM {s}.positions").await;
    assert_eq!(position, place.number("SELECT max(seq) FROM changes"));
    let delivered = place.number("SELECT delivered FROM sinks");
    assert_eq!(delivered, place.number("SELECT count(*) FROM changes"), "counted once");
    sound(&place).await;
    daemon.stop().await;
    let log = place.log();
    assert_eq!(log.matches(&words).count(), 1, "it is said once: {log}");
}

#[tokio::test]
async fn a_schema_that_is_gone_is_made_and_filled_again_also_after_a_kill() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let (workspace, place) = delivered(&role, "").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 3).await;
    daemon.kill().await;
    role.run(&format!("DROP SCHEMA {} CASCADE", role.name)).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 1).await;
    same(&place, &role).await;
    sound(&place).await;
    // The log alone, under an open connection: the positions that say otherwise go with it.
    role.run(&format!("DROP TABLE {}.changes", role.name)).await;
    add(&workspace, &place, 1).await;
    same(&place, &role).await;
    // The positions alone: nothing is stored twice.
    role.run(&format!("DELETE FROM {}.positions", role.name)).await;
    add(&workspace, &place, 1).await;
    same(&place, &role).await;
    sound(&place).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_change_that_is_refused_when_it_is_stored_again_is_parked_and_the_accounts_stay_exact() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let (workspace, place) = delivered(&role, "").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 2).await;
    dump(&role).await;
    add(&workspace, &place, 3).await;
    let refused = place.number("SELECT max(seq) - 1 FROM changes");
    restore(&role).await;
    role.run(&format!(
        "ALTER TABLE {}.leads ADD CONSTRAINT c CHECK (_seq <> {refused})",
        role.name
    ))
    .await;
    add(&workspace, &place, 1).await;
    let (mut ours, theirs) = logs(&place, &role).await;
    ours.retain(|row| !row.starts_with(&format!("{refused} ")));
    assert_eq!(ours, theirs);
    assert_eq!(place.number("SELECT retrying FROM sinks"), 1);
    sound(&place).await;
    daemon.stop().await;
}

#[tokio::test]
async fn only_what_the_sink_asked_for_and_got_is_stored_again() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let more = "routes = [\"leads\"]\nchanges = [\"created\"]\nstart = \"now\"\nhold_above = 5\n";
    let (workspace, place) = delivered(&role, more).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 2).await;
    let got = "SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM {s}.changes";
    let before = cells(&role, got).await;
    // A flood that the operator drops is not lost: nothing is stored again for it.
    for _ in 0..9 {
        workspace.add(Route::Leads, json!({"name": "flood"}));
    }
    place.status_when("it is held", |status| status["sinks"][0]["state"] == "held").await;
    let said = place.run(["sinks", "release", "warehouse", "--skip"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    done(&place).await;
    daemon.kill().await;
    let daemon = place.started().await;
    assert_eq!(cells(&role, got).await, before);
    // What is lost comes back, from the place where the sink began.
    role.run(&format!("DROP SCHEMA {} CASCADE", role.name)).await;
    add(&workspace, &place, 1).await;
    let after = cells(&role, got).await;
    assert!(after[0].starts_with(&format!("{} ", before[0])), "{before:?} {after:?}");
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes WHERE kind <> 'created'").await, 0);
    sound(&place).await;
    daemon.stop().await;
}

#[tokio::test]
async fn versions_that_the_log_no_longer_has_are_named_and_the_rest_is_stored_again() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let (workspace, place) = delivered(&role, "").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 6).await;
    daemon.stop().await;
    // As retention does, which keeps the newest version of each record.
    let store = place.writer();
    let gone = "DELETE FROM changes WHERE seq IN (SELECT seq FROM changes ORDER BY seq LIMIT 2)";
    assert_eq!(store.execute(gone, []).unwrap(), 2);
    drop(store);
    role.run(&format!("DROP SCHEMA {} CASCADE", role.name)).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 1).await;
    let (ours, theirs) = logs(&place, &role).await;
    assert_eq!(ours, theirs);
    daemon.stop().await;
    let log = place.log();
    assert!(log.contains("2 of them are no longer in the log"), "{log}");
}

#[tokio::test]
async fn a_replay_fills_a_hole_that_an_earlier_program_left() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let (workspace, place) = delivered(&role, "").await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 5).await;
    role.run(&format!(
        "DELETE FROM {0}.changes WHERE seq BETWEEN 2 AND 6; DELETE FROM {0}.leads",
        role.name
    ))
    .await;
    let said = place.run(["replay", "warehouse", "--from", "2", "--rate", "1000/s"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let (ours, theirs) = logs(&place, &role).await;
    assert_eq!(ours, theirs);
    sound(&place).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_store_restored_from_an_older_backup_goes_on_and_never_mixes_with_what_is_there() {
    let Some(server) = Postgres::shared() else { return };
    for edited in [false, true] {
        let role = server.role().await;
        let (workspace, place) = delivered(&role, "").await;
        let daemon = place.started().await;
        workspace.all_polled().await;
        add(&workspace, &place, 3).await;
        let backup = place.path("older.db");
        let said = place.run(["backup", backup.to_str().unwrap()]).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        add(&workspace, &place, 2).await;
        let id = workspace.add(Route::Leads, json!({"name": "Zoë"}));
        workspace.polled(Route::Leads).await;
        done(&place).await;
        daemon.stop().await;
        let said = place.run(["restore", backup.to_str().unwrap()]).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        let higher = role.number("SELECT seq FROM {s}.positions").await;
        let held = "SELECT string_agg(seq || ' ' || event_id, ' ' ORDER BY seq) FROM {s}.changes";
        let before = cells(&role, held).await;
        if edited {
            workspace.edit(Route::Leads, &id, json!({"name": "Zoé"}));
        }
        let daemon = place.started().await;
        // The same records are read again: the same text is the same change, and another one is not.
        let again = || place.number("SELECT max(seq) FROM changes") >= higher;
        wait_until("they are stored again", again).await;
        let status = place
            .status_when("it has judged", |status| {
                let sink = &status["sinks"][0];
                sink["behind"] == 0 || sink["last_error"].is_string()
            })
            .await;
        let error = status["sinks"][0]["last_error"].as_str().unwrap_or_default().to_owned();
        assert_eq!(error.contains("is another change in the database"), edited, "{error}");
        assert!(role.number("SELECT seq FROM {s}.positions").await >= higher);
        assert_eq!(cells(&role, held).await, before, "what is there stays, and nothing is added");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_database_under_the_name_of_another_type_of_sink_gets_everything() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let postgres = section(&place, &role);
    let file = Place::file_sink("warehouse", "");
    let reload = async |daemon: &crate::support::Daemon, sinks: &str| {
        let before = place.log().matches(" running ").count();
        place.configure(sinks);
        daemon.signal(rustix::process::Signal::HUP);
        wait_until("it is reloaded", || place.log().matches(" running ").count() > before).await;
    };
    place.configure(&file);
    let daemon = place.started().await;
    workspace.all_polled().await;
    for _ in 0..2 {
        add(&workspace, &place, 3).await;
        reload(&daemon, &postgres).await;
        add(&workspace, &place, 1).await;
        same(&place, &role).await;
        reload(&daemon, &file).await;
    }
    sound(&place).await;
    daemon.stop().await;
}
