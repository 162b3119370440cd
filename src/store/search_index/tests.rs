use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::ffi;

use super::{REOPEN_AFTER, SearchIndex, unusable};
use crate::store::StoreError;
use crate::store::fixtures::{Poll, open, record, records};
use crate::store::{IndexProgress, Reader, Store, index_log};

/// Opens the index and steps until the whole log is indexed.
async fn index(store: &Store) {
    *store.shared.follower.lock().await = None;
    follow(&mut store.search_index()).await;
}

async fn follow(index: &mut SearchIndex) {
    while !index.follow().await.unwrap().is_whole() {}
}

fn found(reader: &Reader, term: &str) -> String {
    let changes = reader.find(term, None, 10).unwrap().changes;
    let ids: Vec<&str> = changes
        .iter()
        .map(|c| c.record_id.as_deref().unwrap())
        .collect();
    ids.join(" ")
}

fn person(id: i64, name: &str, country: &str, number: &str) -> String {
    format!(
        r#"{{"id":{id},"name":"{name}","mobile_country_code":{country},"mobile_number":"{number}"}}"#
    )
}

#[tokio::test]
async fn a_record_is_found_by_its_newest_words_only() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    Poll::USUAL
        .shows(&store, &[record(2, "Łukasz Zoë"), record(1, "Ann Miller")])
        .await;
    index(&store).await;
    let reader = Reader::open(&path).unwrap();
    assert_eq!(found(&reader, "zoe"), "2");
    assert_eq!(found(&reader, "ann mill"), "1");
    assert_eq!(found(&reader, "miller ann"), "1");
    assert_eq!(found(&reader, "ann zoe"), "");
    // Not yet indexed: what has changed is neither found by its old words nor by its new ones.
    Poll::USUAL
        .shows(&store, &[record(2, "Łukasz Zoë"), record(1, "Ann Baker")])
        .await;
    let behind = reader.find("ann", None, 10).unwrap();
    assert_eq!(
        behind.searched,
        IndexProgress {
            indexed: 2,
            last_seq: 3
        }
    );
    assert_eq!(
        (behind.changes.len(), behind.searched.is_whole()),
        (0, false)
    );
    // Of several versions in one step only the last is indexed.
    for name in ["Ann Cook", "Ann Dyer"] {
        Poll::USUAL
            .shows(&store, &[record(2, "Łukasz Zoë"), record(1, name)])
            .await;
    }
    index(&store).await;
    for old in ["miller", "baker", "cook"] {
        assert_eq!(found(&reader, old), "", "{old}");
    }
    assert_eq!(found(&reader, "dyer"), "1");
    let words = rusqlite::Connection::open(dir.path().join("search.db")).unwrap();
    let rows = words.query_row("SELECT count(*) FROM words", [], |row| row.get::<_, i64>(0));
    assert_eq!(rows.unwrap(), 2, "a row for each record");
}

#[tokio::test]
async fn a_phone_number_is_found_however_it_is_written() {
    let (dir, store) = open();
    let shown = [
        person(3, "C", "null", "+1 (415) 555-0000"),
        person(2, "B", "null", "07700900124"),
        person(1, "A", "\"+44\"", "07700 900123"),
    ];
    Poll::USUAL.shows(&store, &shown).await;
    index(&store).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    for term in [
        "07700 900123",
        "07700900123",
        "7700900123",
        "+447700900123",
        "+44 7700 900123",
        "0044 7700-900-123",
        "+44 (0)7700 900123",
        "900123",
        "0123",
    ] {
        assert_eq!(found(&reader, term), "1", "{term}");
    }
    for term in ["+44 7700 900124", "07700/900 124", "900124"] {
        assert_eq!(found(&reader, term), "2", "{term}");
    }
    for term in [
        "4155550000",
        "+14155550000",
        "415 555 0000",
        "001 415 555 0000",
        "555-0000",
    ] {
        assert_eq!(found(&reader, term), "3", "{term}");
    }
    assert_eq!(found(&reader, "07700 900125"), "");
}

#[tokio::test]
async fn names_of_every_script_are_found_and_those_in_latin_letters_without_their_accents() {
    let (dir, store) = open();
    let names = [
        "किरण शर्मा",
        "สมชาย ใจดี",
        "தமிழ்ச்செல்வி",
        "שָׁלוֹם",
        "محمّد",
        "山田太郎",
        "Zoe\u{301}",
        "Ελένη",
        "가나다",
    ];
    let shown: Vec<String> = (1..)
        .zip(names)
        .map(|(id, name)| record(id, name))
        .collect();
    Poll::USUAL.shows(&store, &shown).await;
    index(&store).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    for (id, name) in (1..).zip(names) {
        assert_eq!(found(&reader, name), format!("{id}"), "{name}");
    }
    for (term, id) in [("किर", "1"), ("zoe", "7"), ("zoé", "7"), ("ελένη", "8")] {
        assert_eq!(found(&reader, term), id, "{term}");
    }
}

#[tokio::test]
async fn a_record_with_a_long_text_is_found_by_its_other_words() {
    let (dir, store) = open();
    let comment = "lorem ipsum ".repeat(1_700);
    let shown = format!(
        r#"{{"id":7,"comment":"{comment}","email":"ann@example.com","name":"Ann","zip":"50667"}}"#
    );
    Poll::USUAL.shows(&store, &[shown]).await;
    index(&store).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    for term in ["ann", "ann@example.com", "50667", "lorem"] {
        assert_eq!(found(&reader, term), "7", "{term}");
    }
}

