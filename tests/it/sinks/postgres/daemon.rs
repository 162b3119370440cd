//! The whole daemon with a database that lost what it had, or that belongs to another store.

use sandbox::Route;
use serde_json::{Value, json};

use super::cells;
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::{Place, Workspace, wait_until};

/// A workspace, and a place whose daemon stores everything in the role's schema.
async fn mirrored(role: &Role) -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("url", &role.url);
    configure(&place, role, "north");
    (workspace, place)
}

/// Lets the place store everything in the role's schema under this name.
fn configure(place: &Place, role: &Role, workspace: &str) {
    place.configure(&format!(
        "[sinks.warehouse]\ntype = \"postgres\"\nurl_file = \"url\"\nschema = \"{}\"\n\
         workspace = \"{workspace}\"\n",
        role.name
    ));
}

/// Waits until the sink has the whole log.
async fn done(place: &Place) {
    let last = || place.number("SELECT max(seq) FROM changes");
    wait_until("the sink is done", || place.is_delivered(last())).await;
}

/// Adds leads to the workspace, and waits until the sink has passed them.
async fn add(workspace: &Workspace, place: &Place, count: usize) {
    for _ in 0..count {
        workspace.add(Route::Leads, json!({"name": "Zoë"}));
    }
    workspace.polled(Route::Leads).await;
    done(place).await;
}

/// The log in the store and the log in the database are the same rows, and so are the mirrors.
async fn same(place: &Place, role: &Role) {
    let columns = "seq, event_id, route, coalesce(record_id, ''), kind, version";
    let mut tables = vec![("changes".to_owned(), columns, "seq")];
    let of_route = |route: Route| (route.segment().replace('-', "_"), "id, _seq", "_seq");
    tables.extend(Route::ALL.map(of_route));
    for (table, columns, order) in tables {
        let ours = place.rows(&format!(
            "SELECT {columns} FROM \"{table}\" ORDER BY {order}"
        ));
        let sql = format!("SELECT json_build_array({columns}) FROM {{s}}.{table} ORDER BY {order}");
        let theirs = cells(role, &sql).await;
        let theirs: Vec<Value> = theirs
            .iter()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        assert_eq!(ours, theirs, "{table}");
    }
}

/// Statements that put every table of the role's schema into another one, or back: a dump and its
/// restore.
async fn copied(role: &Role, statements: &str) -> String {
    let sql = format!(
        "SELECT tablename FROM pg_tables WHERE schemaname = '{}'",
        role.name
    );
    let tables = cells(role, &sql).await;
    let of = |table: &String| statements.replace("{t}", table).replace("{s}", &role.name);
    tables.iter().map(of).collect()
}

