//! Tables that others dropped or changed: what can be made again is made, and the rest stops only
//! what cannot go on without it.

use shopmirror::record::{Change, Kind, Route};
use shopmirror::sink::{Sink, Verdict};

use super::{cells, sink, sink_kind, version};
use crate::sinks::{all_done, build, change, deliver, deliver_one, is_fault, reason};
use crate::support::servers::postgres::{Postgres, Role};

/// The next change of a record of a route.
fn of_route(route: Route, seq: i64, id: &str, body: &str) -> Change {
    Change { route, ..version(seq, id, seq, Kind::Updated, body) }
}

/// Delivers until the sink has looked at the tables again.
async fn delivered(sink: &mut Sink, given: &[Change]) -> Vec<Verdict> {
    let verdicts = deliver(sink, given).await;
    if all_done(&verdicts) { verdicts } else { deliver(sink, given).await }
}

/// Two versions of a lead, a lead of another shop, a forgotten one, and a job.
async fn filled(role: &Role) -> Sink {
    let mut ours = sink(role);
    let given = [
        version(1, "7", 1, Kind::Created, r#"{"id":7,"name":"old","note":"O"}"#),
        version(2, "7", 2, Kind::Updated, r#"{"id":7,"name":"new","note":"N"}"#),
        of_route(Route::Jobs, 3, "3", r#"{"id":3,"status":"open"}"#),
        version(4, "8", 1, Kind::Created, r#"{"id":8,"name":"gone"}"#),
        version(5, "8", 2, Kind::Forgotten, r#"{"id":8}"#),
    ];
    assert!(all_done(&deliver(&mut ours, &given).await));
    let mut south = build(&sink_kind(&role.url, &role.name, "south"));
    let theirs = version(1, "9", 1, Kind::Created, r#"{"id":9,"name":"theirs"}"#);
    let theirs = Change { event_id: "evt_south".into(), ..theirs };
    assert_eq!(deliver_one(&mut south, &theirs).await, Verdict::Done);
    ours
}

const LEADS: &str = "SELECT workspace, id, name, note, _first_seen_at < _changed_at, _seq FROM {s}.leads ORDER BY 1, 2";

#[tokio::test]
async fn a_table_that_was_dropped_is_made_again_with_the_rows_of_every_shop() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut ours = filled(&role).await;
    role.run(&format!("DROP TABLE {}.leads", role.name)).await;
    let next = of_route(Route::Jobs, 6, "3", r#"{"id":3,"status":"done"}"#);
    let verdicts = delivered(&mut ours, &[next]).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    let next = version(7, "7", 3, Kind::Updated, r#"{"id":7,"name":"newest","note":"N"}"#);
    let verdicts = delivered(&mut ours, &[next]).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    assert_eq!(
        cells(&role, LEADS).await,
        ["shop|7|newest|N|t|7", "south|9|theirs|NULL|f|1"],
        "the forgotten one stays away"
    );
    assert_eq!(cells(&role, "SELECT status, _seq FROM {s}.jobs").await, ["done|6"]);
}

#[tokio::test]
async fn a_column_that_was_dropped_or_renamed_is_made_again_with_its_values() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut ours = filled(&role).await;
    role.run(&format!(
        "ALTER TABLE {0}.leads RENAME COLUMN name TO nom; ALTER TABLE {0}.leads DROP COLUMN note",
        role.name
    ))
    .await;
    let next = of_route(Route::Jobs, 6, "3", r#"{"id":3,"status":"done"}"#);
    assert!(all_done(&delivered(&mut ours, &[next]).await));
    let next = version(7, "10", 1, Kind::Created, r#"{"id":10,"name":"next","note":"X"}"#);
    let verdicts = delivered(&mut ours, &[next]).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    assert_eq!(
        cells(&role, LEADS).await,
        ["shop|10|next|X|f|7", "shop|7|new|N|t|2", "south|9|theirs|NULL|f|1"]
    );
    assert_eq!(cells(&role, "SELECT nom FROM {s}.leads WHERE id = '7'").await, ["new"]);
}

/// Changes a table, and expects only its own changes to wait, with a remedy that then works.
async fn only_this_table_waits(break_it: &str, words: &[&str], mend_it: &str) {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let ours = filled(&role).await;
    role.run(&break_it.replace("{s}", &role.name)).await;
    let lead = version(6, "7", 3, Kind::Updated, r#"{"id":7,"name":"newest"}"#);
    let job = of_route(Route::Jobs, 7, "3", r#"{"id":3,"status":"done"}"#);
    // A new connection, as after a restart, and the one that is open.
    let mut sinks = [sink(&role), ours];
    for sink in &mut sinks {
        let mut verdicts = deliver(sink, &[lead.clone(), job.clone()]).await;
        if verdicts.iter().any(is_fault) {
            verdicts = deliver(sink, &[lead.clone(), job.clone()]).await;
        }
        assert!(matches!(verdicts[0], Verdict::Refused { for_good: false, .. }), "{verdicts:?}");
        for word in words {
            let word = word.replace("{s}", &role.name);
            assert!(reason(&verdicts[0]).contains(&word), "{word}: {verdicts:?}");
        }
        assert_eq!(verdicts[1], Verdict::Done);
    }
    assert_eq!(cells(&role, "SELECT status, _seq FROM {s}.jobs").await, ["done|7"]);
    assert_eq!(role.number("SELECT count(*) FROM {s}.changes WHERE seq = 6").await, 0);
    role.run(&mend_it.replace("{s}", &role.name)).await;
    let verdicts = delivered(&mut sinks[1], &[lead]).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    assert_eq!(cells(&role, "SELECT name, _seq FROM {s}.leads WHERE id = '7'").await, ["newest|6"]);
}

#[tokio::test]
async fn a_column_whose_type_was_changed_stops_only_its_table_until_the_type_is_back() {
    only_this_table_waits(
        "ALTER TABLE {s}.leads ALTER COLUMN name TYPE bytea USING name::bytea",
        &["the table {s}.leads cannot be written", "42804", "is made again with all its rows"],
        "ALTER TABLE {s}.leads ALTER COLUMN name TYPE text USING convert_from(name, 'UTF8')",
    )
    .await;
}

#[tokio::test]
async fn a_table_that_lost_its_key_stops_only_itself_and_renaming_it_mends_it() {
    only_this_table_waits(
        "ALTER TABLE {s}.leads DROP CONSTRAINT leads_pkey",
        &["the table {s}.leads cannot be written", "42P10"],
        "ALTER TABLE {s}.leads RENAME TO leads_before",
    )
    .await;
}

#[tokio::test]
async fn a_table_that_lost_a_column_of_every_table_stops_only_itself_and_dropping_it_mends_it() {
    only_this_table_waits(
        "ALTER TABLE {s}.leads DROP COLUMN body CASCADE",
        &["the table {s}.leads cannot be written: it has no column body"],
        "DROP TABLE {s}.leads",
    )
    .await;
}

#[tokio::test]
async fn a_rule_of_the_shops_own_refuses_only_the_changes_that_break_it() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut ours = filled(&role).await;
    role.run(&format!("ALTER TABLE {}.leads ADD CONSTRAINT c CHECK (name <> 'BAD')", role.name))
        .await;
    let bad = version(6, "11", 1, Kind::Created, r#"{"id":11,"name":"BAD"}"#);
    let verdicts = deliver(&mut ours, &[change(20), bad, change(21)]).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&Verdict::Done, &Verdict::Done), "{verdicts:?}");
    assert!(matches!(verdicts[1], Verdict::Refused { .. }), "{verdicts:?}");
    assert!(reason(&verdicts[1]).contains("PostgreSQL cannot hold this change"), "{verdicts:?}");
    assert!(reason(&verdicts[1]).contains("23514"), "{verdicts:?}");
}

#[tokio::test]
async fn a_column_of_the_shops_own_is_left_alone_when_a_field_gets_its_name() {
    let Some(server) = Postgres::shared() else { return };
    let role = server.role().await;
    let mut ours = filled(&role).await;
    role.run(&format!("ALTER TABLE {}.leads ADD COLUMN extra integer DEFAULT 1", role.name)).await;
    let next = version(6, "7", 3, Kind::Updated, r#"{"id":7,"name":"new","extra":"x"}"#);
    let verdicts = deliver(&mut ours, &[next]).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    assert_eq!(cells(&role, "SELECT extra, extra_2 FROM {s}.leads WHERE id = '7'").await, ["1|x"]);
}
