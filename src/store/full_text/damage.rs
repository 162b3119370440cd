//! What a damaged index costs: searches for a while, and nothing else.

use crate::record::Route;
use crate::store::fixtures::{Poll, open, record, records};
use crate::store::operate::Operator;
use crate::store::{Forgotten, Reader, SearchIndex, Store, StoreError, rebuild};

/// Damages every block of the index that holds words, or what says where they are.
fn damage(path: &std::path::Path, what: &str) {
    let tool = rusqlite::Connection::open(path).unwrap();
    let changed = tool.execute(what, []).unwrap();
    assert!(changed > 0, "{what}");
}

const WORDS: &str = "UPDATE _search_data SET block = zeroblob(length(block)) WHERE id > 10";
const STRUCTURE: &str = "UPDATE _search_data SET block = x'00' WHERE id = 10";
const SETTINGS: &str = "DELETE FROM _search_config";
const DAMAGES: [&str; 3] = [WORDS, STRUCTURE, SETTINGS];

fn ids(reader: &Reader, term: &str) -> Vec<String> {
    let found = reader.find(term, None, 300).unwrap();
    let mut ids: Vec<String> = found.into_iter().map(|c| c.record_id.unwrap()).collect();
    ids.sort();
    ids
}

/// Polls of one edited record, until the damage is met or was passed.
async fn edit(store: &Store, times: i64) {
    for time in 0..times {
        let mut shown = records(1..=50);
        shown[49] = record(1, &format!("Edited{time} Quetzal"));
        let poll = Poll { limit: 100, second: time + 1, ..Poll::USUAL };
        poll.shows(store, &shown).await;
    }
}

#[tokio::test]
async fn a_damaged_index_stops_no_page_and_is_made_again() {
    for what in DAMAGES {
        let (dir, store) = open();
        let path = dir.path().join("mirror.db");
        Poll { limit: 100, ..Poll::USUAL }.shows(&store, &records(1..=50)).await;
        store.close().await.unwrap();
        drop(store);
        damage(&path, what);
        let store = Store::open(&path).unwrap();
        let mut seen = store.search_index();
        edit(&store, 40).await;
        assert_eq!(*seen.borrow_and_update(), SearchIndex::SetAside, "{what}");
        let reader = Reader::open(&path).unwrap();
        assert!(matches!(reader.find("edited39", None, 5), Err(StoreError::SearchDamaged)));
        let versions = reader.history(Route::Leads, "1").unwrap().changes.len();
        assert_eq!(versions, 41, "{what}: every page was stored");

        let mut steps = 0;
        while store.renew_search_index().await.unwrap() != SearchIndex::Whole {
            steps += 1;
            assert!(steps < 10, "{what}");
        }
        assert_eq!(*seen.borrow_and_update(), SearchIndex::Whole);
        let reader = Reader::open(&path).unwrap();
        assert_eq!(ids(&reader, "edited39"), ["1"], "{what}");
        assert_eq!(ids(&reader, "n").len(), 49, "{what}");
        assert!(ids(&reader, "edited38").is_empty());
    }
}

#[tokio::test]
async fn a_record_is_forgotten_and_a_mirror_rebuilt_with_a_damaged_index() {
    for what in DAMAGES {
        let (dir, store) = open();
        let path = dir.path().join("mirror.db");
        Poll { limit: 100, ..Poll::USUAL }.shows(&store, &records(1..=50)).await;
        store.close().await.unwrap();
        drop(store);
        damage(&path, what);
        let now = Operator::open(&path).unwrap().forget(Route::Leads, "7", "2026").unwrap();
        assert!(matches!(now, Forgotten::Now { .. }), "{what}");
        damage(&path, "UPDATE _search_data SET block = x'00' WHERE id = 10");
        rebuild(&path, &mut |_, _| ()).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(ids(&reader, "n").len(), 49, "{what}");
    }
}
