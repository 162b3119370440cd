//! The mirror: what each route shows stands in a table of its own, ready for any report tool.

use sandbox::Route;
use serde_json::json;

use crate::support::{Pages, Place, Workspace, text, wait_until};

/// A daemon that has stored one page of leads.
async fn leads(body: &str) -> (Pages, Place, crate::support::Daemon) {
    let pages = Pages::start().await;
    pages.show("leads", body);
    let place = pages.place();
    let daemon = place.daemon();
    pages.polled("leads").await;
    (pages, place, daemon)
}

#[tokio::test]
async fn every_field_is_a_column_whatever_its_name_or_type_and_keeps_its_value_as_it_came() {
    let record = r#"{"id":1,"name":"Zoë Ünal 🛠 李","nested":{"b":[1, 2],"a":null},"yes":true,"gone":null,"price":-10.50,"bigger":123456789012345678901234567890,"escaped":"a\u0000b\n"}"#;
    let (pages, place, _daemon) = leads(&format!("[{record}]")).await;
    let columns = "name, nested, yes, gone, price, bigger";
    assert_eq!(
        place.rows(&format!("SELECT {columns} FROM leads")),
        [json!([
            "Zoë Ünal 🛠 李",
            r#"{"b":[1, 2],"a":null}"#,
            1,
            null,
            -10.5,
            "123456789012345678901234567890"
        ])]
    );
    assert_eq!(
        place.number("SELECT length(CAST(escaped AS BLOB)) FROM leads"),
        4
    );
    assert_eq!(
        place.rows("SELECT body FROM changes"),
        [json!([record])],
        "byte for byte"
    );

    // A new field, and names that collide with ours or with those of SQLite.
    let odd = r#"{"id":2,"source":"Walk-in","Name":"upper","_seq":"theirs","ID":"other","a\"b":"quote","select":"word","rowid":"number"}"#;
    pages.shown("leads", format!("[{odd},{record}]")).await;
    let columns = place.rows("SELECT field, \"column\" FROM _columns WHERE route = 'leads'");
    for (field, value) in [
        ("source", "Walk-in"),
        ("Name", "upper"),
        ("_seq", "theirs"),
        ("ID", "other"),
        ("a\"b", "quote"),
        ("select", "word"),
        ("rowid", "number"),
    ] {
        let row = columns
            .iter()
            .find(|row| row[0] == field)
            .unwrap_or_else(|| panic!("{field}"));
        let column = row[1].as_str().unwrap().replace('"', "\"\"");
        let kept = place.rows(&format!("SELECT \"{column}\" FROM leads ORDER BY id"));
        assert_eq!(
            kept,
            [json!([null]), json!([value])],
            "{field} is kept in {column}"
        );
    }

    for (sent, kept) in [
        (r#""seven""#, json!("seven")),
        ("7.25", json!(7.25)),
        ("true", json!(1)),
        (r#"[1,{"a":null}]"#, json!(r#"[1,{"a":null}]"#)),
    ] {
        pages
            .shown("leads", format!(r#"[{{"id":1,"source":{sent}}}]"#))
            .await;
        let source = place.rows("SELECT source FROM leads WHERE id = '1'");
        assert_eq!(
            source,
            [json!([kept])],
            "a field may change its type: {sent}"
        );
    }
}

#[tokio::test]
async fn a_record_forgotten_beside_the_daemon_is_told_to_the_sinks_that_ask_and_stays_forgotten() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("told", "changes = [\"forgotten\"]"));
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let id = text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    let unknown = place.run(["forget", "leads", &id, "no-such-id"]).await;
    assert_eq!(unknown.code, Some(65), "{unknown:?}");
    assert!(unknown.err.contains("nothing was changed"), "{unknown:?}");
    assert_eq!(
        place.number("SELECT count(*) FROM changes WHERE kind = 'forgotten'"),
        0
    );
    let other = text(
        &workspace
            .sandbox
            .truth(Route::Leads)
            .iter()
            .rev()
            .nth(1)
            .unwrap()
            .id,
    );
    let forgotten = place.run(["forget", "leads", &id, &other]).await;
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert!(
        forgotten.out.contains("removed the data of 2 records"),
        "{forgotten:?}"
    );
    assert!(forgotten.out.contains("written anew"), "{forgotten:?}");
    workspace.edit(Route::Leads, &id, json!({"status": "Edited"}));
    wait_until("the sink is told", || place.lines("told.ndjson").len() == 2).await;
    let line = place.lines("told.ndjson").remove(0);
    assert_eq!(
        (&line["kind"], &line["record_id"]),
        (&json!("forgotten"), &json!(id))
    );
    assert_eq!(line["record"].as_object().unwrap().len(), 1, "{line}");
    workspace.all_polled().await;
    let stored = place.number(&format!("SELECT count(*) FROM leads WHERE id = '{id}'"));
    assert_eq!(stored, 0);
}

#[tokio::test]
async fn a_person_is_forgotten_in_all_routes_after_a_list_of_what_that_is() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "{}{}",
        Place::file_sink("audit", ""),
        Place::file_sink("told", "routes = [\"leads\"]\nchanges = [\"forgotten\"]")
    ));
    let phone = json!({"name": "Xylo Phonist", "mobile_country_code": "+49", "mobile_number": "1705550199"});
    let customer = workspace.add(Route::Customers, phone.clone());
    let lead = workspace.add(Route::Leads, phone);
    let job = workspace.add(
        Route::Jobs,
        json!({"customer_name": "Xylo Phonist", "job_number": "JOB-XYLO"}),
    );
    let payment = workspace.add(Route::Payments, json!({"job_number": "JOB-XYLO"}));
    let other = workspace.add(Route::Leads, json!({"name": "Xylo Other"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));

    let preview = place
        .run(["forget", "--person", "xylo phonist", "--json"])
        .await;
    assert_eq!(preview.code, Some(0), "{preview:?}");
    let preview = preview.json();
    let mut listed: Vec<String> = preview["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| {
            format!(
                "{} {}",
                record["route"].as_str().unwrap(),
                record["id"].as_str().unwrap()
            )
        })
        .collect();
    listed.sort();
    let mut wanted = [
        format!("customers {customer}"),
        format!("leads {lead}"),
        format!("jobs {job}"),
        format!("payments {payment}"),
    ];
    wanted.sort();
    assert_eq!(listed, wanted);
    let shown = place.run(["forget", "--person", "xylo phonist"]).await;
    assert!(shown.out.contains("nothing was changed"), "{shown:?}");
    assert!(
        shown
            .out
            .contains("in sink audit (file), in sink told (file, which is sent the change"),
        "{shown:?}"
    );
    assert_eq!(
        place.number("SELECT count(*) FROM changes WHERE kind = 'forgotten'"),
        0
    );

    let code = preview["code"].as_str().unwrap();
    let all_stored = |code| {
        let words = ["records", "--person", "xylo phonist", "--format", "json"];
        let file = ["--output", "all.json", "--yes", code];
        place.run([&words[..], &file[..]].concat())
    };
    let listed = place.run(["records", "--person", "xylo phonist"]).await;
    assert!(listed.out.contains(&format!("--yes {code}")), "{listed:?}");
    let written = all_stored(code).await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let text = std::fs::read(place.path("all.json")).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut exported = Vec::new();
    for record in all["records"].as_array().unwrap() {
        let route = record["route"].as_str().unwrap();
        let id = record["id"].as_str().unwrap();
        exported.push(format!("{route} {id}"));
        let sql =
            format!("SELECT count(*) FROM changes WHERE route = '{route}' AND record_id = '{id}'");
        let versions = record["versions"].as_array().unwrap().len();
        assert_eq!(versions as i64, place.number(&sql), "{record}");
        assert_eq!(record["stored"]["id"], json!(id), "{record}");
    }
    exported.sort();
    assert_eq!(exported, wanted, "all that the list has, and nobody else's");
    assert_eq!(all_stored(code).await.code, Some(74), "no file is replaced");
    std::fs::remove_file(place.path("all.json")).unwrap();
    assert_eq!(all_stored("00000000").await.code, Some(75));
    assert!(!place.path("all.json").exists());
    let later = workspace.add(Route::Leads, json!({"name": "Xylo Phonist"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let refused = place
        .run(["forget", "--person", "xylo phonist", "--yes", code])
        .await;
    assert_eq!(
        refused.code,
        Some(75),
        "a record was added to the list: {refused:?}"
    );
    workspace.edit(Route::Leads, &later, json!({"name": "Xylo Other"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let done = place
        .run(["forget", "--person", "xylo phonist", "--yes", code])
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        place.number("SELECT count(*) FROM changes WHERE kind = 'forgotten'"),
        4
    );
    let left = place.run(["find", "xylo other", "--json"]).await.json();
    assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
    assert!(
        left.as_array()
            .unwrap()
            .iter()
            .any(|found| found["id"] == json!(other)),
        "{left}"
    );
    let short = place.run(["forget", "--person", "o'"]).await;
    assert_eq!(short.code, Some(64), "{short:?}");
    let none = place.run(["forget", "--person", "xylo phonist"]).await;
    assert_eq!(
        (none.code, none.out.trim()),
        (Some(0), "nothing found"),
        "{none:?}"
    );
}
