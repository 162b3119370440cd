//! A list that takes too long is stopped, and its page says so.

use jiff::tz::TimeZone;

use super::*;
use crate::store::Store;

/// More records than SQLite reads before it looks at the time.
const MANY: &str = "
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)
    INSERT INTO payments (id, _amount, _kind, _first_seen_at, _changed_at, _seq)
    SELECT 'p' || i, i, 'payment', '2026-03-01', '2026-03-01', i
    FROM n";

fn list_of(reader: &Reader, sort: &str) -> RecordList {
    let mut query = [("sort".to_owned(), sort.to_owned())].into();
    RecordList {
        route: Route::Payments,
        columns: reader.record_columns(Route::Payments).unwrap(),
        query: ListQuery::take(&mut query).unwrap(),
        business: None,
        zone: TimeZone::UTC,
    }
}

#[tokio::test]
async fn the_first_rows_by_an_index_are_shown_without_totals_if_these_take_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let store = Store::open(&path).unwrap();
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer.execute(MANY, ()).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let by_amount = list_of(&reader, "-amount");
    let by_kind = list_of(&reader, "kind");
    assert_eq!(
        rows_of(&mut reader, &by_kind).ok().unwrap().len(),
        PAGE_SIZE + 1
    );
    assert!(totals_of(&mut reader, &by_amount).is_ok());

    // From now on every read takes too long that does not end soon.
    reader.limit_time(Duration::ZERO).unwrap();
    let rows = rows_of(&mut reader, &by_amount).ok().unwrap();
    assert_eq!(rows.len(), PAGE_SIZE + 1);
    assert_eq!(rows[0].id, "p5000");
    let totals = totals_of(&mut reader, &by_amount).err().unwrap();
    assert!(totals.contains("was stopped after"), "{totals}");
    let refused = rows_of(&mut reader, &by_kind).err().unwrap();
    assert!(
        refused
            .text
            .starts_with("This list was stopped after 5 seconds"),
        "{}",
        refused.text
    );
    store.close().await.unwrap();
}
