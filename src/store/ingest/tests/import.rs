//! Older records that an operator imports beside polls.

use super::search::{kinds, page};
use super::*;
use crate::store::fixtures::Poll;
use crate::store::sql::Sql;
use crate::store::{Import, ImportOutcome, Operator, PollerRow};

fn import(records: &[(i64, &str)]) -> Import {
    Import {
        list: PollerId {
            route: Route::Leads,
            business: None,
        },
        page: Arc::new(page(records)),
        as_of: jiff::Timestamp::from_second(1_700_000_000).unwrap(),
        at: jiff::Timestamp::from_second(1_800_000_100).unwrap(),
        job_link: None,
    }
}

fn texts(records: &[(i64, &str)]) -> Vec<String> {
    let page = page(records);
    let texts = page.records().iter().map(|record| page.text(record));
    texts.map(str::to_owned).collect()
}

async fn rows(store: &Store, sql: &str) -> Vec<String> {
    let sql = sql.to_owned();
    let read = move |reader: &crate::store::Reader| Ok(reader.connection.values(&sql, [])?);
    store.read(read).await.unwrap()
}

async fn pollers(store: &Store) -> Vec<PollerRow> {
    store.read(|reader| reader.pollers()).await.unwrap()
}

#[tokio::test]
async fn an_import_stores_what_no_poll_has_shown_and_changes_nothing_else() {
    let (_dir, store) = fixtures::open();
    let newest = texts(&[(8, "Hal"), (7, "Gil"), (6, "Fay")]);
    Poll::USUAL.shows(&store, &newest).await;
    let before = pollers(&store).await;
    let mut operator = Operator::open(store.path()).unwrap();
    let file = import(&[(9, "Ida"), (7, "Other"), (2, "Bea"), (1, "Ann")]);
    let expected = ImportOutcome {
        stored: 2,
        known: 1,
        newer: 1,
        ..ImportOutcome::default()
    };
    let trial = operator.import(&file, true).unwrap();
    assert_eq!(trial, expected);
    assert_eq!(kinds(&store).await.len(), 3, "a trial stores nothing");
    assert_eq!(operator.import(&file, false).unwrap(), expected);
    assert_eq!(pollers(&store).await, before);
    let sql = "SELECT id || ' ' || name || ' ' || coalesce(_via, '-') FROM leads ORDER BY id";
    let stored = [
        "1 Ann import",
        "2 Bea import",
        "6 Fay -",
        "7 Gil -",
        "8 Hal -",
    ];
    assert_eq!(rows(&store, sql).await, stored);
    let sql = "SELECT DISTINCT kind FROM changes";
    assert_eq!(rows(&store, sql).await, ["baseline"]);
    // What the file shows is older than the import.
    let sql = "SELECT _last_seen_at FROM leads WHERE id = '1'";
    assert_eq!(rows(&store, sql).await, ["2023-11-14T22:13:20.000000Z"]);

    // A poll finds what is newer, as if there was no import.
    let next = texts(&[(9, "Ida"), (8, "Hal"), (7, "Gil")]);
    let outcome = Poll::at(200).shows(&store, &next).await;
    assert!(outcome.contiguity.is_proven());
    assert_eq!((outcome.created, outcome.updated), (1, 0));
}

