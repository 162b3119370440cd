use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use super::*;
use crate::record::PollerId;
use crate::store::fixtures::{Poll, open, page};
use crate::store::{Store, rebuild};

async fn show(store: &Store, route: Route, records: &[&str]) {
    let records: Vec<String> = records.iter().map(|text| (*text).to_owned()).collect();
    let key = PollerId { route, business: None };
    let facts = Poll { limit: 100, ..Poll::USUAL }.facts(store);
    store.store_page(key, page(&records), facts, None).await.unwrap();
}

/// What another program reads, as text: columns by `|`, rows by line breaks.
fn read(path: &Path, sql: &str) -> String {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells: Vec<String> = (0..width)
            .map(|index| match row.get_ref(index).unwrap() {
                rusqlite::types::ValueRef::Null => "-".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => format!("{number}i"),
                rusqlite::types::ValueRef::Real(number) => format!("{number}r"),
                other => other.as_str().unwrap().to_owned(),
            })
            .collect();
        lines.push(cells.join("|"));
    }
    lines.join("\n")
}

#[tokio::test]
async fn a_view_has_numbers_local_times_custom_fields_and_the_customer() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let now: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    store.keep_time_zone(TimeZone::get("Europe/Berlin").unwrap(), now).await.unwrap();
    store
        .store_form(
            "Job Sheet".to_owned(),
            None,
            r#"[{"field_name":"It's \"new\"","type":"text"},{"field_name":"status"}]"#.to_owned(),
            now,
        )
        .await
        .unwrap();
    show(
        &store,
        Route::Customers,
        &[r#"{"id":8,"name":"Zoe","mobile_number":"7","mobile_country_code":"+1","email":"z@x","created_at":"2026-03-28T23:30:00Z"}"#],
    )
    .await;
    show(
        &store,
        Route::Jobs,
        &[
            r#"{"id":12,"status":"Open","job_number":"J1","created_at":"2026-03-28T23:59:59.999999Z","mobile_number":"7","mobile_country_code":"+1","email":null,"total_amount":"12.50","received_at":"29/03/2026 01:00","custom_fields":{"It's \"new\"":"yes","status":5}}"#,
            r#"{"id":"00013","status":"Open","job_number":"J2","created_at":"2026-07-01T22:00:00Z","mobile_number":"7","mobile_country_code":"+2","email":"z@x","total_amount":3,"received_at":null,"custom_fields":"none"}"#,
        ],
    )
    .await;
    show(&store, Route::Payments, &[r#"{"id":1,"job_number":"J1","amount":3.5}"#]).await;
    let sql = "SELECT id, created_at, created_date, total_amount, received_at, customer_id, \
               customer_since, \"It's \"\"new\"\"\", status_2 FROM report_jobs ORDER BY created_at";
    let wanted = "12i|2026-03-29 00:59:59|2026-03-29|12.5r|29/03/2026 01:00|8i|2026-03-29 00:30:00|yes|5i\n\
                  00013|2026-07-02 00:00:00|2026-07-02|3i|-|8i|2026-03-29 00:30:00|-|-";
    assert_eq!(read(&path, sql), wanted);
    let payment = read(&path, "SELECT id, amount, job_id, customer_id FROM report_payments");
    assert_eq!(payment, "1i|3.5r|12i|8i");

    // The night in which the clock is put forward, and the one in which it is put back.
    show(
        &store,
        Route::Leads,
        &[
            r#"{"id":1,"created_at":"2026-03-29T00:59:59Z"}"#,
            r#"{"id":2,"created_at":"2026-03-29T01:00:00.5Z"}"#,
            r#"{"id":3,"created_at":"2026-10-25T00:30:00Z"}"#,
            r#"{"id":4,"created_at":"2026-10-25T01:30:00Z"}"#,
            r#"{"id":5,"created_at":"yesterday"}"#,
        ],
    )
    .await;
    let local = read(&path, "SELECT created_at FROM report_leads ORDER BY id");
    let wanted = "2026-03-29 01:59:59\n2026-03-29 03:00:00\n2026-10-25 02:30:00\n2026-10-25 02:30:00\nyesterday";
    assert_eq!(local, wanted);
    let before = read(&path, "SELECT * FROM report_jobs");
    store.close().await.unwrap();
    drop(store);
    rebuild(&path, &mut |_, _| ()).unwrap();
    assert_eq!(read(&path, "SELECT * FROM report_jobs"), before);
    let indexes = read(
        &path,
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'jobs' AND name LIKE 'report%' ORDER BY 1",
    );
    assert_eq!(
        indexes,
        "report_jobs_created\nreport_jobs_mobile\nreport_jobs_number\nreport_jobs_seq"
    );
}

#[tokio::test]
async fn every_table_view_and_column_is_described() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    show(&store, Route::Jobs, &[r#"{"id":1,"Status":"a","created_at":"2026-01-01T00:00:00Z"}"#])
        .await;
    show(&store, Route::Leads, &[r#"{"id":1,"job_number":"a","extra":[]}"#]).await;
    drop(store);
    let rows =
        |sql: &str| -> BTreeSet<String> { read(&path, sql).lines().map(str::to_owned).collect() };
    let things = "FROM sqlite_schema s WHERE s.type IN ('table', 'view') AND s.name NOT LIKE 'sqlite_%' \
                  AND s.name NOT GLOB '_search_*'";
    let exist = rows(&format!(
        "SELECT s.name || ' ' {things} UNION ALL SELECT s.name || ' ' || c.name \
         FROM sqlite_schema s JOIN pragma_table_xinfo(s.name) c WHERE c.hidden IN (0, 2, 3) \
         AND s.name IN (SELECT s.name {things})"
    ));
    let described = rows("SELECT name || ' ' || column_name FROM _about");
    let missing: Vec<_> = exist.difference(&described).collect();
    assert!(missing.is_empty(), "add to src/store/views/about.rs: {missing:?}");
    let gone: Vec<_> = described.difference(&exist).collect();
    assert!(gone.is_empty(), "described and not there: {gone:?}");
    assert_eq!(read(&path, "SELECT count(*) FROM _about WHERE about = ''"), "0i");
}

#[tokio::test]
async fn a_view_that_another_program_made_is_left_alone() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let tool = Connection::open(&path).unwrap();
    tool.execute_batch("DROP VIEW report_leads; CREATE VIEW report_leads AS SELECT 'mine' AS own")
        .unwrap();
    show(&store, Route::Leads, &[r#"{"id":1,"new_field":1}"#]).await;
    assert_eq!(read(&path, "SELECT own FROM report_leads"), "mine");
}
