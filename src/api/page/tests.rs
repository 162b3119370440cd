use super::*;

fn word(body: impl AsRef<[u8]>) -> &'static str {
    match decode(body.as_ref().to_vec()) {
        Ok(_) => "a page",
        Err(error) => error.word(),
    }
}

fn ids(body: &str) -> Vec<String> {
    let page = decode(body.as_bytes().to_vec()).unwrap();
    page.records()
        .iter()
        .map(|record| record.id.as_str().to_owned())
        .collect()
}

fn texts(body: &str) -> Vec<String> {
    let page = decode(body.as_bytes().to_vec()).unwrap();
    page.records()
        .iter()
        .map(|record| page.text(record).to_owned())
        .collect()
}

#[test]
fn every_body_that_is_no_page_is_refused_with_its_reason() {
    for (body, expected) in [
        ("", "empty_body"),
        (" \r\n\t", "empty_body"),
        ("<!doctype html><html></html>", "html"),
        ("\n <html>", "html"),
        ("null", "null"),
        ("nullify", "not_json"),
        ("{}", "not_an_array"),
        (r#"{"data":[{"id":1}]}"#, "not_an_array"),
        (r#"{"data":[{"id":1}"#, "not_json"),
        ("true", "not_an_array"),
        ("not found", "not_json"),
        // A control character must be escaped, in a name as in a text.
        ("[{\"id\":1,\"a\nb\":2}]", "not_json"),
        ("[{\"id\":1,\"a\":\"\n\"}]", "not_json"),
        ("\u{a0}[]", "not_json"),
        ("\u{feff}", "empty_body"),
        ("\u{feff}\u{feff}[]", "not_json"),
        (r#"[{"id":1},]"#, "not_json"),
        (r#"[{"id":1},,{"id":2}]"#, "not_json"),
        (r#"[{"id":1}],"#, "not_json"),
        (r#"[{"id":1,"a":"\x"}]"#, "not_json"),
        (r#"[{"id":1,"a":NaN}]"#, "not_json"),
        (r#"[{"id":1,}]"#, "not_json"),
        (r#"[{id:1}]"#, "not_json"),
        ("[{\"id\":1}]\0", "not_json"),
        (r#"[{"id":1},[2]]"#, "not_an_object"),
        ("[1]", "not_an_object"),
        ("[{}]", "no_id"),
        (r#"[{"ID":1,"Id":2}]"#, "no_id"),
        (r#"[{"a":{"id":1}}]"#, "no_id"),
        (r#"[{"id":null}]"#, "bad_id"),
        (r#"[{"id":1.5}]"#, "bad_id"),
        (r#"[{"id":""}]"#, "bad_id"),
        (r#"[{"id":true}]"#, "bad_id"),
        (r#"[{"id":"\ud800"}]"#, "bad_id"),
    ] {
        assert_eq!(word(body), expected, "{body:?}");
    }
    assert_eq!(word(b"[{\"id\":1,\"a\":\"\xff\"}]"), "invalid_utf8");
    assert_eq!(word(b"[{\"id\":1,\"a\":\"\xed\xa0\x80\"}]"), "invalid_utf8");
    assert_eq!(word(b"\x1f\x8b\x08\x00"), "invalid_utf8");
    assert_eq!(
        word(format!("[{{\"id\":\"{}\"}}]", "x".repeat(256))),
        "bad_id"
    );
}

#[test]
fn a_record_whose_id_holds_a_nul_is_left_out_alone() {
    let body = r#"[{"id":"a"},{"id":"b\u0000","created_at":"2026-05-06T08:00:00Z"},{"id":"c"}]"#;
    assert_eq!(ids(body), ["a", "c"]);
    let page = decode(body.as_bytes().to_vec()).unwrap();
    let [left_out] = page.left_out() else {
        panic!("{page:?}")
    };
    assert_eq!(left_out.id_json, r#""b\u0000""#);
    let created_at = "2026-05-06T08:00:00Z".parse().unwrap();
    assert_eq!(left_out.created_at, Some(created_at));
}

#[test]
fn the_first_of_two_records_with_one_id_counts() {
    for (body, shown, count) in [
        (r#"[{"id":1},{"id":1}]"#, vec![r#"{"id":1}"#], 1),
        (
            r#"[{"id":1},{"id":2},{"id":"1"}]"#,
            vec![r#"{"id":1}"#, r#"{"id":2}"#],
            1,
        ),
        (r#"[{"id":"a"},{"id":"\u0061"}]"#, vec![r#"{"id":"a"}"#], 1),
        (
            r#"[{"id":3},{"id":3},{"id":2},{"id":3}]"#,
            vec![r#"{"id":3}"#, r#"{"id":2}"#],
            2,
        ),
        (
            r#"[{"id":3,"v":2},{"id":3,"v":1}]"#,
            vec![r#"{"id":3,"v":2}"#],
            1,
        ),
        (
            r#"[{"id":3},{"id":2}]"#,
            vec![r#"{"id":3}"#, r#"{"id":2}"#],
            0,
        ),
    ] {
        let page = decode(body.as_bytes().to_vec()).unwrap();
        let texts: Vec<&str> = page
            .records()
            .iter()
            .map(|record| page.text(record))
            .collect();
        assert_eq!((texts, page.duplicates()), (shown, count), "{body}");
    }
}

#[test]
fn every_byte_of_a_record_is_kept_and_a_byte_order_mark_before_the_page_is_not() {
    let body = "\n[ {\"id\": 1, \"a\":\"\\u00e9\\/ ],[ \\\" }\", \"n\":10.10} ,\t{\"id\":2,\
                \"big\":12345678901234567890123,\"e\":1e999}\r\n] ";
    assert_eq!(
        texts(body),
        [
            r#"{"id": 1, "a":"\u00e9\/ ],[ \" }", "n":10.10}"#,
            r#"{"id":2,"big":12345678901234567890123,"e":1e999}"#,
        ]
    );
    let marked = "\u{feff} [{\"id\":1,\"name\":\"\u{feff}x\"}]";
    assert_eq!(texts(marked), ["{\"id\":1,\"name\":\"\u{feff}x\"}"]);
    for empty in ["[]", " [ ] \n", "[\r\n\t]"] {
        assert!(ids(empty).is_empty(), "{empty:?}");
    }
}

#[test]
fn ids_are_taken_as_they_stand_and_the_last_of_two_in_one_record_counts() {
    let body = r#"[{"id":9223372036854775807},{"id":92233720368547758079999},
        {"id":"00123"},{"id":123},{"id":-4},{"id":"a b"}]"#;
    let shown = [
        "9223372036854775807",
        "92233720368547758079999",
        "00123",
        "123",
        "-4",
        "a b",
    ];
    assert_eq!(ids(body), shown);
    assert_eq!(ids(r#"[{"id":1,"x":{"id":9},"id":2}]"#), ["2"]);
    assert_eq!(ids(r#"[{"id":1,"\u0069d":3}]"#), ["3"]);
    assert_eq!(word(r#"[{"id":1,"id":null}]"#), "bad_id");
    assert_eq!(
        ids(r#"[{"a\udc00":1,"id":7,"b":"\ud800"}]"#),
        ["7"],
        "half a surrogate pair"
    );
    let error = decode(br#"[{"id":1},{"id":2},{"name":"x"}]"#.to_vec()).unwrap_err();
    assert_eq!(error, PageError::NoId(3));
    assert_eq!(error.to_string(), "record 3 of the page has no id");
}

#[test]
fn depth_and_the_number_of_records_are_bounded() {
    // The page and the record are two levels.
    let nested = |depth: usize| {
        let inner = depth - 2;
        format!(
            "[{{\"id\":1,\"a\":{}{}}}]",
            "[".repeat(inner),
            "]".repeat(inner)
        )
    };
    assert_eq!(word(nested(MAX_DEPTH)), "a page");
    assert_eq!(word(nested(MAX_DEPTH + 1)), "too_deep");
    assert_eq!(word("[".repeat(100_000)), "too_deep");
    let object = "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000);
    assert_eq!(word(object), "not_an_array");
    let in_a_string = format!("[{{\"id\":1,\"a\":\"{}\"}}]", "[".repeat(10_000));
    assert_eq!(word(in_a_string), "a page");

    let page = |count: usize| {
        let records: Vec<_> = (0..count).map(|id| format!("{{\"id\":{id}}}")).collect();
        format!("[{}]", records.join(","))
    };
    assert_eq!(word(page(MAX_RECORDS)), "a page");
    assert_eq!(word(page(MAX_RECORDS + 1)), "too_many_records");
}

#[test]
fn every_cut_of_a_page_is_refused() {
    let body = r#"[{"id":1,"a":"x\"y","b":[1,{"c":null}]},{"id":"z","d":-1.5e3}]"#;
    for end in 0..body.len() {
        let cut = &body[..end];
        assert_ne!(word(cut), "a page", "{cut:?}");
    }
    assert_eq!(word(body), "a page");
}

#[test]
fn a_body_that_is_still_the_same_is_not_decoded_again() {
    let shown = r#"[{"id":1,"name":"Ann"}]"#;
    let after = |last: &Arc<Page>, body: &str| decode_after(Some(Arc::clone(last)), body.into());
    let last = decode_after(None, shown.into()).unwrap();
    assert!(Arc::ptr_eq(&after(&last, shown).unwrap(), &last));
    let other = after(&last, r#"[{"id":1,"name":"Bob"}]"#).unwrap();
    assert_eq!(other.text(&other.records()[0]), r#"{"id":1,"name":"Bob"}"#);
    assert_eq!(after(&last, "<html>"), Err(PageError::Html));
}
