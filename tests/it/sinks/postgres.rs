//! PostgreSQL: types, tables of several shops, text that it cannot hold, missing rights.

mod daemon;

use std::time::Duration;

use shopmirror_core::reading::{ReadRules, Rule};
use shopmirror_core::record::{Change, Kind, Route};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use shopmirror::config::{PostgresSettings, SinkKind};
use shopmirror::sink::{Sink, Verdict};

use super::webhook::Log;
use super::{all_done, build, change, changes, deliver, deliver_one, fault_says, kind_of, reason};
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::servers::{certificate, kept_port};

/// The settings of a sink that writes to the schema of this name.
fn sink_kind(url: &str, schema: &str, workspace: &str) -> SinkKind {
    SinkKind::Postgres(settings(url, schema, workspace))
}

fn settings(url: &str, schema: &str, workspace: &str) -> PostgresSettings {
    PostgresSettings {
        url: url.into(),
        ca_file: None,
        schema: schema.to_owned(),
        workspace: workspace.to_owned(),
        timeout: Duration::from_secs(120),
    }
}

fn sink(role: &Role) -> Box<dyn Sink> {
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
            row.into_iter()
                .map(|c| c.unwrap_or("NULL".into()))
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect()
}

#[tokio::test]
async fn a_record_whose_id_is_used_again_is_first_seen_when_it_is_created() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    let first = version(1, "7", 1, Kind::Created, r#"{"id":"7"}"#);
    let another = version(2, "7", 2, Kind::Created, r#"{"id":"7","name":"Ann"}"#);
    let edited = version(3, "7", 3, Kind::Updated, r#"{"id":"7","name":"Bob"}"#);
    for change in [first, another, edited] {
        assert_eq!(deliver_one(&mut sink, &change).await, Verdict::Done);
    }
    let seen = "SELECT extract(second FROM _first_seen_at)::int, name FROM {s}.leads";
    assert_eq!(cells(&role, seen).await, ["2|Bob"]);
}

#[tokio::test]
async fn rows_log_and_position_have_the_types_that_report_tools_expect() {
    let Some(server) = Postgres::shared() else {
        return;
    };
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
        cells(
            &role,
            "SELECT seq, event_id, kind, body->>'name' FROM {s}.changes ORDER BY seq"
        )
        .await,
        ["1|evt_0001|baseline|Zoë", "2|evt_0002|updated|Zoé"]
    );
    assert_eq!(
        cells(
            &role,
            "SELECT workspace, sink, seq, event_id FROM {s}.positions"
        )
        .await,
        ["shop|erp|2|evt_0002"]
    );
}

#[tokio::test]
async fn what_reports_calculate_with_has_a_type_and_is_read_again_by_other_rules() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    let lead = |seq: i64, due: &str| {
        let body = format!(
            r#"{{"id":{seq},"created_at":"2026-11-27T09:30:00Z","next_follow_up":"{due}"}}"#
        );
        version(seq, &seq.to_string(), 1, Kind::Baseline, &body)
    };
    let payment = Change {
        route: Route::Payments,
        body: r#"{"id":3,"amount":"1.234"}"#.to_owned(),
        ..change(3)
    };
    let three = [lead(1, "2026-11-27"), lead(2, "05/11/2026"), payment];
    assert!(all_done(&deliver(&mut sink, &three).await));
    let leads = "SELECT _created_at AT TIME ZONE 'UTC', pg_typeof(_next_follow_up), _next_follow_up, \
                 _unreadable FROM {s}.leads ORDER BY id";
    assert_eq!(
        cells(&role, leads).await,
        [
            "2026-11-27 09:30:00|date|2026-11-27|NULL",
            "2026-11-27 09:30:00|date|NULL|[\"next_follow_up\"]",
        ]
    );
    let payments = "SELECT pg_typeof(_amount), _amount, _amount_sign FROM {s}.payments";
    assert_eq!(cells(&role, payments).await, ["numeric|NULL|1"]);

    let of_field = |field: &str, rule| [(field.to_owned(), vec![rule])].into();
    sink.read_by(ReadRules {
        rules: [
            (Route::Leads, of_field("next_follow_up", Rule::DayFirst)),
            (Route::Payments, of_field("amount", Rule::DecimalComma)),
        ]
        .into(),
        ..ReadRules::default()
    });
    assert!(all_done(
        &deliver(&mut sink, &[lead(4, "06/11/2026")]).await
    ));
    assert_eq!(
        cells(&role, leads).await,
        [
            "2026-11-27 09:30:00|date|2026-11-27|NULL",
            "2026-11-27 09:30:00|date|2026-11-05|NULL",
            "2026-11-27 09:30:00|date|2026-11-06|NULL",
        ]
    );
    assert_eq!(cells(&role, payments).await, ["numeric|1234|NULL"]);
}