#[tokio::test]
async fn the_first_poll_that_shows_an_imported_record_replaces_it_without_news() {
    let (_dir, store) = fixtures::open();
    Poll::USUAL
        .shows(&store, &texts(&[(8, "Hal"), (7, "Gil")]))
        .await;
    let mut operator = Operator::open(store.path()).unwrap();
    operator
        .import(&import(&[(3, "Cid"), (2, "Bea"), (1, "Ann")]), false)
        .unwrap();
    let corrected = import(&[(3, "Cyd"), (1, "Ann")]);
    let again = operator.import(&corrected, false).unwrap();
    assert_eq!((again.replaced, again.known), (1, 1));

    let shown = texts(&[(2, "Bella"), (1, "Ann"), (8, "Hal"), (7, "Gil")]);
    let outcome = Poll::at(200).shows(&store, &shown).await;
    assert_eq!((outcome.created, outcome.updated), (0, 0));
    let sql = "
        SELECT id || ' ' || name || ' ' || coalesce(_via, '-')
        FROM leads
        WHERE id < '7'
        ORDER BY id";
    assert_eq!(
        rows(&store, sql).await,
        ["1 Ann -", "2 Bella -", "3 Cyd import"]
    );
    let sql = "SELECT DISTINCT kind FROM changes";
    assert_eq!(rows(&store, sql).await, ["baseline"]);

    // From then on a change is one.
    let edited = texts(&[(2, "Bettina"), (1, "Ann"), (8, "Hal"), (7, "Gil")]);
    assert_eq!(Poll::at(230).shows(&store, &edited).await.updated, 1);
    let findings = store.read(|reader| reader.verify(&mut |_, _| {})).await;
    for finding in findings.unwrap() {
        assert!(finding.ok, "{finding:?}");
    }
}

#[tokio::test]
async fn an_imported_record_repairs_the_gap_that_it_lies_in() {
    let (_dir, store) = fixtures::open();
    Poll::USUAL
        .shows(&store, &texts(&[(2, "Bea"), (1, "Ann")]))
        .await;
    let poll = Poll {
        limit: 2,
        ..Poll::at(60)
    };
    poll.shows(&store, &texts(&[(6, "Fay"), (5, "Eve")])).await;
    let mut operator = Operator::open(store.path()).unwrap();
    let imported = operator.import(&import(&[(4, "Dan"), (3, "Cid")]), false);
    assert_eq!(imported.unwrap().repaired, 2);
    let sql = "SELECT state || ' ' || repaired FROM gaps";
    assert_eq!(rows(&store, sql).await, ["partly_repaired 2"]);
    let sql = "SELECT kind FROM changes WHERE record_id IN ('3', '4')";
    assert_eq!(rows(&store, sql).await, ["baseline", "baseline"]);
}

/// Imports a file of texts as records of one business.
fn import_texts(store: &Store, business: Option<&str>, texts: &[String]) -> ImportOutcome {
    let mut file = import(&[]);
    file.list.business = business.map(str::to_owned);
    file.page = Arc::new(fixtures::page(texts));
    let mut operator = Operator::open(store.path()).unwrap();
    operator.import(&file, false).unwrap()
}

