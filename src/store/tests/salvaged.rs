//! What a rebuild does with a store that lost some of what only the store knows, and with another
//! process that writes to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use shopmirror_core::record::Route;
use tempfile::TempDir;

use crate::store::fixtures::{self, Poll, records};
use crate::store::{Forgotten, Operator, Reader, Rebuilt, StoreError, rebuild};

/// A sink that is further than a log of five changes.
const DESK: &str = "
    INSERT INTO _sinks (name, type, state, position, created_at)
    VALUES ('desk', 'file', 'active', 8, '2026');";

/// A closed store with so many leads.
async fn closed(leads: i64) -> (TempDir, PathBuf) {
    let (dir, store) = fixtures::open();
    Poll::at(0).shows(&store, &records(1..=leads)).await;
    store.close().await.unwrap();
    let path = dir.path().join("mirror.db");
    (dir, path)
}

/// What a rebuild says after another program did this to the store.
fn rebuilt_after(path: &Path, damage: &str) -> Rebuilt {
    let tool = Connection::open(path).unwrap();
    tool.execute_batch(damage).unwrap();
    drop(tool);
    rebuild(path, Timestamp::UNIX_EPOCH, &mut |_, _| ()).unwrap()
}

fn assert_sound(path: &Path) {
    let findings = Reader::open(path).unwrap().verify(&mut |_, _| ()).unwrap();
    for finding in findings {
        assert!(finding.ok, "{finding:?}");
    }
}

#[tokio::test]
async fn what_else_was_checked_is_said_if_the_tables_of_sinks_were_altered() {
    let (_dir, path) = closed(5).await;
    let tool = Connection::open(&path).unwrap();
    tool.execute_batch(DESK).unwrap();
    for (damage, what) in [
        ("DROP TABLE _queue", "sink desk"),
        ("DROP TABLE _sinks", "sinks"),
    ] {
        tool.execute_batch(damage).unwrap();
        let findings = Reader::open(&path).unwrap().verify(&mut |_, _| ()).unwrap();
        for finding in &findings {
            let is_hurt = ["tables", what].contains(&finding.what.as_str());
            assert_eq!(finding.ok, !is_hurt, "{damage}: {finding:?}");
        }
        assert!(
            findings.iter().any(|finding| finding.what == what),
            "{findings:?}"
        );
    }
}

#[tokio::test]
async fn the_identity_of_the_lock_file_counts_if_the_store_lost_its_own() {
    let (_dir, path) = closed(5).await;
    let rebuilt = rebuilt_after(&path, "DROP TABLE _meta");
    assert!(rebuilt.lost[0].contains("_meta"), "{:?}", rebuilt.lost);
    // The event ids are those of the first identity.
    assert_sound(&path);
}

#[tokio::test]
async fn a_log_that_lost_its_end_goes_on_behind_what_was_read_and_delivered_of_it() {
    let (_dir, path) = closed(5).await;
    let lost_end = "DELETE FROM changes WHERE seq > 3; DELETE FROM sqlite_sequence;";
    for (more, next) in [
        ("", 5),
        (DESK, 8),
        (
            "INSERT INTO _queue (sink, lane, seq, route, record_id, since) VALUES
                ('desk', 2, 9, 'leads', '1', '2026'),
                ('desk', 0, 99, '', '', '2026');",
            9,
        ),
    ] {
        let rebuilt = rebuilt_after(&path, &format!("{lost_end}{more}"));
        std::fs::remove_file(rebuilt.kept.unwrap()).unwrap();
        let lost = format!("the last {} rows of changes", next - 3);
        assert!(rebuilt.lost.contains(&lost), "{:?}", rebuilt.lost);
        let tool = Connection::open(&path).unwrap();
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'";
        let last: i64 = tool.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(last, next);
        drop(tool);
        assert_sound(&path);
    }
}

#[tokio::test]
async fn a_row_that_the_new_file_does_not_take_is_said_to_be_lost() {
    let (_dir, path) = closed(5).await;
    let damage = "
        DROP INDEX changes_version;
        UPDATE changes SET record_id = (SELECT record_id FROM changes WHERE seq = 1) WHERE seq = 2;";
    let rebuilt = rebuilt_after(&path, damage);
    let lost = "1 rows of changes, which contradict others".to_owned();
    assert!(rebuilt.lost.contains(&lost), "{:?}", rebuilt.lost);
}

#[tokio::test]
async fn no_write_of_another_process_is_lost_by_a_rebuild() {
    // Enough for a report of the progress.
    let (_dir, path) = closed(300).await;
    let lead = [(Route::Leads, "1".to_owned())];
    let mut early = Operator::open(&path).unwrap();
    let mut during = None;
    rebuild(&path, Timestamp::UNIX_EPOCH, &mut |_, _| {
        let mut operator = Operator::open(&path).unwrap();
        operator.connection.busy_timeout(Duration::ZERO).unwrap();
        during = Some(operator.forget_records(&lead, "2026"));
    })
    .unwrap();
    assert!(matches!(during, Some(Err(StoreError::Busy))), "{during:?}");
    let refused = early.forget_records(&lead, "2026").unwrap_err();
    assert!(matches!(refused, StoreError::Replaced(_)), "{refused}");
    let mut operator = Operator::open(&path).unwrap();
    let forgotten = operator.forget_records(&lead, "2026").unwrap();
    assert_eq!(forgotten, [Forgotten::Now { versions: 1 }]);
}
