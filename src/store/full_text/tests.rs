use crate::record::Route;
use crate::store::fixtures::{Poll, open, record};
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
    // All of ASCII and Latin, and some of every script.
    let characters = (0..=0x1_FFFF_u32)
        .filter(|code| *code < 0x250 || code % 61 == 0)
        .filter_map(char::from_u32);
    for character in characters {
        let term = format!("a{character}z");
        let asked = reader.find(&term, None, 1);
        assert!(asked.is_ok(), "{:04X}: {asked:?}", u32::from(character));
    }
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

/// An index as the program made it before, which SQLite of Debian 12 cannot read.
#[tokio::test]
async fn an_older_index_is_made_again_at_the_next_start_in_the_format_that_every_sqlite_reads() {
    let (dir, store) = open();
    let path = dir.path().join("mirror.db");
    Poll::USUAL.shows(&store, &[record(1, "Ann"), record(2, "Bob")]).await;
    store.close().await.unwrap();
    drop(store);
    let tool = rusqlite::Connection::open(&path).unwrap();
    tool.execute_batch(
        "INSERT INTO _search (_search, rank) VALUES ('secure-delete', 1); \
         INSERT INTO _search (_search, rowid, text) SELECT 'delete', seq, '2 Bob ' FROM changes \
         WHERE record_id = '2'; \
         UPDATE _meta SET value = '2' WHERE name = 'search_form'",
    )
    .unwrap();
    let settings = || {
        let sql = "SELECT group_concat(k || ' ' || v, ', ') FROM _search_config ORDER BY k";
        tool.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    assert!(settings().contains("version 5"), "{}", settings());
    drop(Store::open(&path).unwrap());
    assert_eq!(settings(), "version 4");
    let reader = Reader::open(&path).unwrap();
    assert_eq!((found(&reader, "ann"), found(&reader, "bob")), ("1".to_owned(), "2".to_owned()));
}
