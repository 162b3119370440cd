use crate::record::{Kind, PollerId, Route};
use crate::store::fixtures::{self, Poll, open, record};
use crate::store::operate::Operator;
use crate::store::{Forgotten, Reader, Store, rebuild};

fn found(reader: &Reader, term: &str) -> String {
    let changes = reader.find(term, None, 10).unwrap();
    let ids: Vec<&str> = changes.iter().map(|c| c.record_id.as_deref().unwrap()).collect();
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
    Poll::USUAL.shows(&store, &[record(2, "Łukasz Zoë"), record(1, "Ann Miller")]).await;
    let reader = Reader::open(&path).unwrap();
    assert_eq!(found(&reader, "zoe"), "2");
    assert_eq!(found(&reader, "ann mill"), "1");
    assert_eq!(found(&reader, "miller ann"), "1");
    assert_eq!(found(&reader, "ann zoe"), "");
    for name in ["Ann Baker", "Ann Cook", "Ann Dyer"] {
        Poll::USUAL.shows(&store, &[record(2, "Łukasz Zoë"), record(1, name)]).await;
    }
    for old in ["miller", "baker", "cook"] {
        assert_eq!(found(&reader, old), "", "{old}");
    }
    assert_eq!(found(&reader, "dyer"), "1");
    store.close().await.unwrap();
    drop((store, reader));
    rebuild(&path, &mut |_, _| ()).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!((found(&reader, "dyer"), found(&reader, "cook")), ("1".to_owned(), String::new()));
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
    for term in ["4155550000", "+14155550000", "415 555 0000", "001 415 555 0000", "555-0000"] {
        assert_eq!(found(&reader, term), "3", "{term}");
    }
    assert_eq!(found(&reader, "07700 900125"), "");
}

#[tokio::test]
async fn names_of_every_script_are_found_with_and_without_their_marks() {
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
    let shown: Vec<String> = (1..).zip(names).map(|(id, name)| record(id, name)).collect();
    Poll::USUAL.shows(&store, &shown).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    for (id, name) in (1..).zip(names) {
        assert_eq!(found(&reader, name), format!("{id}"), "{name}");
    }
    for (term, id) in
        [("किर", "1"), ("שלום", "4"), ("محمد", "5"), ("zoé", "7"), ("ζωη", ""), ("ελενη", "8")]
    {
        assert_eq!(found(&reader, term), id, "{term}");
    }
}

#[tokio::test]
async fn no_character_of_a_term_is_taken_for_damage() {
    let (dir, store) = open();
    Poll::USUAL.shows(&store, &[record(1, "Ann")]).await;
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    let ideographs = 0x3400..=0xD7A3;
    let characters = (0..=0x1_FFFF_u32)
        .filter(|code| !ideographs.contains(code) || code % 101 == 0)
        .filter_map(char::from_u32);
    for character in characters {
        let term = format!("a{character}z");
        let asked = reader.find(&term, None, 1);
        assert!(asked.is_ok(), "{:04X}: {asked:?}", u32::from(character));
    }
}

#[tokio::test]
async fn a_record_of_a_rare_route_is_found_behind_a_thousand_newer_ones_of_another() {
    let (dir, store) = open();
    for (route, ids) in [(Route::Customers, 1..=2), (Route::Leads, 1..=1_200)] {
        let key = PollerId { route, business: None };
        let shown = fixtures::page(&ids.map(|id| record(id, "Ann")).collect::<Vec<_>>());
        store.store_page(key, shown, Poll::USUAL.facts(&store), None).await.unwrap();
    }
    let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
    let routes = |route, limit| -> Vec<Route> {
        reader.find("ann", route, limit).unwrap().iter().map(|change| change.route).collect()
    };
    assert_eq!(routes(Some(Route::Customers), 20), [Route::Customers; 2]);
    assert_eq!(routes(Some(Route::Customers), 1), [Route::Customers]);
    assert_eq!(routes(Some(Route::Payments), 20), []);
    assert_eq!(routes(None, 2), [Route::Leads; 2]);
}

#[tokio::test]
async fn what_is_forgotten_is_not_found_and_not_in_the_file() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    Poll::USUAL.shows(&store, &[record(1, "Xylophonist Quetzal"), record(2, "N")]).await;
    Poll::USUAL.shows(&store, &[record(1, "Xylophonist Renamed"), record(2, "N")]).await;
    store.close().await.unwrap();
    drop(store);
    let is_on_disk = || {
        std::fs::read_dir(dir.path()).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes.windows(8).any(|window| window == b"ylophoni" || window == b"quetzal\0")
        })
    };
    assert!(is_on_disk());
    let mut operator = Operator::open(&path).unwrap();
    let forgotten = operator.forget(Route::Leads, "1", "2026").unwrap();
    assert_eq!(forgotten, Forgotten::Now { versions: 2 });
    drop(operator);
    assert!(!is_on_disk());
    let reader = Reader::open(&path).unwrap();
    assert_eq!(found(&reader, "xylophonist"), "");
    drop(reader);
    rebuild(&path, &mut |_, _| ()).unwrap();
    assert_eq!(found(&Reader::open(&path).unwrap(), "xylophonist"), "");
}

