//! What the operator reads when the database cannot be used; nothing is lost by it.

use std::time::Duration;

use shopmirror::config::{PostgresSettings, SinkKind};
use shopmirror::sink::Verdict;

use super::{cells, settings, sink_kind};
use crate::sinks::{all_done, build, changes, deliver, deliver_one, is_fault, reason};
use crate::support::servers::postgres::{Postgres, Role};

/// A delivery and a probe both fail with these words.
async fn fails(kind: &SinkKind, words: &[&str]) {
    let mut sink = build(kind);
    let verdicts = deliver(&mut sink, &changes(1..=2)).await;
    let probed = sink.probe().await.unwrap_err();
    for word in words {
        assert!(is_fault(&verdicts[0]) && reason(&verdicts[0]).contains(word), "{verdicts:?}");
        assert!(probed.contains(word), "{word}: {probed}");
    }
    for text in [format!("{verdicts:?}"), probed, format!("{sink:?} {kind:?}")] {
        assert!(!text.contains("CANARY"), "{text}");
    }
}

fn of(role: &Role) -> SinkKind {
    sink_kind(&role.url, &role.name, "shop")
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_name_the_url() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let locked = format!("locked_{}", role.name);
    role.run(&format!(
        "CREATE ROLE locked; CREATE ROLE {locked} LOGIN PASSWORD 'right' IN ROLE locked"
    ))
    .await;
    let url = |password: &str| role.url.replace(&role.name, &format!("{locked}:{password}"));
    fails(
        &sink_kind(&url("CANARY"), "x", "shop"),
        &["SQLSTATE 28P01", "correct user and password in the url"],
    )
    .await;
    fails(
        &sink_kind(&format!("{}x", role.url), "x", "shop"),
        &["SQLSTATE 3D000", "create the database"],
    )
    .await;
    // With the right one it gets as far as the missing right.
    fails(
        &sink_kind(&url("right"), "x", "shop"),
        &[&format!("run CREATE SCHEMA \"x\" AUTHORIZATION \"{locked}\"")],
    )
    .await;
}

#[tokio::test]
async fn a_role_that_may_not_make_tables_or_write_to_them_reads_what_to_run() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let name = &role.name;
    role.run(&format!("CREATE SCHEMA {name}")).await;
    let grant = format!("run GRANT USAGE, CREATE ON SCHEMA \"{name}\" TO \"{name}\"");
    fails(&of(&role), &[&grant]).await;
    role.run(&grant["run ".len()..]).await;
    assert!(all_done(&deliver(&mut build(&of(&role)), &changes(1..=2)).await));
    assert_eq!(
        build(&of(&role)).probe().await.unwrap(),
        format!("connected; the tables of schema {name} are there")
    );
    role.run(&format!("REVOKE INSERT ON {name}.changes FROM {name}")).await;
    let said = build(&of(&role)).probe().await.unwrap_err();
    assert!(said.contains("run GRANT SELECT, INSERT, UPDATE, DELETE"), "{said}");
    let verdict = deliver_one(&mut build(&of(&role)), &changes(3..=3)[0]).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("SQLSTATE 42501"), "{verdict:?}");
}

#[tokio::test]
async fn roles_of_several_shops_share_the_tables_of_their_common_role() {
    let Some(server) = Postgres::shared() else { return };
    let owner = server.role().await;
    for (shop, first) in [("north", 1), ("south", 11)] {
        let member = server.role().await;
        owner.run(&format!("GRANT {} TO {}", owner.name, member.name)).await;
        let url = format!("{}?options=-crole%3D{}", member.url, owner.name);
        let mut sink = build(&sink_kind(&url, &owner.name, shop));
        // The second shop's records have a field that the first one's have not.
        let mut given = changes(first..=first + 1);
        given[0].body = format!(r#"{{"id":1,"{shop}":1}}"#);
        let verdicts = deliver(&mut sink, &given).await;
        assert!(all_done(&verdicts), "{verdicts:?}");
    }
    assert_eq!(owner.number("SELECT count(*) FROM {s}.leads").await, 4);
}

#[tokio::test]
async fn a_table_with_other_columns_is_named_and_left_as_it_is() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let name = &role.name;
    role.run(&format!(
        "CREATE SCHEMA {name} AUTHORIZATION {name}; CREATE TABLE {name}.jobs (id integer, body jsonb); \
         INSERT INTO {name}.jobs VALUES (1, '{{}}')"
    ))
    .await;
    fails(&of(&role), &[&format!("{name}.jobs has no column workspace"), "another `schema`"]).await;
    assert_eq!(cells(&role, "SELECT id, body FROM {s}.jobs").await, ["1|{}"]);
    let found = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{name}'");
    assert_eq!(role.number(&found).await, 1, "nothing was made beside it");
}

