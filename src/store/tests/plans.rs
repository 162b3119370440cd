//! How SQLite runs the statements of every poll, every read of the log and every upkeep: by index,
//! so that their cost does not grow with the store. Those of deliveries are checked beside them.

use rusqlite::Connection;
use shopmirror_core::record::Route;

use crate::store::fixtures::plan;
use crate::store::ingest::compare;
use crate::store::maintenance::rebuild;
use crate::store::mirror::{field_rules, reread};
use crate::store::{fixtures, gaps, log, missed, search_index, withheld};

/// Steps that go through something small or bounded by the statement itself.
const BOUNDED: [&str; 6] = [
    "SCAN CONSTANT ROW",
    "SCAN latest",
    "SCAN _sinks",
    "SCAN _replays",
    "SCAN behind",
    "SCAN (subquery",
];

/// The statements of polls, of reads of the log and of upkeep.
fn hot_statements() -> Vec<String> {
    let route = Route::Customers;
    vec![
        compare::latest_version_sql(route),
        compare::EARLIER_VERSIONS.to_owned(),
        compare::LATEST_READ_AT.to_owned(),
        gaps::open_gaps_sql(),
        gaps::WITHOUT_UPPER_ID.to_owned(),
        log::after_sql(),
        log::by_seq_sql(),
        log::of_record_sql(),
        log::IS_ERASED.to_owned(),
        log::NEXT_OBSERVED.to_owned(),
        log::NAMING_RECORDS.to_owned(),
        log::PRUNE.to_owned(),
        search_index::NEXT.to_owned(),
        search_index::IS_CURRENT.to_owned(),
        log::HAS_EVENT.to_owned(),
        rebuild::LATEST_VERSIONS.to_owned(),
        reread::next_sql(route),
        missed::known_between_sql(route),
        withheld::REMOVE.to_owned(),
        withheld::count_vanished_sql(route),
    ]
}

#[test]
fn no_statement_of_a_poll_reads_a_whole_table() {
    let (dir, _store) = fixtures::open();
    let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
    for sql in hot_statements() {
        for step in plan(&connection, &sql) {
            let reads_all =
                step.starts_with("SCAN") && !BOUNDED.iter().any(|b| step.starts_with(b));
            // A route has as many rows as the log.
            let reads_route = step.ends_with("(route=?)");
            assert!(
                !reads_all && !reads_route && !step.contains("AUTOMATIC"),
                "{step}\n{sql}"
            );
        }
    }
    // The values that cannot be read have an index of their own, as a rule an empty one.
    let unreadable = plan(&connection, &field_rules::unreadable_sql(Route::Customers));
    assert!(
        unreadable[0].contains("INDEX report_customers_unreadable"),
        "{unreadable:?}"
    );
    // The last row of the log is one step from the end of the table.
    assert_eq!(plan(&connection, log::LAST_SEQ), ["SEARCH changes"]);
}
