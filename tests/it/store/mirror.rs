//! The mirror: what each route shows stands in a table of its own, ready for any report tool.

use std::fs;
use std::time::SystemTime;

use rusqlite::Connection;
use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Pages, Place, Workspace, text, wait_until};

#[tokio::test]
async fn every_route_has_a_table_with_every_record_the_workspace_shows() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.daemon();
    workspace.all_polled().await;
    for route in Route::ALL {
        let table = route.segment().replace('-', "_");
        let mut truth: Vec<String> =
            workspace.sandbox.truth(route).iter().map(|t| t.record.get().to_owned()).collect();
        assert!(!truth.is_empty(), "the shop has {route}");
        truth.sort();
        let sql = format!(
            "SELECT c.body FROM \"{table}\" m JOIN changes c ON c.seq = m._seq ORDER BY c.body"
        );
        let mirrored: Vec<String> =
            place.rows(&sql).iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
        // A page shows the newest hundred.
        assert_eq!(mirrored.len(), truth.len().min(100), "{route}");
        assert!(mirrored.iter().all(|body| truth.binary_search(body).is_ok()), "{route}");
    }
    daemon.stop().await;
}

/// A daemon that has stored one page of leads.
async fn leads(body: &str) -> (Pages, Place, crate::support::Daemon) {
    let pages = Pages::start().await;
    pages.show("leads", body);
    let place = pages.place();
    let daemon = place.daemon();
    pages.polled("leads").await;
    (pages, place, daemon)
}

