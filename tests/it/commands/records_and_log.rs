//! What is mirrored and what has changed: `records`, `log` and the other listings.

use sandbox::Route;
use serde_json::{Value, json};

use super::filled;
use crate::support::{Pages, Workspace, wait_until};

#[tokio::test]
async fn a_record_has_one_shape_in_every_listing() {
    let workspace = Pages::start().await;
    let place = workspace.place();
    let body = r#"{"id":7,"name":"Ada","paid":true,"parts":[{"sku":"a"}],"amount":12.5}"#;
    workspace.show("payments", format!("[{body}]"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let wanted: Value = serde_json::from_str(body).unwrap();
    let shown = place
        .run(["records", "payments", "7", "--json"])
        .await
        .json();
    for record in [
        &place
            .run(["records", "payments", "--where", "id=7", "--json"])
            .await
            .json()[0]["record"],
        &shown["changes"][0]["record"],
        &place.run(["log", "--json"]).await.json()[0]["record"],
    ] {
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(&record[name], value, "{name}: {record}");
        }
    }
}

#[tokio::test]
async fn the_log_is_filtered_and_a_list_that_is_cut_says_so() {
    let (workspace, place) = filled("").await;
    let last = place.number("SELECT max(seq) FROM changes").to_string();
    let cut = place.run(["log", "--since", "1"]).await;
    assert_eq!(
        (cut.code, cut.out.lines().count()),
        (Some(0), 50),
        "{cut:?}"
    );
    assert!(cut.err.contains("only the last 50 changes"), "{cut:?}");
    let whole = place
        .run(["log", "--since", "1", "--limit", "100000"])
        .await;
    assert_eq!(
        (whole.out.lines().count().to_string(), &*whole.err),
        (last.clone(), "")
    );

    workspace.sandbox.burst(Route::Jobs, 150);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let next = (last.parse::<i64>().unwrap() + 1).to_string();
    let args = [
        "log", "--route", "jobs", "--since", &next, "--limit", "500", "--json",
    ];
    let after = place.run(args).await.json();
    assert_eq!(after.as_array().unwrap().len(), 101, "{after}");
    let gap = place.run(["log", "--kind", "gap"]).await.out;
    assert!(
        gap.contains("about 50 records may have been missed"),
        "{gap}"
    );
    let none = place
        .run(["log", "--since", "2099-01-01T00:00:00Z", "--json"])
        .await;
    assert_eq!(none.json(), json!([]));
}

#[tokio::test]
async fn the_log_can_be_followed_until_the_store_is_replaced() {
    let (workspace, place) = filled("").await;
    let made = place.run(["backup", "copy.db"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let follow = place.follow(["log", "--follow", "--limit", "1", "--json"]);
    wait_until("it shows the last change", || follow.lines().len() == 1).await;
    let id = workspace.add(Route::Leads, json!({"name": "Seen"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    wait_until("it shows the new one", || follow.lines().len() == 2).await;
    let line: Value = serde_json::from_str(&follow.lines()[1]).unwrap();
    assert_eq!(
        (&line["record_id"], &line["kind"]),
        (&json!(id), &json!("created"))
    );
    let restored = place.run(["restore", "copy.db"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let (code, said) = follow.ended().await;
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("was replaced"), "{said}");
}

#[tokio::test]
async fn text_from_the_workspace_cannot_control_a_terminal() {
    let workspace = Workspace::start().await;
    let hostile = "Bob\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J\r\u{202e}evil\u{2028}\u{0}\nnext";
    let id = workspace.add(
        Route::Customers,
        json!({"name": hostile, "email": hostile, "status": hostile, hostile: hostile}),
    );
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.edit(
        Route::Customers,
        &id,
        json!({"name": format!("{hostile}2")}),
    );
    workspace.add(
        Route::Customers,
        json!({"id": hostile.replace('\0', ""), "name": "x"}),
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let daemon = place.started().await;
    place
        .status_when("the daemon answers", |status| status["running"] == true)
        .await;
    for args in [
        &["records", "customers"][..],
        &["records", "customers", &id],
        &["log", "--route", "customers"],
        &["search", "Bob"],
        &["records", "customers", "--where", "no\u{1b}[31m=1"],
        &["records", "customers", "no\u{1b}[31m"],
    ] {
        let ended = place.run(args).await;
        let shown = format!("{}{}", ended.out, ended.err);
        let foreign = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        assert!(!shown.contains(foreign), "{args:?}: {shown:?}");
        assert!(
            shown.contains("\\u{1b}"),
            "{args:?} shows that it was there: {shown:?}"
        );
        assert!(
            !shown.lines().any(|line| line.starts_with("next")),
            "{args:?}: {shown:?}"
        );
    }
    drop(daemon);
}
