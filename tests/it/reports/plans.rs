//! How SQLite answers the built-in reports: each table of the mirror is read by an index that is
//! made for reports, so that a report about a month does not read what came in before.

use sandbox::Route;

use crate::support::Workspace;

/// True if a query reads a table of the mirror by this name: its own, or an alias.
fn is_of_the_mirror(sql: &str, name: &str) -> bool {
    let words: Vec<&str> = sql
        .split_whitespace()
        .map(|word| word.trim_end_matches(')'))
        .collect();
    Route::ALL.iter().any(|route| {
        let table = route.segment().replace('-', "_");
        name == table || words.windows(2).any(|pair| pair == [table.as_str(), name])
    })
}

/// True if the step reads only the rows that it needs. An index may hold only the rows that are
/// open, cost something or cannot be read, and is then read as a whole; a job of the table of states is found by
/// its id.
fn is_bounded(step: &str) -> bool {
    let is_part = ["_open", "_owing", "_unreadable"]
        .iter()
        .any(|part| step.contains(part));
    let is_one_job = step.ends_with(" USING INDEX sqlite_autoindex_jobs_1 (id=?)");
    is_one_job || step.contains(" INDEX report_") && (step.starts_with("SEARCH ") || is_part)
}

#[tokio::test]
async fn every_report_reads_the_tables_of_the_mirror_by_the_indexes_for_reports() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let connection = place.open().unwrap();
    connection
        .execute_batch(
            "CREATE TEMP TABLE days (day TEXT PRIMARY KEY, period TEXT NOT NULL, from_at TEXT NOT NULL, \
             to_at TEXT NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TEMP TABLE unheard (id TEXT PRIMARY KEY NOT NULL, stretch INTEGER NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TEMP TABLE recompleted (id TEXT PRIMARY KEY NOT NULL, completed_at TEXT NOT NULL, \
             completed_again_at TEXT NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TEMP TABLE missed_changes (from_at TEXT NOT NULL, until TEXT NOT NULL) STRICT",
        )
        .unwrap();
    // What a report sees of each table.
    for route in Route::ALL {
        let table = route.segment().replace('-', "_");
        let view = format!(
            "CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE _vanished_at IS NULL"
        );
        connection.execute_batch(&view).unwrap();
    }
    connection
        .execute_batch(
            "CREATE TEMP VIEW worded_payments AS SELECT *, payment_mode AS method FROM payments;
             CREATE TEMP VIEW worded_jobs AS SELECT *, device_model AS device FROM jobs",
        )
        .unwrap();
    for report in shopmirror::report::built_in() {
        let mut statement = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {}", report.sql))
            .unwrap();
        let steps = statement
            .raw_query()
            .mapped(|row| row.get::<_, String>("detail"));
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let reads = steps.iter().filter(|step| {
            let mut words = step.split(' ');
            let verb = words.next();
            let reads = verb == Some("SCAN") || verb == Some("SEARCH");
            reads
                && words.next().is_some_and(|name| {
                    is_of_the_mirror(&report.sql, name.trim_start_matches("main."))
                })
        });
        let reads: Vec<_> = reads.collect();
        assert!(
            reads.iter().all(|step| is_bounded(step)),
            "{}: {reads:#?}",
            report.name
        );
        assert!(
            !reads.is_empty() || report.name == "mirror",
            "{}: {steps:#?}",
            report.name
        );
    }
}
