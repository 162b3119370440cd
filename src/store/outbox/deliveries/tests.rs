//! Deliveries cost the same however many are parked.

use rusqlite::Connection;

use super::*;
use crate::store::fixtures;
use crate::store::outbox::sinks;

#[test]
fn no_statement_of_a_delivery_reads_more_than_the_rows_it_touches() {
    let (dir, _store) = fixtures::open();
    let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
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
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
        for step in steps.map(Result::unwrap).filter(|step| step != "SCAN CONSTANT ROW") {
            assert!(!step.contains("SCAN") && !step.contains("TEMP B-TREE"), "{step}\n{sql}");
        }
    }
}