#[tokio::test]
async fn a_record_that_is_gone_from_its_list_keeps_its_row_with_a_mark_until_it_is_shown_again() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    let body = r#"{"id":7,"name":"Ann"}"#;
    let rows = "SELECT name, _vanished_at IS NULL, _seq FROM {s}.leads";
    let mut seen = Vec::new();
    for (seq, kind) in [(1, Kind::Created), (2, Kind::Vanished), (3, Kind::Updated)] {
        let change = version(seq, "7", seq, kind, body);
        assert_eq!(deliver_one(&mut sink, &change).await, Verdict::Done);
        seen.extend(cells(&role, rows).await);
    }
    assert_eq!(seen, ["Ann|t|1", "Ann|f|2", "Ann|t|3"]);
}

#[tokio::test]
async fn text_that_postgresql_cannot_hold_loses_no_change_and_keeps_its_exact_form() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let bodies = [
        r#"{"id":1,"name":"a\u0000b","k\u0000":1}"#,
        r#"{"id":2,"name":"\ud800"}"#,
        r#"{"id":3,"name":"x'); DROP TABLE changes; --","a\"b'c\\d":"\\N","WORKSPACE":"w","_Seq":1,"_seq":2}"#,
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
    assert_eq!(kept, [bodies[0], bodies[1], "NULL", "NULL"]);
    assert_eq!(
        cells(&role, "SELECT name FROM {s}.leads ORDER BY id").await,
        [
            "a\u{fffd}b",
            "\u{fffd}",
            "x'); DROP TABLE changes; --",
            "NULL"
        ]
    );
    assert_eq!(
        cells(
            &role,
            "SELECT \"a\"\"b'c\\d\", \"WORKSPACE\", \"_Seq\", body ->> '_seq' FROM {s}.leads WHERE id = '3'"
        )
        .await,
        ["\\N|w|1|2"]
    );
}

#[tokio::test]
async fn an_older_version_never_replaces_a_newer_one_and_a_forgotten_record_stays_away() {
    let Some(server) = Postgres::shared() else {
        return;
    };
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
        cells(
            &role,
            "SELECT seq, body, exact FROM {s}.changes ORDER BY seq"
        )
        .await,
        (1..=4)
            .map(|seq| format!("{seq}|{{\"id\": 7}}|NULL"))
            .collect::<Vec<_>>()
    );
    let gap = Change {
        record_id: None,
        kind: Kind::Gap,
        body: r#"{"estimate":7}"#.into(),
        ..change(5)
    };
    assert_eq!(deliver_one(&mut sink, &gap).await, Verdict::Done);
    assert_eq!(
        cells(
            &role,
            "SELECT kind, record_id FROM {s}.changes WHERE seq = 5"
        )
        .await,
        ["gap|NULL"]
    );
}

#[tokio::test]
async fn shops_in_one_schema_are_kept_apart_and_a_second_store_under_one_name_is_refused() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let shop = |name| build(&sink_kind(&role.url, &role.name, name));
    let (mut north, mut south) = (shop("north"), shop("south"));
    let other = |seq| Change {
        event_id: format!("evt_south_{seq}"),
        ..change(seq)
    };
    let (ours, theirs) = (changes(1..=5), (1..=3).map(other).collect::<Vec<_>>());
    // Both make the tables and their columns at the same time.
    let (first, second) = tokio::join!(deliver(&mut north, &ours), deliver(&mut south, &theirs));
    assert!(
        all_done(&first) && all_done(&second),
        "{first:?} {second:?}"
    );
    // As after a kill: the same again, in other portions.
    for part in [&ours[1..4], &ours[..]] {
        assert!(all_done(&deliver(&mut shop("north"), part).await));
    }
    assert_eq!(
        cells(
            &role,
            "SELECT workspace, count(*) FROM {s}.leads GROUP BY 1 ORDER BY 1"
        )
        .await,
        ["north|5", "south|3"]
    );
    let words = "change 2 in the database is that of another store";
    fault_says(&mut shop("north"), &other(2), words).await;
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes").await, 8);
}

#[tokio::test]
async fn only_the_changes_are_refused_that_break_a_rule_of_the_shop_or_have_too_large_a_number() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let name = |seq| {
        [
            "", "\"good\"", "\"BAD\"", "\"good\"", "1e200000", "\"good\"",
        ][seq]
    };
    let given = [1, 2, 3, 4, 5].map(|seq| {
        let body = format!(r#"{{"name":{}}}"#, name(seq));
        let seq = i64::try_from(seq).unwrap();
        version(seq, &seq.to_string(), 1, Kind::Created, &body)
    });
    assert!(all_done(&deliver(&mut sink(&role), &given[..1]).await));
    role.run(&format!(
        "ALTER TABLE {}.leads ADD CHECK (name <> 'BAD')",
        role.name
    ))
    .await;
    let verdicts = deliver(&mut sink(&role), &given).await;
    let expected = ["done", "refused", "done", "refused", "done"];
    assert_eq!(
        verdicts.iter().map(kind_of).collect::<Vec<_>>(),
        expected,
        "{verdicts:?}"
    );
    for refused in [&verdicts[1], &verdicts[3]] {
        assert!(
            reason(refused).contains("PostgreSQL cannot hold this change"),
            "{verdicts:?}"
        );
    }
}