#[tokio::test]
async fn a_database_that_lost_what_it_had_gets_it_again_before_anything_new() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let (workspace, place) = mirrored(&role).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 3).await;
    role.run(&format!("CREATE SCHEMA dump_{}", role.name)).await;
    let dump = copied(&role, "CREATE TABLE dump_{s}.{t} AS SELECT * FROM {s}.{t};").await;
    role.run(&dump).await;
    let kept = role.number("SELECT max(seq) FROM {s}.positions").await;
    add(&workspace, &place, 15).await;
    let lost = place.number("SELECT max(seq) FROM changes");
    // An older dump is restored; the connection stays open.
    let restore = "DELETE FROM {s}.{t}; INSERT INTO {s}.{t} SELECT * FROM dump_{s}.{t};";
    let restore = copied(&role, restore).await;
    role.run(&format!("BEGIN; {restore} COMMIT")).await;
    assert_eq!(role.number("SELECT max(seq) FROM {s}.changes").await, kept);
    add(&workspace, &place, 1).await;
    same(&place, &role).await;
    let words = format!("up to change {kept} only: {} to {lost}", kept + 1);
    assert_eq!(
        place.log().matches(&words).count(),
        1,
        "it is said once: {}",
        place.log()
    );
    let delivered = place.number("SELECT delivered FROM _sinks");
    assert_eq!(
        delivered,
        place.number("SELECT count(*) FROM changes"),
        "counted once"
    );
    // The schema is gone after a kill, and then tables of it, under an open connection.
    daemon.kill().await;
    role.run(&format!("DROP SCHEMA {} CASCADE", role.name))
        .await;
    let daemon = place.started().await;
    for gone in [
        "SELECT 1",
        "DROP TABLE {s}.changes",
        "DELETE FROM {s}.positions",
        "DROP TABLE {s}.leads",
    ] {
        role.run(&gone.replace("{s}", &role.name)).await;
        workspace.all_polled().await;
        add(&workspace, &place, 1).await;
        same(&place, &role).await;
    }
    let said = place.run(["verify"]).await;
    assert_eq!(
        said.code,
        Some(0),
        "the accounts of the sink agree: {said:?}"
    );
    // What is forgotten is forgotten there as well.
    let id = workspace.add(Route::Leads, json!({"name": "Ann Private"}));
    add(&workspace, &place, 1).await;
    let named = "SELECT count(*) FROM {s}.changes WHERE body::text LIKE '%Ann Private%'";
    assert_eq!(role.number(named).await, 1);
    assert_eq!(place.run(["forget", "leads", &id]).await.code, Some(0));
    add(&workspace, &place, 1).await;
    assert_eq!(role.number(named).await, 0);
    same(&place, &role).await;
    daemon.stop().await;
}

#[tokio::test]
async fn under_a_workspace_name_that_another_store_uses_nothing_is_stored_or_removed() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let (workspace, ours) = mirrored(&role).await;
    let (_elsewhere, theirs) = mirrored(&role).await;
    let daemon = ours.started().await;
    workspace.all_polled().await;
    add(&workspace, &ours, 3).await;
    let other = theirs.started().await;
    let said = "give this sink a `workspace` name that no store uses";
    wait_until("the second store says it", || theirs.log().contains(said)).await;
    assert!(!theirs.log().contains("DELETE"), "{}", theirs.log());
    other.stop().await;
    same(&ours, &role).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_database_that_is_ahead_of_a_store_that_was_put_back_passes_over_no_change() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let (workspace, place) = mirrored(&role).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    add(&workspace, &place, 3).await;
    daemon.stop().await;
    // As `cp` of a stopped mirror.
    let kept = ["mirror.db", "mirror.db-wal"].map(|name| std::fs::read(place.path(name)).unwrap());
    let daemon = place.started().await;
    add(&workspace, &place, 9).await;
    daemon.stop().await;
    for (name, bytes) in ["mirror.db", "mirror.db-wal"].iter().zip(kept) {
        std::fs::write(place.path(name), bytes).unwrap();
    }
    std::fs::remove_file(place.path("mirror.db-shm")).unwrap();
    // A page shows none of the nine any more: other changes get their numbers.
    for _ in 0..120 {
        workspace.add(Route::Leads, json!({"name": "Quite another"}));
    }
    let before = place.number("SELECT max(seq) FROM changes");
    let daemon = place.started().await;
    let said = "give this sink a `workspace` name that no store uses";
    wait_until("it says so", || place.log().contains(said)).await;
    daemon.stop().await;
    let stored = place.number("SELECT max(seq) FROM changes");
    assert!(stored > before + 50, "{before} {stored}");
    let waiting = "SELECT (SELECT count(*) FROM _queue) \
                   + (SELECT count(*) FROM changes, _sinks WHERE seq > position)";
    assert_eq!(place.number(waiting), stored - before, "each of them waits");

    configure(&place, &role, "north-2");
    let daemon = place.started().await;
    done(&place).await;
    let theirs = "SELECT count(*) FROM {s}.changes WHERE workspace = 'north-2'";
    let ours = place.number("SELECT count(*) FROM changes");
    assert_eq!(role.number(theirs).await, ours);
    daemon.stop().await;
}
