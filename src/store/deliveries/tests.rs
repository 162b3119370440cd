//! Deliveries cost the same however many are parked, and keep the order per record.

use rusqlite::Connection;

use super::*;
use crate::store::{Store, sinks};

const AT: &str = "2026-01-01T00:00:00.000000Z";
const LATER: &str = "2026-01-01T01:00:00.000000Z";

/// A store's file with the sink `erp`, and a connection to it that writes.
fn store() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    drop(Store::open(&path).unwrap());
    let connection = Connection::open(path).unwrap();
    connection
        .execute(
            "INSERT INTO sinks (name, type, state, position, created_at) VALUES ('erp', 'webhook', 'active', 0, ?1)",
            [AT],
        )
        .unwrap();
    (dir, connection)
}

fn delivery(seq: i64, record_id: &str, state: DeliveryState) -> PendingDelivery {
    PendingDelivery {
        seq,
        route: "jobs".to_owned(),
        record_id: record_id.to_owned(),
        state,
        attempts: 0,
        next_attempt_at: (state == DeliveryState::Retrying).then(|| AT.to_owned()),
        last_error: None,
        since: AT.to_owned(),
        only_if_newest: false,
    }
}

use DeliveryState::{Dead, Retrying, Waiting};

fn put(connection: &Connection, rows: &[(i64, &str, DeliveryState)]) {
    let rows: Vec<PendingDelivery> =
        rows.iter().map(|(seq, id, state)| delivery(*seq, id, *state)).collect();
    save(connection, ("erp", 0), &rows, &[], AT).unwrap();
}

fn settle(connection: &Connection, seq: i64, record_id: &str) {
    save(connection, ("erp", 0), &[], &[delivery(seq, record_id, Retrying)], AT).unwrap();
}

/// The numbers of the deliveries that are due.
fn due_seqs(connection: &Connection) -> Vec<i64> {
    let by = DueBy { now: AT, latest: LATER };
    let mut seqs: Vec<i64> =
        due(connection, "erp", &by, 100).unwrap().into_iter().map(|d| d.seq).collect();
    seqs.sort_unstable();
    seqs
}

/// The counters in the sink's row: open, dead.
fn counters(connection: &Connection) -> (i64, i64) {
    let row = sinks::find(connection, "erp").unwrap().unwrap();
    (row.retrying, row.dead)
}

/// How SQLite runs a statement, one step per line.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement
        .raw_query()
        .mapped(|row| row.get::<_, String>("detail"))
        .collect::<rusqlite::Result<Vec<String>>>()
        .unwrap();
    steps.join("\n")
}

