//! How SQLite runs the statements of every poll, every read of the log and every upkeep: by index,
//! so that their cost does not grow with the store. Those of deliveries are checked beside them.

use rusqlite::{Connection, StatementStatus};

use super::mirror::lookup::{self, PersonField};
use super::{diff, fixtures, full_text, gaps, log, pollers, rebuild};
use crate::record::{PollerId, Route};

/// Steps that go through something small or bounded by the statement itself.
const BOUNDED: [&str; 6] = [
    "SCAN CONSTANT ROW",
    "SCAN ids",
    "SCAN sinks",
    "SCAN _replays",
    "SCAN behind",
    "SCAN (subquery",
];

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
    steps.collect::<rusqlite::Result<_>>().unwrap()
}

#[tokio::test]
async fn a_customer_is_found_by_index() {
    let (dir, store) = fixtures::open();
    let customer =
        r#"{"id":1,"name":"Ann Lee","email":" Ann@example.com","mobile_number":447700900}"#;
    let key = PollerId { route: Route::Customers, business: None };
    let facts = fixtures::Poll::USUAL.facts(&store);
    store.store_page(key, fixtures::page(&[customer.to_owned()]), facts, None).await.unwrap();
    let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
    for column in ["name", "email", "mobile_number"] {
        let steps = plan(&connection, &lookup::has_customer_sql(column));
        let wanted = format!("SEARCH customers USING INDEX customers_by_{column} (<expr>=?)");
        assert_eq!(steps, [wanted]);
    }
    let has = |field, text: &'static str, business| {
        store.read(move |reader| reader.has_customer(business, field, text))
    };
    assert!(has(PersonField::Email, "ann@EXAMPLE.com", None).await.unwrap());
    assert!(has(PersonField::Mobile, "447700900 ", None).await.unwrap());
    assert!(has(PersonField::Name, "ann lee", None).await.unwrap());
    assert!(!has(PersonField::Name, "ann", None).await.unwrap());
    assert!(!has(PersonField::Name, "ann lee", Some("2")).await.unwrap());
}

#[tokio::test]
async fn a_store_of_an_older_version_gets_its_indexes_at_the_opening_and_not_with_a_page() {
    let (dir, store) = fixtures::open();
    let path = dir.path().join("mirror.db");
    let customer = r#"{"id":1,"name":"Ann Lee","email":"ann@example.com"}"#.to_owned();
    let key = PollerId { route: Route::Customers, business: None };
    let facts = fixtures::Poll::USUAL.facts(&store);
    store.store_page(key, fixtures::page(&[customer]), facts, None).await.unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("DROP INDEX customers_by_name; DROP INDEX customers_by_email")
        .unwrap();
    drop(super::Store::open(&path).unwrap());
    let count = "SELECT count(*) FROM sqlite_schema WHERE name IN ('customers_by_name', 'customers_by_email')";
    assert_eq!(connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
}

/// The statements of polls, of reads of the log and of upkeep.
fn hot_statements() -> Vec<String> {
    let route = Route::Customers;
    vec![
        diff::latest_version_sql(route),
        pollers::find_sql(),
        gaps::open_gaps_sql(),
        gaps::history_sql(route),
        log::after_sql(),
        log::by_seq_sql(),
        log::of_record_sql(),
        log::newer_sql(),
        log::IS_ERASED.to_owned(),
        log::NEXT_OBSERVED.to_owned(),
        log::NAMING_RECORDS.to_owned(),
        log::PRUNE.to_owned(),
        full_text::NEWEST.to_owned(),
        rebuild::LATEST_VERSIONS.to_owned(),
    ]
}

/// How often SQLite prepared a statement anew because it was bound to other values.
fn prepared_again(connection: &Connection, sql: &str) -> i32 {
    let mut statement = connection.prepare(sql).unwrap();
    for value in 1..=3 {
        for index in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(index, value).unwrap();
        }
        let mut rows = statement.raw_query();
        while rows.next().unwrap().is_some() {}
    }
    statement.get_status(StatementStatus::RePrepare)
}

#[tokio::test]
async fn no_statement_is_prepared_again_for_other_values() {
    let (dir, store) = fixtures::open();
    let reader = super::open::open_reader(&dir.path().join("mirror.db")).unwrap();
    for sql in hot_statements().iter().filter(|sql| sql.starts_with("SELECT")) {
        assert_eq!(prepared_again(&reader, sql), 0, "{sql}");
    }
    let counted = store.write(|writer| {
        let mut statements = hot_statements();
        statements.extend(super::sinks::hot_statements());
        let count = |sql: String| (prepared_again(&writer.connection, &sql), sql);
        Ok(statements.into_iter().map(count).collect::<Vec<_>>())
    });
    for (again, sql) in counted.await.unwrap() {
        assert_eq!(again, 0, "{sql}");
    }
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
            assert!(!reads_all && !reads_route && !step.contains("AUTOMATIC"), "{step}\n{sql}");
        }
    }
    // A word is looked up in the index, from the newest record on.
    let found = plan(&connection, full_text::FIND);
    assert_eq!(found, ["SCAN _search VIRTUAL TABLE INDEX 192:M1"]);
    let found = plan(&connection, full_text::FIND_IN_ROUTE);
    let row_of_the_log = "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)";
    assert_eq!(found, ["SCAN s VIRTUAL TABLE INDEX 192:M1", row_of_the_log]);
    // The last row of the log is one step from the end of the table.
    assert_eq!(plan(&connection, log::LAST_SEQ), ["SEARCH changes"]);
}