#[tokio::test]
async fn no_word_of_a_forgotten_record_stays_in_pages_that_the_index_gave_back() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    let padding = "padding ".repeat(60);
    // Enough pages that FTS5 merges its segments several times while the record is in them.
    for page in 0..40 {
        let mut shown: Vec<String> = (0..40)
            .map(|n| {
                record(page * 40 + n + 10, &format!("w{page}x{n} y{} {padding}", n * 7919 + page))
            })
            .collect();
        if page < 3 {
            shown[0] = record(1, &format!("Xqzvjkwpf{page}"));
        }
        let poll = Poll { limit: 100, second: page, ..Poll::USUAL };
        poll.shows(&store, &shown).await;
    }
    store.close().await.unwrap();
    drop(store);
    let is_on_disk = || {
        std::fs::read_dir(dir.path()).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap().to_ascii_lowercase();
            bytes.windows(7).any(|window| window == b"zvjkwpf")
        })
    };
    assert!(is_on_disk());
    let forgotten = Operator::open(&path).unwrap().forget(Route::Leads, "1", "2026").unwrap();
    assert_eq!(forgotten, Forgotten::Now { versions: 3 });
    assert!(!is_on_disk());
}

#[tokio::test]
async fn an_older_index_is_made_again_at_the_next_start() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    Poll::USUAL.shows(&store, &[record(1, "Ann"), record(2, "Bob")]).await;
    Poll::USUAL.shows(&store, &[record(1, "Ann"), record(2, "Bert")]).await;
    store.close().await.unwrap();
    drop(store);
    let tool = rusqlite::Connection::open(&path).unwrap();
    tool.execute_batch(
        "INSERT INTO _search (_search) VALUES ('delete-all'); \
         UPDATE meta SET value = '0' WHERE name = 'search_form'",
    )
    .unwrap();
    drop(tool);
    assert_eq!(found(&Reader::open(&path).unwrap(), "bert"), "");
    drop(Store::open(&path).unwrap());
    let reader = Reader::open(&path).unwrap();
    assert_eq!((found(&reader, "bert"), found(&reader, "bob")), ("2".to_owned(), String::new()));
    let kinds: Vec<Kind> = reader.find("bert", None, 1).unwrap().iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [Kind::Updated]);
}

#[tokio::test]
async fn a_record_whose_row_was_deleted_while_the_index_was_made_again_is_found_once_it_is_back() {
    for (name, old) in [("Ann Zebra", "quetzal"), ("Ann Quetzal", "zebra")] {
        let (dir, store) = open();
        let path = dir.path().join("mirror.db");
        Poll::USUAL.shows(&store, &[record(1, "Ann Quetzal"), record(2, "Bob")]).await;
        store.close().await.unwrap();
        drop(store);
        let tool = rusqlite::Connection::open(&path).unwrap();
        tool.execute_batch(
            "DELETE FROM leads WHERE id = '1'; UPDATE meta SET value = '0' WHERE name = 'search_form'",
        )
        .unwrap();
        let store = Store::open(&path).unwrap();
        for second in 1..4 {
            let shown = [record(1, name), record(2, &format!("Bob {second}"))];
            Poll { second, ..Poll::USUAL }.shows(&store, &shown).await;
            let reader = Reader::open(&path).unwrap();
            assert_eq!(found(&reader, "ann"), "1", "{name}");
            assert_eq!(
                (found(&reader, old), found(&reader, "bob")),
                (String::new(), "2".to_owned())
            );
        }
        tool.execute("INSERT INTO _search (_search) VALUES ('integrity-check')", []).unwrap();
        store.close().await.unwrap();
        drop(store);
        assert_eq!(
            Operator::open(&path).unwrap().forget(Route::Leads, "1", "2026").unwrap(),
            Forgotten::Now { versions: if old == "quetzal" { 2 } else { 1 } }
        );
        tool.execute("INSERT INTO _search (_search) VALUES ('integrity-check')", []).unwrap();
        assert_eq!(found(&Reader::open(&path).unwrap(), "ann"), "");
    }
}