#[tokio::test]
async fn a_new_column_waits_for_an_open_report_and_delays_neither_the_rows_nor_other_readers() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    let lead = |seq: i64, body: &str| version(seq, &seq.to_string(), 1, Kind::Created, body);
    let first = lead(1, r#"{"id":1,"name":"Ann"}"#);
    assert_eq!(deliver_one(&mut sink, &first).await, Verdict::Done);
    let report = format!("BEGIN; SELECT count(*) FROM {}.leads", role.name);
    role.run(&report).await;
    let (log, logging) = Log::recorded();
    let second = lead(2, r#"{"id":2,"name":"Bo","colour":"red"}"#);
    assert_eq!(deliver_one(&mut sink, &second).await, Verdict::Done);
    // Not tried again at once.
    let third = lead(3, r#"{"id":3,"colour":"blue"}"#);
    assert_eq!(deliver_one(&mut sink, &third).await, Verdict::Done);
    drop(logging);
    let log = log.text();
    let words = " of \"admin\" (\"\") keeps the table leads from getting new columns";
    assert_eq!(log.matches(words).count(), 1, "{log}");
    assert_eq!(role.number("SELECT count(*) FROM {s}.leads").await, 3);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
         AND relation = '{s}.leads'::regclass";
    assert_eq!(role.number(waiting).await, 0);
    role.run("COMMIT").await;

    // Another daemon adds it, and fills what this one has stored.
    let mut other = self::sink(&role);
    let fourth = lead(4, r#"{"id":4,"name":"Di"}"#);
    assert_eq!(deliver_one(&mut other, &fourth).await, Verdict::Done);
    assert_eq!(
        cells(&role, "SELECT id, name, colour FROM {s}.leads ORDER BY id").await,
        ["1|Ann|NULL", "2|Bo|red", "3|NULL|blue", "4|Di|NULL"]
    );
    assert_eq!(
        role.number("SELECT count(*) FROM {s}.pending_columns")
            .await,
        0
    );
    assert_eq!(
        deliver_one(&mut sink, &lead(5, r#"{"id":5,"colour":"tin"}"#)).await,
        Verdict::Done
    );
    let last = "SELECT colour FROM {s}.leads WHERE id = '5'";
    assert_eq!(cells(&role, last).await, ["tin"]);
}

#[tokio::test]
async fn a_database_that_is_set_to_read_only_is_not_called_a_standby() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    role.run(&format!(
        "ALTER ROLE {} SET default_transaction_read_only = on",
        role.name
    ))
    .await;
    let mut fresh = self::sink(&role);
    let words = format!(
        "ALTER ROLE \"{}\" SET default_transaction_read_only = off",
        role.name
    );
    fault_says(&mut fresh, &change(2), &words).await;
    let probed = fresh.check().await.unwrap_err().to_string();
    assert!(
        probed.contains(&words) && !probed.contains("standby"),
        "{probed}"
    );
    role.run(&format!(
        "ALTER ROLE {} SET default_transaction_read_only = off",
        role.name
    ))
    .await;
    assert_eq!(deliver_one(&mut fresh, &change(2)).await, Verdict::Done);
}

#[tokio::test]
async fn a_table_that_was_changed_by_hand_is_said_and_made_again_when_it_is_dropped() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let mut sink = sink(&role);
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    for change in [
        "ALTER TABLE {s}.leads RENAME COLUMN name TO full_name",
        "ALTER TABLE {s}.leads ALTER COLUMN name TYPE integer USING NULL",
        "ALTER TABLE {s}.leads DROP CONSTRAINT leads_pkey",
    ] {
        role.run(&change.replace("{s}", &role.name)).await;
        fault_says(
            &mut sink,
            &super::change(4),
            "rename or drop the table: it is made again",
        )
        .await;
        let said = sink.check().await.unwrap_err().to_string();
        assert!(said.contains("name another `schema`"), "{change}: {said}");
        role.run(&format!("DROP TABLE {}.leads", role.name)).await;
        assert_eq!(
            deliver_one(&mut sink, &super::change(4)).await,
            Verdict::Done,
            "{change}"
        );
        let rows = cells(
            &role,
            "SELECT id, _seq, name = body ->> 'name' FROM {s}.leads ORDER BY _seq",
        );
        let rows = rows.await;
        assert!(
            rows.len() == 4 && rows.iter().all(|row| row.ends_with("|t")),
            "{change}: {rows:?}"
        );
        role.run(&format!(
            "DELETE FROM {0}.changes WHERE seq = 4; DELETE FROM {0}.leads WHERE _seq = 4",
            role.name
        ))
        .await;
    }
}

#[tokio::test]
async fn the_documented_statements_give_a_new_role_all_that_it_needs() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let page = include_str!("../../../docs/sinks/postgres.md");
    let (_, rights) = page.split_once("```sql rights\n").unwrap();
    let (statements, _) = rights.split_once("```").unwrap();
    let name = format!("new_{}", role.name);
    for statement in statements.lines() {
        role.run(&statement.replace("shop", &name)).await;
    }
    let (place, _) = role.url.rsplit_once('/').unwrap();
    let url =
        format!("{place}/{name}").replace(&format!("//{}@", role.name), &format!("//{name}@"));
    let mut sink = build(&sink_kind(&url, "shopmirror", "shop"));
    sink.check().await.unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
}

#[tokio::test]
async fn what_cannot_be_used_is_named_with_what_to_run_and_tls_is_verified() {
    let Some(server) = Postgres::shared() else {
        return;
    };
    let role = server.role().await;
    let (name, locked) = (&role.name, format!("locked_{}", role.name));
    role.run(&format!(
        "CREATE ROLE locked; CREATE ROLE {locked} LOGIN PASSWORD 'right' IN ROLE locked"
    ))
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap().to_string();
    // A server that refuses to speak TLS.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.read_exact(&mut [0; 8]).await.unwrap();
            stream.write_all(b"N").await.unwrap();
        }
    });
    let url = |password: &str| role.url.replace(name, &format!("{locked}:{password}"));
    let by = |authority: &str| {
        let ca_file = Some(certificate(authority));
        SinkKind::Postgres(PostgresSettings {
            ca_file,
            ..settings(&role.url, name, "shop")
        })
    };
    let kind = |url: &str| sink_kind(url, "x", "shop");
    let at = |host: &str| {
        role.url
            .replace(&format!("127.0.0.1:{}", server.port()), host)
    };
    let without_tls = |url: &str| {
        let ca_file = Some(certificate("ca.pem"));
        SinkKind::Postgres(PostgresSettings {
            ca_file,
            ..settings(url, name, "shop")
        })
    };
    for (kind, words) in [
        (
            kind(&url("CANARY")),
            "correct user and password in the url".to_owned(),
        ),
        (
            kind(&format!("{}x", role.url)),
            "create the database".to_owned(),
        ),
        (
            kind(&at(&format!("127.0.0.1:{}", kept_port()))),
            "check that the server runs".to_owned(),
        ),
        (
            kind(&at("no-such-host.invalid")),
            "its name was not found".to_owned(),
        ),
        (
            without_tls(&at(&plain)),
            "the server offers no TLS; switch it on".to_owned(),
        ),
        (
            kind(&url("right")),
            format!("run CREATE SCHEMA \"x\" AUTHORIZATION \"{locked}\""),
        ),
        (
            by("other.pem"),
            "authority that this machine does not know".to_owned(),
        ),
        (by("none.pem"), "name a PEM file".to_owned()),
    ] {
        let mut sink = build(&kind);
        fault_says(&mut sink, &change(1), &words).await;
        let probed = sink.check().await.unwrap_err().to_string();
        assert!(probed.contains(&words), "{probed}");
        assert!(!format!("{probed} {sink:?} {kind:?}").contains("CANARY"));
    }
    // What it says to run helps, step by step.
    role.run(&format!("CREATE SCHEMA {name}")).await;
    let grant = format!("GRANT USAGE, CREATE ON SCHEMA \"{name}\" TO \"{name}\"");
    let mut ours = sink(&role);
    fault_says(&mut ours, &change(1), &format!("run {grant}")).await;
    role.run(&grant).await;
    assert_eq!(deliver_one(&mut ours, &change(1)).await, Verdict::Done);
    role.run(&format!("REVOKE INSERT ON {name}.changes FROM {name}"))
        .await;
    let said = sink(&role).check().await.unwrap_err().to_string();
    assert!(
        said.contains("run GRANT SELECT, INSERT, UPDATE, DELETE"),
        "{said}"
    );
    fault_says(&mut ours, &change(2), "SQLSTATE 42501").await;
    role.run(&format!("GRANT INSERT ON {name}.changes TO {name}"))
        .await;

    let mut encrypted = build(&by("ca.pem"));
    assert_eq!(deliver_one(&mut encrypted, &change(2)).await, Verdict::Done);
    let count = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.usename = '{s}' AND s.ssl";
    assert_eq!(role.number(count).await, 1);
}