#[tokio::test]
async fn an_import_leaves_what_is_not_surely_old_to_polls_and_sinks_get_it() {
    let text = |id: &str, at: &str| format!(r#"{{"id":"{id}","created_at":"{at}"}}"#);
    let (_dir, store) = fixtures::open();
    // The polls are in January 2027.
    let old = text("x-old", "2026-12-01T00:00:00Z");
    let new = text("x-new", "2027-02-01T00:00:00Z");
    let untimed = r#"{"id":"x-untimed"}"#.to_owned();
    let all = [old, new.clone(), untimed.clone()];
    let outcome = import_texts(&store, None, &all);
    assert_eq!((outcome.stored, outcome.newer), (0, 3), "no poll yet");

    let first = text("x-first", "2027-01-01T00:00:00Z");
    Poll::USUAL
        .shows(&store, std::slice::from_ref(&first))
        .await;
    let outcome = import_texts(&store, None, &all);
    assert_eq!((outcome.stored, outcome.newer), (1, 2));
    let shown = Poll::at(60).shows(&store, &[untimed, new, first]).await;
    assert_eq!(shown.created, 2);
}

#[tokio::test]
async fn an_import_of_all_branches_under_one_leaves_what_another_is_still_to_show() {
    let (_dir, store) = fixtures::open();
    let poll = |business, second| Poll {
        business: Some(business),
        ..Poll::at(second)
    };
    poll("1", 0).shows(&store, &texts(&[(200, "Ann")])).await;
    poll("2", 0).shows(&store, &texts(&[(120, "Bea")])).await;
    let file = texts(&[(201, "Gil"), (150, "Cid"), (119, "Dan")]);
    let outcome = import_texts(&store, Some("1"), &file);
    assert_eq!((outcome.stored, outcome.newer), (1, 2));
    let next = texts(&[(150, "Cid"), (120, "Bea")]);
    assert_eq!(poll("2", 60).shows(&store, &next).await.created, 1);
}

#[tokio::test]
async fn a_poll_that_shows_what_an_earlier_import_said_is_no_change() {
    let (_dir, store) = fixtures::open();
    let first = texts(&[(8, "Hal"), (7, "Gil")]);
    Poll::USUAL.shows(&store, &first).await;
    import_texts(&store, None, &texts(&[(3, "Cid")]));
    let corrected = import_texts(&store, None, &texts(&[(3, "Cyd")]));
    assert_eq!(corrected.replaced, 1);
    let shown = texts(&[(3, "Cid"), (8, "Hal"), (7, "Gil")]);
    let outcome = Poll::at(200).shows(&store, &shown).await;
    assert_eq!((outcome.created, outcome.updated), (0, 0));
    let sql = "SELECT DISTINCT kind FROM changes";
    assert_eq!(rows(&store, sql).await, ["baseline"]);
}

#[tokio::test]
async fn a_search_leaves_the_text_of_an_import_to_polls() {
    let (_dir, store) = fixtures::open();
    let texts = |name| [fixtures::record(9, "Ida"), fixtures::record(3, name)];
    let polled = super::search::page(&[(9, "Ida")]);
    let facts = super::search::facts(100);
    store
        .store_page(super::search::customers(), polled, facts, None)
        .await
        .unwrap();
    let mut file = import(&[(3, "Cid")]);
    file.list = super::search::customers();
    Operator::open(store.path())
        .unwrap()
        .import(&file, false)
        .unwrap();
    let found = fixtures::page(&texts("Cyd"));
    let search = super::search::found_by_search(found, Kind::Baseline);
    store.store_found(search).await.unwrap();
    let sql = "SELECT name || ' ' || _via FROM customers WHERE id = '3'";
    assert_eq!(rows(&store, sql).await, ["Cid import"]);
}

#[tokio::test]
async fn an_import_says_nothing_of_how_the_values_of_the_workspace_are_read() {
    let (_dir, store) = fixtures::open();
    let polled = |id| format!(r#"{{"id":{id},"paid_amount":1.5,"received_at":"31/12/2025"}}"#);
    let polled: Vec<String> = (20..30).rev().map(polled).collect();
    Poll::USUAL.shows_of(&store, Route::Jobs, &polled).await;
    let facts = "
        SELECT field || ' ' || rule || ' ' || records || ' ' || coalesce(found_seq, '-')
        FROM _field_facts
        ORDER BY field, rule";
    let before = rows(&store, facts).await;
    assert!(!before.is_empty());
    let imported = |id| format!(r#"{{"id":{id},"received_at":"12/31/2025"}}"#);
    let imported: Vec<String> = (1..10).rev().map(imported).collect();
    let mut file = import(&[]);
    file.list.route = Route::Jobs;
    file.page = Arc::new(fixtures::page(&imported));
    let mut operator = Operator::open(store.path()).unwrap();
    assert_eq!(operator.import(&file, false).unwrap().stored, 9);
    assert_eq!(rows(&store, facts).await, before);
}

#[tokio::test]
async fn the_word_that_reaches_further_back_stands() {
    let (_dir, store) = fixtures::open();
    let mut operator = Operator::open(store.path()).unwrap();
    for second in [1_700_000_000, 1_750_000_000] {
        let import = CompleteImport {
            route: "leads".to_owned(),
            business: None,
            since: jiff::Timestamp::from_second(second).unwrap(),
        };
        operator.note_complete_import(import).unwrap();
    }
    let noted = store.read(|reader| reader.complete_imports()).await;
    let since: Vec<i64> = noted.unwrap().iter().map(|i| i.since.as_second()).collect();
    assert_eq!(since, [1_700_000_000]);
}