#[tokio::test]
async fn a_lock_that_others_hold_is_named_after_the_time_out() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let short = PostgresSettings {
        timeout: Duration::from_secs(4),
        ..settings(&role.url, &role.name, "shop")
    };
    assert!(all_done(&deliver(&mut build(&of(&role)), &changes(1..=1)).await));
    let mut sink = build(&SinkKind::Postgres(short));
    role.run(&format!("BEGIN; LOCK TABLE {}.changes IN ACCESS EXCLUSIVE MODE", role.name)).await;
    let verdict = deliver_one(&mut sink, &changes(2..=2)[0]).await;
    role.run("ROLLBACK").await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("raise `timeout`"), "{verdict:?}");
}

#[tokio::test]
async fn a_server_that_is_down_is_named_and_takes_everything_when_it_is_back() {
    let Some(mut server) = Postgres::start() else { return };
    let role = server.role().await;
    let mut sink = build(&of(&role));
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    server.end();
    let verdict = deliver_one(&mut sink, &changes(3..=3)[0]).await;
    assert!(is_fault(&verdict), "{verdict:?}");
    fails(&of(&role), &["Connection refused", "start the server"]).await;
    server.begin(Some(server.port()));
    let counted = role.again().await;
    assert!(all_done(&deliver(&mut sink, &changes(3..=5)).await));
    assert_eq!(counted.number("SELECT count(*) FROM {s}.changes").await, 5);
}

#[tokio::test]
async fn tls_verifies_the_server_by_the_named_authority() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let with = |ca_file| {
        let usual = settings(&role.url, &role.name, "shop");
        SinkKind::Postgres(PostgresSettings { ca_file: Some(ca_file), ..usual })
    };
    let mut sink = build(&with(server.ca_file()));
    assert_eq!(deliver_one(&mut sink, &changes(1..=1)[0]).await, Verdict::Done);
    let encrypted = format!(
        "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.usename = '{}' AND s.ssl",
        role.name
    );
    assert_eq!(role.number(&encrypted).await, 1);
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.pem");
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=other", "-keyout", "/dev/null", "-out"])
        .arg(&other)
        .output()
        .unwrap();
    assert!(made.status.success());
    fails(&with(other), &["authority that this machine does not know"]).await;
    fails(&with(dir.path().join("none.pem")), &["name a PEM file"]).await;
}

#[tokio::test]
async fn a_table_without_room_for_another_column_pauses_the_sink_and_is_no_fault_of_a_change() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut sink = build(&of(&role));
    assert!(all_done(&deliver(&mut sink, &changes(1..=1)).await));
    let fill = format!(
        "DO $$ DECLARE columns text; BEGIN \
         SELECT string_agg(format('ADD COLUMN x%s text', n), ', ') INTO columns \
         FROM generate_series(1, 1600 - (SELECT count(*) FROM pg_attribute \
         WHERE attrelid = '{0}.leads'::regclass AND attnum > 0)) AS n; \
         EXECUTE 'ALTER TABLE {0}.leads ' || columns; END $$",
        role.name
    );
    role.run(&fill).await;
    let mut late = changes(2..=2);
    late[0].body = r#"{"id":2,"brand_new":1}"#.into();
    let verdict = deliver_one(&mut sink, &late[0]).await;
    let said = reason(&verdict);
    assert!(
        is_fault(&verdict) && said.contains("54011") && said.contains("`schema`"),
        "{verdict:?}"
    );
    // A change without a new field is stored.
    assert!(all_done(&deliver(&mut sink, &changes(3..=3)).await));
}