#[test]
fn no_statement_of_a_delivery_reads_more_than_the_rows_it_touches() {
    let (_dir, connection) = store();
    let mut statements = vec![due_sql(), mistimed_sql(), dead_sql(), dead_letter_sql()];
    let fixed = [
        NEXT_DUE,
        OPEN_FOR_RECORD,
        EXISTS,
        PUT,
        DELETE,
        HOLD_BACK,
        RELEASE,
        DROP_DEAD,
        DROP_ONE,
        REVIVE,
        REVIVE_GAP,
    ];
    statements.extend(fixed.map(str::to_owned));
    statements.extend(sinks::hot_statements());
    for sql in statements {
        let plan = plan(&connection, &sql).replace("SCAN CONSTANT ROW", "");
        assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    for (sql, index) in [
        (due_sql(), "deliveries_state (sink=? AND state=? AND next_attempt_at<?)"),
        (mistimed_sql(), "deliveries_state (sink=? AND state=? AND next_attempt_at>?)"),
        (NEXT_DUE.to_owned(), "deliveries_state (sink=? AND state=? AND next_attempt_at>?)"),
        (
            OPEN_FOR_RECORD.to_owned(),
            "deliveries_record (sink=? AND route=? AND record_id=? AND state=?)",
        ),
        (RELEASE.to_owned(), "deliveries_record (sink=? AND route=? AND record_id=? AND state=?)"),
        (HOLD_BACK.to_owned(), "deliveries_record (sink=? AND route=? AND record_id=? AND state=?"),
        (PARKED_SINCE.to_owned(), "deliveries_state (sink=? AND state=?)"),
        (dead_sql(), "deliveries_state (sink=? AND state=? AND next_attempt_at=? AND seq>?)"),
    ] {
        let plan = plan(&connection, &sql);
        assert!(plan.contains(index), "{sql}\n{plan}");
    }
}

#[test]
fn of_one_record_only_the_oldest_open_change_is_due() {
    let (_dir, connection) = store();
    put(
        &connection,
        &[(1, "7", Retrying), (2, "7", Waiting), (3, "7", Waiting), (4, "8", Retrying)],
    );
    assert_eq!(due_seqs(&connection), [1, 4]);
    settle(&connection, 1, "7");
    assert_eq!(due_seqs(&connection), [2, 4]);
    put(&connection, &[(2, "7", Dead)]);
    assert_eq!(due_seqs(&connection), [3, 4], "a dead letter holds nothing up");
    settle(&connection, 4, "8");
    settle(&connection, 3, "7");
    assert_eq!((due_seqs(&connection), counters(&connection)), (vec![], (0, 1)));
}

#[test]
fn changes_that_belong_to_no_record_wait_for_none() {
    let (_dir, connection) = store();
    put(&connection, &[(1, "", Retrying), (2, "", Retrying)]);
    assert_eq!(due_seqs(&connection), [1, 2]);
}

#[test]
fn a_dead_letter_sent_again_goes_before_the_later_changes_of_its_record() {
    let (_dir, connection) = store();
    put(&connection, &[(1, "7", Dead), (2, "7", Retrying), (3, "", Dead)]);
    let letters = dead_letters(&connection, "erp", 0, 10).unwrap();
    assert_eq!(revive(&connection, "erp", &letters, true, AT).unwrap(), 2);
    assert_eq!(due_seqs(&connection), [1, 3]);
    assert_eq!(counters(&connection), (3, 0));
    // The later change was in flight, and failed meanwhile.
    put(&connection, &[(2, "7", Retrying)]);
    assert_eq!(due_seqs(&connection), [1, 3]);
    settle(&connection, 1, "7");
    assert_eq!(due_seqs(&connection), [2, 3]);
}

#[test]
fn an_attempt_that_was_planned_while_the_clock_was_wrong_is_due() {
    let (_dir, connection) = store();
    put(&connection, &[(1, "7", Retrying), (2, "8", Retrying)]);
    for (seq, at) in [(1, "2026-01-01T00:30:00.000000Z"), (2, "2090-01-01T00:00:00.000000Z")] {
        connection
            .execute("UPDATE deliveries SET next_attempt_at = ?2 WHERE seq = ?1", (seq, at))
            .unwrap();
    }
    assert_eq!(due_seqs(&connection), [2]);
    let next = next_due(&connection, "erp", AT).unwrap();
    assert_eq!(next.as_deref(), Some("2026-01-01T00:30:00.000000Z"));
}

#[test]
fn the_counters_follow_whatever_happens_to_the_rows() {
    let (_dir, connection) = store();
    let counted = || -> (i64, i64) {
        connection
            .query_row(
                "SELECT coalesce(sum(state <> 'dead'), 0), coalesce(sum(state = 'dead'), 0) FROM deliveries",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap()
    };
    put(&connection, &[(1, "7", Retrying), (2, "7", Waiting), (3, "8", Dead), (4, "9", Dead)]);
    assert_eq!((counters(&connection), counted()), ((2, 2), (2, 2)));
    put(&connection, &[(1, "7", Dead)]);
    assert_eq!((counters(&connection), counted()), ((1, 3), (1, 3)));
    assert_eq!(drop_dead(&connection, "erp", Some(3), 10).unwrap(), 1);
    assert_eq!(drop_dead(&connection, "erp", None, 1).unwrap(), 1);
    assert_eq!((counters(&connection), counted()), ((1, 1), (1, 1)));
    connection.execute("DELETE FROM deliveries", []).unwrap();
    assert_eq!((counters(&connection), counted()), ((0, 0), (0, 0)));
}
