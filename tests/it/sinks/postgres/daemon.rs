//! The whole daemon with a database: kills, reloads, a server that goes away.

use std::time::{Duration, Instant};

use sandbox::Route;
use serde_json::{Value, json};

use crate::missed::restart::work;
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::{Place, Workspace, wait_until};

const KILLS: usize = 8;

/// The text of a sink that writes to the role's schema.
pub(super) fn section(place: &Place, role: &Role) -> String {
    place.write("url", &role.url);
    format!(
        "[sinks.warehouse]\ntype = \"postgres\"\nurl_file = \"url\"\nschema = \"{}\"\nworkspace = \"north\"\n",
        role.name
    )
}

/// Waits until the sink has the whole log.
pub(super) async fn done(place: &Place) {
    let behind = "SELECT count(*) FROM sinks WHERE position < (SELECT max(seq) FROM changes)";
    wait_until("the sink is done", || place.number(behind) == 0).await;
}

/// The log in the store and the log in the database are the same rows, and so are the mirrors.
async fn same(place: &Place, role: &Role) {
    let ours = place
        .rows("SELECT seq, event_id, route, record_id, kind, version FROM changes ORDER BY seq");
    let theirs = role
        .rows(
            "SELECT json_build_array(seq, event_id, route, coalesce(record_id, ''), kind, version) \
               FROM {s}.changes ORDER BY seq",
        )
        .await;
    let theirs: Vec<Value> =
        theirs.iter().map(|row| serde_json::from_str(row[0].as_ref().unwrap()).unwrap()).collect();
    assert!(ours.len() > 500, "{}", ours.len());
    assert_eq!(ours, theirs);
    for route in Route::ALL {
        let table = route.segment().replace('-', "_");
        let sql = format!("SELECT id, _seq FROM \"{table}\" ORDER BY _seq");
        let ours = place.rows(&sql);
        let theirs = role
            .rows(&format!("SELECT json_build_array(id, _seq) FROM {{s}}.{table} ORDER BY _seq"))
            .await;
        let theirs: Vec<Value> =
            theirs.iter().map(|r| serde_json::from_str(r[0].as_ref().unwrap()).unwrap()).collect();
        assert_eq!(ours, theirs, "{table}");
    }
}

#[tokio::test]
async fn a_kill_at_any_instant_loses_and_repeats_nothing_in_the_database() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&section(&place, &role));
    let mut random = fastrand::Rng::with_seed(11);
    for kill in 0..KILLS {
        let daemon = place.started().await;
        work(&workspace, &mut random);
        match kill % 3 {
            // The database goes away under it as well.
            0 => role.cut().await,
            1 => role.admit(false).await,
            _ => {}
        }
        let at = Instant::now() + Duration::from_millis(random.u64(20..400));
        wait_until("the moment has come", || Instant::now() >= at).await;
        daemon.kill().await;
        role.admit(true).await;
    }
    let daemon = place.started().await;
    work(&workspace, &mut random);
    workspace.all_polled().await;
    done(&place).await;
    daemon.kill().await;
    // As if no position had been saved since the beginning: everything is handed over again.
    let store = place.writer();
    store.execute("UPDATE sinks SET position = 0", []).unwrap();
    drop(store);
    let daemon = place.started().await;
    done(&place).await;
    // What the database refuses twice would become a dead letter in time.
    assert_eq!(place.number("SELECT count(*) FROM deliveries"), 0);
    same(&place, &role).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_forgotten_record_leaves_the_database_and_check_names_the_sink() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&section(&place, &role));
    let said = place.run(["check", "--sink", "warehouse"]).await;
    assert!(said.out.contains("will be made by the first delivery"), "{said:?}");
    let daemon = place.started().await;
    workspace.all_polled().await;
    let id = workspace.add(Route::Leads, json!({"name": "Ann Private"}));
    workspace.polled(Route::Leads).await;
    done(&place).await;
    let named = "SELECT count(*) FROM {s}.changes WHERE body::text LIKE '%Ann Private%'";
    assert_eq!(role.number(named).await, 1);
    let said = place.run(["forget", "leads", &id]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    workspace.polled(Route::Leads).await;
    done(&place).await;
    assert_eq!(role.number(named).await, 0);
    same(&place, &role).await;
    // Down: the status names the sink and its remedy, and the daemon goes on.
    role.admit(false).await;
    workspace.add(Route::Leads, json!({}));
    let status = place
        .status_when("the fault shows", |status| {
            status["sinks"][0]["last_error"]
                .as_str()
                .is_some_and(|error| error.contains("SQLSTATE"))
        })
        .await;
    assert_eq!(status["sinks"][0]["name"], "warehouse");
    role.admit(true).await;
    daemon.signal(rustix::process::Signal::HUP);
    done(&place).await;
    same(&place, &role).await;
    daemon.stop().await;
}