#[tokio::test]
async fn no_character_of_a_term_is_taken_for_damage() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &[record(1, "Ann")]).await;
    index(&store).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    // All of ASCII and Latin, and some of every script.
    let characters = (0..=0x1_FFFF_u32)
        .filter(|code| *code < 0x250 || code % 211 == 0)
        .filter_map(char::from_u32);
    for character in characters {
        let term = format!("a{character}z");
        let asked = reader.find(&term, None, 1);
        assert!(asked.is_ok(), "{:04X}: {asked:?}", u32::from(character));
    }
}

/// Writes over what the file holds, as a bad disk does.
fn scribble(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[100..].fill(0x5a);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn an_index_that_is_deleted_damaged_or_of_another_form_or_log_is_made_again() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let file = dir.path().join("search.db");
    Poll {
        limit: 100,
        ..Poll::USUAL
    }
    .shows(&store, &records(1..=50))
    .await;
    let (other_dir, other) = open();
    Poll::USUAL
        .shows(&other, &[record(2, "Other"), record(1, "Other")])
        .await;
    index(&other).await;
    let replace = |bytes: &[u8]| {
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
    };
    let set = |sql: &str| {
        assert_eq!(
            rusqlite::Connection::open(&file)
                .unwrap()
                .execute(sql, [])
                .unwrap(),
            1
        );
    };
    let set_form = || {
        let index = rusqlite::Connection::open(&file).unwrap();
        index.pragma_update(None, "user_version", 1).unwrap();
    };
    let spoil: [&dyn Fn(); 8] = [
        &|| fs::remove_file(&file).unwrap(),
        &set_form,
        &|| replace(b""),
        &|| replace(b"no database"),
        &|| scribble(&file),
        &|| set("UPDATE followed SET seq = 60"),
        &|| set("DELETE FROM followed"),
        &|| replace(&fs::read(other_dir.path().join("search.db")).unwrap()),
    ];
    let reader = Reader::open(&path).unwrap();
    for (known, spoil) in (50..).zip(spoil) {
        index(&store).await;
        spoil();
        // A search may be the first to meet it; until the next step it has all of them or says that
        // it has not.
        if let Ok(found) = reader.find("n", None, 99) {
            assert_eq!(
                found.changes.len() == known,
                found.searched.is_whole(),
                "{known}"
            );
        }
        let shown = records(1..=i64::try_from(known).unwrap() + 1);
        Poll {
            limit: 100,
            second: 1,
            ..Poll::USUAL
        }
        .shows(&store, &shown)
        .await;
        index(&store).await;
        assert_eq!(reader.find("n", None, 99).unwrap().changes.len(), known + 1);
    }
}

/// When the index opened its file, after it was made so much older.
async fn opened_at(index: &SearchIndex, older: Duration) -> Instant {
    let mut follower = index.store.shared.follower.lock().await;
    let file = follower.as_mut().unwrap().file.as_mut().unwrap();
    file.opened_at -= older;
    file.opened_at
}

#[tokio::test]
async fn a_running_index_opens_nothing_for_news_and_notices_what_happens_to_its_file() {
    let (dir, store) = open();
    let file = dir.path().join("search.db");
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    let mut index = store.search_index();
    let grow = async |count: i64| {
        let poll = Poll {
            second: 1,
            ..Poll::USUAL
        };
        poll.shows(&store, &records(1..=count)).await;
    };
    let count = || reader.find("n", None, 99).unwrap().changes.len();

    grow(1).await;
    follow(&mut index).await;
    let first = opened_at(&index, Duration::ZERO).await;
    grow(2).await;
    follow(&mut index).await;
    let second = opened_at(&index, Duration::ZERO).await;
    assert_eq!(second, first, "opened for a new record");

    fs::remove_file(&file).unwrap();
    follow(&mut index).await;
    assert_eq!(count(), 2, "deleted");

    let whole = fs::read(&file).unwrap();
    grow(3).await;
    follow(&mut index).await;
    fs::remove_file(&file).unwrap();
    fs::write(&file, whole).unwrap();
    follow(&mut index).await;
    assert_eq!(count(), 3, "replaced by an older one");

    scribble(&file);
    opened_at(&index, REOPEN_AFTER).await;
    follow(&mut index).await;
    assert_eq!(count(), 3, "damaged");
}

#[tokio::test]
async fn stores_in_one_folder_have_an_index_each_and_none_takes_the_place_of_a_store() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &[record(1, "Ann")]).await;
    let paths = ["second.db", "search.db"].map(|name| dir.path().join(name));
    for (path, name) in paths.iter().zip(["Bob", "Cid"]) {
        let store = Store::open(path).unwrap();
        Poll::USUAL.shows(&store, &[record(1, name)]).await;
        store.close().await.unwrap();
        drop(store);
        index_log(path).unwrap();
        assert_eq!(found(&Reader::open(path).unwrap(), name), "1");
    }
    let refused = anyhow::Error::from(store.search_index().follow().await.unwrap_err());
    assert!(
        format!("{refused:#}").contains("a store lies there"),
        "{refused:#}"
    );
    assert!(
        Reader::open(&paths[1]).is_ok(),
        "the store of that name is as it was"
    );
}

#[test]
fn only_what_lies_in_the_file_makes_an_index_unusable() {
    let is_unusable = |code| {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        matches!(unusable(error), StoreError::NoSearchIndex)
    };
    for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_ERROR] {
        assert!(is_unusable(code), "{code}");
    }
    let machine = [
        ffi::SQLITE_IOERR_READ,
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_CANTOPEN,
    ];
    for code in machine
        .into_iter()
        .chain([ffi::SQLITE_NOMEM, ffi::SQLITE_FULL])
    {
        assert!(!is_unusable(code), "{code}");
    }
}
