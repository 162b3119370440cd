//! Records that are gone from their list.

use jiff::Timestamp;
use shopmirror_core::record::{Change, Kind, PollerId, Route};

use crate::store::fixtures::{Poll, open, page, record, records};
use crate::store::ingest::Search;
use crate::store::{Operator, PageOutcome, Store};

async fn shows(store: &Store, second: i64, shown: &[String]) -> PageOutcome {
    Poll::at(second).shows(store, shown).await
}

async fn shows_in(
    store: &Store,
    business: &'static str,
    second: i64,
    shown: &[String],
) -> PageOutcome {
    let poll = Poll {
        business: Some(business),
        served: Some(business),
        second,
        ..Poll::USUAL
    };
    poll.shows(store, shown).await
}

/// The records 20 to 1, without some.
fn without(gone: &[i64]) -> Vec<String> {
    let ids = (1..=20).rev().filter(|id| !gone.contains(id));
    ids.map(|id| record(id, "N")).collect()
}

/// The changes after the first page.
async fn changes(store: &Store, first_page: i64) -> Vec<Change> {
    let changes = store.read(move |reader| reader.changes_after(first_page, 1_000));
    changes.await.unwrap()
}

async fn kinds(store: &Store, id: &'static str) -> Vec<Kind> {
    let history = store.read(|reader| reader.history(Route::Leads, id));
    let changes = history.await.unwrap().changes;
    changes.into_iter().map(|change| change.kind).collect()
}

async fn vanished_at(store: &Store, id: &'static str) -> Option<String> {
    let row = store.read(|reader| reader.record(Route::Leads, id));
    let row = row.await.unwrap().unwrap();
    row["_vanished_at"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_record_that_two_pages_lack_has_vanished_and_keeps_its_last_text() {
    for is_once in [false, true] {
        let (dir, mut store) = open();
        shows(&store, 0, &records(1..=20)).await;
        let mut vanished = Vec::new();
        for second in [10, 20, 30] {
            vanished.push(shows(&store, second, &without(&[10])).await.vanished);
            if is_once {
                store.close().await.unwrap();
                drop(store);
                store = Store::open(&dir.path().join("mirror.db")).unwrap();
            }
        }
        assert_eq!(vanished, [0, 1, 0]);
        let changes = changes(&store, 20).await;
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].event_type(), "leads.vanished");
        assert_eq!((changes[0].version, changes[0].before.as_ref()), (2, None));
        assert_eq!(changes[0].body, record(10, "N"));
        let at = vanished_at(&store, "10").await.unwrap();
        assert!(at.starts_with("2027-01-15T08:00:20"), "{at}");
        assert_eq!(vanished_at(&store, "11").await, None);
    }
}

#[tokio::test]
async fn shown_again_it_is_updated_also_with_the_same_text() {
    for state in ["N", "M"] {
        let (_dir, store) = open();
        shows(&store, 0, &records(1..=20)).await;
        shows(&store, 10, &without(&[10])).await;
        shows(&store, 20, &without(&[10])).await;
        let mut back = records(1..=21);
        back[11] = record(10, state);
        let outcome = shows(&store, 30, &back).await;
        assert_eq!((outcome.created, outcome.updated), (1, 1));
        assert_eq!(
            kinds(&store, "10").await,
            [Kind::Baseline, Kind::Vanished, Kind::Updated]
        );
        assert_eq!(vanished_at(&store, "10").await, None);
        assert_eq!(shows(&store, 40, &back).await.updated, 0);
    }
}

#[tokio::test]
async fn a_server_that_lags_and_still_shows_it_does_not_bring_it_back_on_one_page() {
    let (_dir, store) = open();
    shows(&store, 0, &records(1..=20)).await;
    shows(&store, 10, &without(&[10])).await;
    shows(&store, 20, &without(&[10])).await;
    assert_eq!(shows(&store, 30, &records(1..=20)).await.updated, 0);
    assert_eq!(shows(&store, 40, &without(&[10])).await.updated, 0);
    assert_eq!(kinds(&store, "10").await.last(), Some(&Kind::Vanished));
    assert_eq!(shows(&store, 50, &records(1..=20)).await.updated, 1);
}

#[tokio::test]
async fn each_other_business_has_to_give_a_page_first_that_does_not_show_it() {
    let (_dir, store) = open();
    shows_in(&store, "1", 0, &records(1..=20)).await;
    shows_in(&store, "2", 1, &records(101..=120)).await;
    shows_in(&store, "1", 10, &without(&[10])).await;
    assert_eq!(shows_in(&store, "1", 20, &without(&[10])).await.vanished, 0);
    // A gap says nothing.
    shows_in(&store, "2", 21, &records(201..=220)).await;
    assert_eq!(shows_in(&store, "1", 30, &without(&[10])).await.vanished, 0);
    shows_in(&store, "2", 31, &records(201..=220)).await;
    assert_eq!(shows_in(&store, "1", 40, &without(&[10])).await.vanished, 1);
    // What moved is shown there.
    shows_in(&store, "1", 50, &without(&[10, 12])).await;
    let mut moved = records(202..=220);
    moved.insert(3, record(12, "N"));
    shows_in(&store, "2", 51, &moved).await;
    for second in [60, 70] {
        let outcome = shows_in(&store, "1", second, &without(&[10, 12])).await;
        assert_eq!(outcome.vanished, 0);
        shows_in(&store, "2", second + 1, &moved).await;
    }
    assert_eq!(kinds(&store, "12").await, [Kind::Baseline]);
}

