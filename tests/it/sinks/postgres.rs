//! PostgreSQL: exactly once, tables of several shops, text that it cannot hold, servers that fail.

mod daemon;
mod lost;
mod refused;
mod repaired;

use std::time::Duration;

use shopmirror::config::{PostgresSettings, SinkKind};
use shopmirror::record::{Change, Kind, Route};
use shopmirror::sink::{Sink, Verdict};

use super::{all_done, build, change, changes, deliver, deliver_one, is_fault, reason};
use crate::support::servers::postgres::{Postgres, Role};

/// The settings of a sink that writes to the schema of this name.
pub(super) fn sink_kind(url: &str, schema: &str, workspace: &str) -> SinkKind {
    SinkKind::Postgres(settings(url, schema, workspace))
}

fn settings(url: &str, schema: &str, workspace: &str) -> PostgresSettings {
    PostgresSettings {
        url: url.into(),
        ca_file: None,
        schema: schema.to_owned(),
        workspace: workspace.to_owned(),
        timeout: Duration::from_secs(60),
    }
}

fn sink(role: &Role) -> Sink {
    build(&sink_kind(&role.url, &role.name, "shop"))
}

/// The next version of a record, with this body.
fn version(seq: i64, id: &str, version: i64, kind: Kind, body: &str) -> Change {
    Change {
        record_id: Some(id.to_owned()),
        version,
        kind,
        body: body.to_owned(),
        observed_at: format!("2026-01-02T03:04:{:02}.000000Z", seq % 60),
        ..change(seq)
    }
}

async fn cells(role: &Role, sql: &str) -> Vec<String> {
    let rows = role.rows(sql).await;
    rows.into_iter()
        .map(|row| {
            row.into_iter().map(|c| c.unwrap_or("NULL".into())).collect::<Vec<_>>().join("|")
        })
        .collect()
}

#[tokio::test]
async fn rows_log_and_position_have_the_types_that_report_tools_expect() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut sink = sink(&role);
    let first = version(
        1,
        "00123",
        1,
        Kind::Baseline,
        r#"{"id":"00123","name":"Zoë","open":true,"amount":10.10,"tags":["a"],"none":null}"#,
    );
    let second = version(
        2,
        "00123",
        2,
        Kind::Updated,
        r#"{"id":"00123","name":"Zoé","open":false,"amount":11,"tags":[],"late":"x","none":null}"#,
    );
    assert_eq!(deliver_one(&mut sink, &first).await, Verdict::Done);
    assert_eq!(deliver_one(&mut sink, &second).await, Verdict::Done);
    assert_eq!(
        cells(
            &role,
            "SELECT workspace, id, name, open, amount, tags, \"none\", late, body->>'late', \
             _first_seen_at < _changed_at, _seq FROM {s}.leads"
        )
        .await,
        ["shop|00123|Zoé|false|11|[]|NULL|x|x|t|2"]
    );
    assert_eq!(
        cells(
            &role,
            "SELECT pg_typeof(id), pg_typeof(body), pg_typeof(_changed_at) FROM {s}.leads"
        )
        .await,
        ["text|jsonb|timestamp with time zone"]
    );
    assert_eq!(
        cells(&role, "SELECT seq, event_id, kind, body->>'name' FROM {s}.changes ORDER BY seq")
            .await,
        ["1|evt_0001|baseline|Zoë", "2|evt_0002|updated|Zoé"]
    );
    assert_eq!(
        cells(&role, "SELECT workspace, sink, seq, event_id FROM {s}.positions").await,
        ["shop|test|2|evt_0002"]
    );
}

#[tokio::test]
async fn what_is_handed_over_again_is_stored_once_however_it_is_portioned() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let given = changes(1..=40);
    assert!(all_done(&deliver(&mut sink(&role), &given).await));
    let mut restarted = sink(&role);
    assert!(all_done(&deliver(&mut restarted, &given[..1]).await));
    assert!(all_done(&deliver(&mut restarted, &changes(2..=50)).await));
    // A second sink of the same shop, with another filter.
    let kind = sink_kind(&role.url, &role.name, "shop");
    let mut other = Sink::build("other", &kind).unwrap();
    assert!(all_done(&deliver(&mut other, &changes(45..=55)).await));
    let counted = "SELECT count(*) FROM {s}.changes";
    assert_eq!(role.number(counted).await, 55);
    assert_eq!(role.number("SELECT count(DISTINCT event_id) FROM {s}.changes").await, 55);
    assert_eq!(role.number("SELECT count(*) FROM {s}.leads").await, 55);
    assert_eq!(
        cells(&role, "SELECT sink, seq FROM {s}.positions ORDER BY sink").await,
        ["other|55", "test|50"]
    );
}