#[tokio::test]
async fn a_new_field_becomes_a_column_and_rows_without_it_hold_null() {
    let (pages, place, _daemon) = leads(r#"[{"id":1,"name":"Ann"}]"#).await;
    pages
        .shown("leads", r#"[{"id":2,"name":"Bo","source":"Walk-in"},{"id":1,"name":"Ann"}]"#)
        .await;
    assert_eq!(
        place.rows("SELECT id, name, source FROM leads ORDER BY id"),
        [json!(["1", "Ann", null]), json!(["2", "Bo", "Walk-in"])]
    );
    pages.shown("leads", r#"[{"id":2,"name":"Bo"},{"id":1,"name":"Ann","source":"Web"}]"#).await;
    assert_eq!(
        place.rows("SELECT id, source FROM leads ORDER BY id"),
        [json!(["1", "Web"]), json!(["2", null])],
        "a column outlives the field"
    );
}

#[tokio::test]
async fn a_field_may_change_its_type() {
    let (pages, place, _daemon) = leads(r#"[{"id":1,"x":7}]"#).await;
    for (sent, kept) in [
        (r#""seven""#, json!("seven")),
        ("7.25", json!(7.25)),
        ("true", json!(1)),
        (r#"[1,{"a":null}]"#, json!(r#"[1,{"a":null}]"#)),
        ("null", Value::Null),
    ] {
        pages.shown("leads", format!(r#"[{{"id":1,"x":{sent}}}]"#)).await;
        assert_eq!(place.rows("SELECT x FROM leads"), [json!([kept])], "{sent}");
    }
    assert_eq!(place.number("SELECT max(version) FROM changes"), 6);
}

#[tokio::test]
async fn names_that_differ_by_case_or_collide_with_ours_keep_their_data() {
    let (_pages, place, _daemon) = leads(
        r#"[{"id":1,"Name":"upper","name":"lower","_seq":"theirs","ID":"other","_business":"b","a\"b":"quote","select":"word"}]"#,
    )
    .await;
    let columns = place.rows("SELECT field, \"column\" FROM columns WHERE route = 'leads'");
    for (field, value) in [
        ("Name", "upper"),
        ("name", "lower"),
        ("_seq", "theirs"),
        ("ID", "other"),
        ("_business", "b"),
        ("a\"b", "quote"),
        ("select", "word"),
    ] {
        let row = columns.iter().find(|row| row[0] == field).unwrap_or_else(|| panic!("{field}"));
        let column = row[1].as_str().unwrap().replace('"', "\"\"");
        let kept = place.rows(&format!("SELECT \"{column}\" FROM leads"));
        assert_eq!(kept, [json!([value])], "{field} is kept in {column}");
    }
    assert_eq!(place.rows("SELECT id, _seq, _business FROM leads"), [json!(["1", 1, null])]);
}

#[tokio::test]
async fn fields_named_as_sqlite_names_the_row_number_are_columns_like_others() {
    let (_pages, place, _daemon) =
        leads(r#"[{"id":2,"rowid":"a","oid":"b","_ROWID_":"c"},{"id":1,"rowid":"d"}]"#).await;
    let columns = place.rows("SELECT field, \"column\" FROM columns WHERE field LIKE '%id%'");
    for (field, value) in [("rowid", "a"), ("oid", "b"), ("_ROWID_", "c")] {
        let row = columns.iter().find(|row| row[0] == field).unwrap_or_else(|| panic!("{field}"));
        let column = row[1].as_str().unwrap();
        let kept = place.rows(&format!("SELECT \"{column}\" FROM leads WHERE id = '2'"));
        assert_eq!(kept, [json!([value])], "{field} is kept in {column}");
    }
    let status = place.status().await;
    assert_eq!((&status["running"], &status["records"]["leads"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn values_are_kept_as_they_came() {
    let record = r#"{"id":1,"name":"Zoë Ünal 🛠 李","nested":{"b":[1, 2],"a":null},"list":[],"yes":true,"no":false,"gone":null,"price":-10.50,"big":9223372036854775807,"bigger":123456789012345678901234567890,"escaped":"a\u0000b\n"}"#;
    let (_pages, place, _daemon) = leads(&format!("[{record}]")).await;
    assert_eq!(
        place.rows("SELECT name, nested, list, yes, no, gone, price, big, bigger FROM leads"),
        [json!([
            "Zoë Ünal 🛠 李",
            r#"{"b":[1, 2],"a":null}"#,
            "[]",
            1,
            0,
            null,
            -10.5,
            9_223_372_036_854_775_807_i64,
            "123456789012345678901234567890"
        ])]
    );
    assert_eq!(place.number("SELECT length(CAST(escaped AS BLOB)) FROM leads"), 4);
    assert_eq!(place.rows("SELECT body FROM changes"), [json!([record])], "byte for byte");
}

/// In how many spans of some polls an unchanged file is looked for.
const SPANS: usize = 40;

#[tokio::test]
async fn an_unchanged_page_writes_nothing() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\"]"));
    let daemon = place.daemon();
    workspace.all_polled().await;
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("the sink is done", || place.number("SELECT position FROM sinks") == last).await;

    let reader = place.open().unwrap();
    let version =
        || reader.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();
    let files = || -> Vec<(u64, SystemTime)> {
        ["mirror.db", "mirror.db-wal"]
            .map(|name| fs::metadata(place.path(name)).unwrap())
            .map(|found| (found.len(), found.modified().unwrap()))
            .to_vec()
    };
    // Upkeep writes now and then; what is written with each page is written in each of these spans.
    let mut is_untouched = false;
    for _ in 0..SPANS {
        let before = (version(), files());
        workspace.all_polled().await;
        is_untouched = (version(), files()) == before;
        if is_untouched {
            break;
        }
    }
    assert!(is_untouched, "the files are changed with each page");
    let before = (version(), files());

    // The measure is able to see a write.
    workspace.add(Route::Leads, json!({}));
    wait_until("the new lead is stored", || version() != before.0).await;
    assert_ne!(files(), before.1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_table_that_a_tool_deleted_stops_its_own_route_alone_until_the_mirror_is_rebuilt() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let daemon = place.daemon();
    workspace.all_polled().await;
    daemon.stop().await;
    let before = place.rows("SELECT * FROM leads ORDER BY id");
    Connection::open(place.store()).unwrap().execute_batch("DROP TABLE leads").unwrap();

    let daemon = place.daemon();
    workspace.sandbox.burst(Route::Payments, 3);
    let payments = || place.number("SELECT count(*) FROM payments");
    wait_until("the other routes go on", || payments() == 103).await;
    wait_until("it is told", || place.log().contains("shopmirror rebuild")).await;
    let status = place.run(["status", "--json"]).await.json();
    assert_eq!(status["health"], "failing", "{status}");
    assert!(status["reasons"].to_string().contains("leads: its table is not in the"), "{status}");
    let held = place.run(["rebuild"]).await;
    assert_eq!(held.code, Some(75), "{held:?}");
    daemon.stop().await;
    for command in ["status", "check", "verify"] {
        let said = place.run([command]).await;
        assert!(said.out.contains("shopmirror rebuild"), "{command}: {said:?}");
    }
    let others: i64 = Route::ALL
        .iter()
        .filter(|route| **route != Route::Leads)
        .map(|route| {
            let table = route.segment().replace('-', "_");
            place.number(&format!("SELECT count(*) FROM {table}"))
        })
        .sum();
    let rebuilt = place.run(["rebuild", "--json"]).await;
    let all = others + i64::try_from(before.len()).unwrap();
    assert_eq!(rebuilt.json(), json!({"records": all}), "{rebuilt:?}");
    assert_eq!(place.rows("SELECT * FROM leads ORDER BY id"), before);
}

#[tokio::test]
async fn a_record_forgotten_beside_the_daemon_is_told_to_the_sinks_that_ask_and_stays_forgotten() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("told", "changes = [\"forgotten\"]"));
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let id = text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    let unknown = place.run(["forget", "leads", &id, "no-such-id"]).await;
    assert_eq!(unknown.code, Some(65), "{unknown:?}");
    assert!(unknown.err.contains("nothing was changed"), "{unknown:?}");
    assert_eq!(place.number("SELECT count(*) FROM forgotten"), 0);
    let other = text(&workspace.sandbox.truth(Route::Leads).iter().rev().nth(1).unwrap().id);
    let forgotten = place.run(["forget", "leads", &id, &other]).await;
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert_eq!(forgotten.out.matches("removed the data of").count(), 2, "{forgotten:?}");
    assert!(forgotten.out.contains("written anew"), "{forgotten:?}");
    workspace.edit(Route::Leads, &id, json!({"status": "Edited"}));
    wait_until("the sink is told", || place.lines("told.ndjson").len() == 2).await;
    let line = place.lines("told.ndjson").remove(0);
    assert_eq!((&line["kind"], &line["record_id"]), (&json!("forgotten"), &json!(id)));
    assert_eq!(line["record"].as_object().unwrap().len(), 1, "{line}");
    workspace.all_polled().await;
    let stored = place.number(&format!("SELECT count(*) FROM leads WHERE id = '{id}'"));
    assert_eq!(stored, 0);
}