#[tokio::test]
async fn a_search_that_shows_it_ends_it() {
    let (_dir, store) = open();
    let poller = PollerId {
        route: Route::Customers,
        business: None,
    };
    let shows = async |second, shown: &[String]| {
        let poll = Poll {
            second,
            ..Poll::USUAL
        };
        let facts = poll.facts(&store);
        let outcome = store.store_page(poller.clone(), page(shown), facts, None);
        outcome.await.unwrap().vanished
    };
    let finds = async |shown: String| {
        let search = Search {
            business: None,
            page: page(&[shown]),
            kind: Kind::Baseline,
            at: Timestamp::from_second(1_800_000_500).unwrap(),
            asked_after: store.seq(),
            backfill_term: None,
        };
        store.store_found(search).await.unwrap().updated
    };
    shows(0, &records(1..=20)).await;
    shows(10, &without(&[10])).await;
    assert_eq!(finds(record(10, "N")).await, 0);
    assert_eq!(shows(20, &without(&[10])).await, 0);
    assert_eq!(shows(30, &without(&[10])).await, 0);

    shows(40, &without(&[10, 14])).await;
    assert_eq!(shows(50, &without(&[10, 14])).await, 1);
    // In another shape than a page shows it.
    assert_eq!(finds(r#"{"id":14}"#.to_owned()).await, 1);
    let row = store.read(|reader| reader.record(Route::Customers, "14"));
    let row = row.await.unwrap().unwrap();
    assert_eq!(row["name"], "N");
    assert!(row["_vanished_at"].is_null());
}

#[tokio::test]
async fn more_than_ten_in_a_day_are_withheld_until_the_operator_answers() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let long = |gone: &[i64]| -> Vec<String> {
        let ids = (1..=100).rev().filter(|id| !gone.contains(id));
        ids.map(|id| record(id, "N")).collect()
    };
    let shows = async |second, shown: &[String]| {
        let poll = Poll {
            second,
            limit: 200,
            ..Poll::USUAL
        };
        poll.shows(&store, shown).await
    };
    shows(0, &long(&[])).await;
    let mut gone: Vec<i64> = (40..=42).collect();
    shows(10, &long(&gone)).await;
    assert_eq!(shows(20, &long(&gone)).await.vanished, 3);
    gone.extend(50..=57);
    shows(30, &long(&gone)).await;
    assert_eq!(shows(40, &long(&gone)).await.vanished, 0);
    let withheld = store.read(|reader| reader.withheld()).await.unwrap();
    assert_eq!(withheld.len(), 1);
    assert_eq!(withheld[0].records, 8);
    assert!(withheld[0].since.starts_with("2027-01-15T08:00:30"));
    // One is shown again.
    gone.retain(|id| *id != 57);
    shows(50, &long(&gone)).await;
    let mut operator = Operator::open(&path).unwrap();
    let marked = operator.accept_vanished(Route::Leads, "2027-01-15T09:00:00.000000Z");
    assert_eq!(marked.unwrap(), 7);
    assert_eq!(kinds(&store, "50").await, [Kind::Baseline, Kind::Vanished]);
    assert_eq!(kinds(&store, "57").await, [Kind::Baseline]);
    assert_eq!(shows(60, &long(&gone)).await.updated, 0);

    // A list that hides records.
    let day = 25 * 3_600;
    gone.extend(60..=71);
    shows(day, &long(&gone)).await;
    shows(day + 10, &long(&gone)).await;
    assert_eq!(operator.accept_hidden(Route::Leads).unwrap(), 12);
    gone.push(80);
    for second in [20, 30, 40] {
        assert_eq!(shows(day + second, &long(&gone)).await.vanished, 0);
    }
    assert_eq!(kinds(&store, "60").await, [Kind::Baseline]);
    assert_eq!(store.read(|reader| reader.withheld()).await.unwrap(), []);
    // The list is watched again.
    assert_eq!(operator.accept_vanished(Route::Leads, "2027").unwrap(), 0);
    gone.push(82);
    shows(day + 50, &long(&gone)).await;
    assert_eq!(shows(day + 60, &long(&gone)).await.vanished, 1);
}

#[tokio::test]
async fn an_unchanged_page_writes_nothing_while_a_candidate_waits_for_another_business() {
    let (_dir, store) = open();
    shows_in(&store, "1", 0, &records(1..=20)).await;
    shows_in(&store, "2", 1, &records(101..=120)).await;
    shows_in(&store, "1", 10, &without(&[10])).await;
    shows_in(&store, "1", 20, &without(&[10])).await;
    let before = store.read(|reader| reader.pollers()).await.unwrap();
    shows_in(&store, "1", 30, &without(&[10])).await;
    assert_eq!(store.read(|reader| reader.pollers()).await.unwrap(), before);
    assert_eq!(before[0].vanishing.candidates().len(), 1);
}

#[tokio::test]
async fn a_mirror_that_is_made_again_from_the_log_has_the_same_marks() {
    let (dir, store) = open();
    shows(&store, 0, &records(1..=20)).await;
    for second in [10, 20] {
        shows(&store, second, &without(&[10])).await;
    }
    let row = async |store: &Store| {
        let row = store.read(|reader| reader.record(Route::Leads, "10"));
        row.await.unwrap().unwrap()
    };
    let before = row(&store).await;
    store.close().await.unwrap();
    drop(store);
    let path = dir.path().join("mirror.db");
    let now = jiff::Timestamp::UNIX_EPOCH;
    crate::store::rebuild(&path, now, &mut |_, _| ()).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(row(&store).await, before);
}