#[tokio::test]
async fn text_that_postgresql_cannot_hold_loses_no_change_and_keeps_its_exact_form() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let bodies = [
        r#"{"id":1,"name":"a\u0000b","k\u0000":1}"#,
        r#"{"id":2,"name":"\ud800"}"#,
        r#"{"id":3,"name":1e99999}"#,
        r#"{"id":4,"name":"x'); DROP TABLE changes; --","a\"b'c\\d":"\\N","WORKSPACE":"w","_Seq":1}"#,
        r#"{"id":5,"name":"\u202e\ud83d\ude00 $1 %s {0}","name":"twice"}"#,
        "[]",
    ];
    let given: Vec<Change> = bodies
        .iter()
        .zip(1..)
        .map(|(body, seq)| version(seq, &seq.to_string(), 1, Kind::Created, body))
        .collect();
    let mut sink = sink(&role);
    assert!(all_done(&deliver(&mut sink, &given).await));
    let exact = cells(&role, "SELECT exact FROM {s}.changes ORDER BY seq").await;
    let kept: Vec<&str> = exact.iter().map(String::as_str).collect();
    assert_eq!(kept, [bodies[0], bodies[1], bodies[2], "NULL", "NULL", "NULL"]);
    assert_eq!(
        cells(&role, "SELECT name FROM {s}.leads ORDER BY id").await,
        ["a\u{fffd}b", "\u{fffd}", "1e99999", "x'); DROP TABLE changes; --", "twice", "NULL"]
    );
    assert_eq!(
        cells(
            &role,
            "SELECT \"a\"\"b'c\\d\", \"WORKSPACE_2\", \"_Seq_2\" FROM {s}.leads WHERE id = '4'"
        )
        .await,
        ["\\N|w|1"]
    );
}

#[tokio::test]
async fn an_older_version_never_replaces_a_newer_one_and_a_forgotten_record_stays_away() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut sink = sink(&role);
    let text = |name: &str| format!(r#"{{"id":7,"name":"{name}"}}"#);
    let first = version(1, "7", 1, Kind::Created, &text("first"));
    let second = version(2, "7", 2, Kind::Updated, &text("second"));
    let third = version(3, "7", 3, Kind::Updated, &text("third"));
    for change in [&third, &first] {
        assert_eq!(deliver_one(&mut sink, change).await, Verdict::Done);
        assert_eq!(cells(&role, "SELECT name FROM {s}.leads").await, ["third"]);
    }
    let forgotten = version(4, "7", 4, Kind::Forgotten, r#"{"id":7}"#);
    // Two of one record in one batch, the late version last.
    assert!(all_done(&deliver(&mut sink, &[forgotten, second]).await));
    assert_eq!(role.number("SELECT count(*) FROM {s}.leads").await, 0);
    assert_eq!(
        cells(&role, "SELECT seq, body, exact FROM {s}.changes ORDER BY seq").await,
        (1..=4).map(|seq| format!("{seq}|{{\"id\": 7}}|NULL")).collect::<Vec<_>>()
    );
    let gap =
        Change { record_id: None, kind: Kind::Gap, body: r#"{"estimate":7}"#.into(), ..change(5) };
    assert_eq!(deliver_one(&mut sink, &gap).await, Verdict::Done);
    assert_eq!(
        cells(&role, "SELECT kind, record_id FROM {s}.changes WHERE seq = 5").await,
        ["gap|NULL"]
    );
}

#[tokio::test]
async fn shops_in_one_schema_are_kept_apart_and_a_second_store_under_one_name_is_refused() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let shop = |name| build(&sink_kind(&role.url, &role.name, name));
    let (mut north, mut south) = (shop("north"), shop("south"));
    let other = |seq| Change { event_id: format!("evt_south_{seq}"), ..change(seq) };
    let (ours, theirs) = (changes(1..=5), (1..=3).map(other).collect::<Vec<_>>());
    // Both make the tables and their columns at the same time.
    let (first, second) = tokio::join!(deliver(&mut north, &ours), deliver(&mut south, &theirs));
    assert!(all_done(&first) && all_done(&second), "{first:?} {second:?}");
    assert_eq!(
        cells(&role, "SELECT workspace, count(*) FROM {s}.leads GROUP BY 1 ORDER BY 1").await,
        ["north|5", "south|3"]
    );
    let verdict = deliver_one(&mut shop("north"), &other(2)).await;
    assert!(is_fault(&verdict), "{verdict:?}");
    for words in
        ["change 2 is another", "give each store its own `workspace`", "WHERE seq >= 2 AND"]
    {
        assert!(reason(&verdict).contains(words), "{verdict:?}");
    }
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes").await, 8);
}

#[tokio::test]
async fn a_connection_cut_in_mid_transaction_stores_nothing_and_then_everything_once() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut sink = sink(&role);
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    // The log can be written to, the mirror cannot: the transaction waits in its middle.
    role.run(&format!("BEGIN; LOCK TABLE {}.leads IN ACCESS EXCLUSIVE MODE", role.name)).await;
    let given = changes(3..=9);
    let cut = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
             AND relation = '{s}.leads'::regclass";
        while role.number(waiting).await != 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        role.cut().await;
        role.run("COMMIT").await;
    };
    let (verdicts, ()) = tokio::join!(deliver(&mut sink, &given), cut);
    assert!(verdicts.iter().all(is_fault), "{verdicts:?}");
    assert!(reason(&verdicts[0]).contains("wait until the server runs again"), "{verdicts:?}");
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes").await, 2);
    assert!(all_done(&deliver(&mut sink, &given).await));
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes").await, 9);
    assert_eq!(role.number("SELECT count(*) FROM {s}.leads").await, 9);
}

#[tokio::test]
async fn each_route_has_its_table_and_grows_by_the_fields_of_its_records() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut sink = sink(&role);
    for (seq, route) in (1..).zip(Route::ALL) {
        let body = format!(r#"{{"id":{seq},"of_{route}":"x"}}"#);
        let one = Change { route, body, ..change(seq) };
        assert_eq!(deliver_one(&mut sink, &one).await, Verdict::Done);
        let sql = format!("SELECT of_{route} FROM {{s}}.{route}");
        assert_eq!(cells(&role, &sql).await, ["x"]);
    }
    let wide: String = (0..400).map(|n| format!(r#","f{n}":{n}"#)).collect();
    let wide = version(20, "20", 1, Kind::Created, &format!(r#"{{"id":20{wide}}}"#));
    assert_eq!(deliver_one(&mut sink, &wide).await, Verdict::Done);
    assert_eq!(
        role.number("SELECT count(*) FROM {s}.columns WHERE route = 'leads'").await,
        256,
        "the rest is in the body only"
    );
    assert_eq!(cells(&role, "SELECT body->>'f399' FROM {s}.leads WHERE id = '20'").await, ["399"]);
}

#[tokio::test]
async fn tables_that_an_administrator_partitioned_by_shop_are_used() {
    let Some(server) = Postgres::shared() else { return };
    let plain = server.role().await;
    assert!(all_done(&deliver(&mut sink(&plain), &changes(1..=1)).await));
    let role = server.role().await;
    let (from, to) = (&plain.name, &role.name);
    role.run(&format!("CREATE SCHEMA {to} AUTHORIZATION {to}")).await;
    for table in ["changes", "positions"].into_iter().chain(Route::ALL.map(Route::as_str)) {
        let mut sql = format!(
            "CREATE TABLE {to}.{table} (LIKE {from}.{table} INCLUDING ALL) PARTITION BY HASH (workspace);\
             ALTER TABLE {to}.{table} OWNER TO {to};"
        );
        for part in 0..2 {
            sql.push_str(&format!(
                "CREATE TABLE {to}.{table}_{part} PARTITION OF {to}.{table} \
                 FOR VALUES WITH (MODULUS 2, REMAINDER {part}); ALTER TABLE {to}.{table}_{part} OWNER TO {to};"
            ));
        }
        role.run(&sql).await;
    }
    for (shop, given) in [("north", changes(1..=5)), ("south", changes(1..=3))] {
        let mut sink = build(&sink_kind(&role.url, &role.name, shop));
        for _ in 0..2 {
            let verdicts = deliver(&mut sink, &given).await;
            assert!(all_done(&verdicts), "{verdicts:?}");
        }
    }
    assert_eq!(
        cells(&role, "SELECT workspace, count(*) FROM {s}.leads GROUP BY 1 ORDER BY 1").await,
        ["north|5", "south|3"]
    );
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes").await, 8);
}

#[tokio::test]
async fn the_report_view_of_the_documents_gives_types_and_no_error() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let payment = |seq: i64, body: &str| Change {
        route: Route::Payments,
        record_id: Some(if seq == 2 { "P-7".to_owned() } else { seq.to_string() }),
        body: body.to_owned(),
        ..change(seq)
    };
    let given = [
        payment(1, r#"{"id":1,"amount":10.5,"created_at":"2026-01-02T20:00:00.000000Z"}"#),
        payment(2, r#"{"id":"P-7","amount":"ten","created_at":"yesterday"}"#),
        payment(3, r#"{"id":3}"#),
    ];
    assert!(all_done(&deliver(&mut sink(&role), &given).await));
    let text = include_str!("../../../docs/sinks.md");
    let view = text.split("```sql\n").find(|block| block.starts_with("CREATE VIEW")).unwrap();
    let view = view.split("```").next().unwrap().replace("shopmirror.", &format!("{}.", role.name));
    role.run(&view).await;
    assert_eq!(
        cells(&role, "SELECT id, amount * 2, created_at + interval '1 hour' FROM {s}.report_payments ORDER BY body->>'id'").await,
        ["1|21.0|2026-01-03 02:30:00", "3|NULL|NULL", "NULL|NULL|NULL"]
    );
}
