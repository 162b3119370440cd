//! Changes: what counts as one, in which version, and what the sink is told of it.

use serde_json::{Value, json};

use crate::support::{Daemon, Pages, Place, wait_until};

/// A daemon with a file sink that has stored one page of leads.
async fn stored(body: &str) -> (Pages, Place, Daemon) {
    let pages = Pages::start().await;
    pages.show("leads", body);
    let place = pages.place();
    let sink = "start = \"beginning\"\nchanges = [\"created\", \"updated\"]";
    place.configure(&Place::file_sink("audit", sink));
    let daemon = place.daemon();
    pages.polled("leads").await;
    (pages, place, daemon)
}

/// What the file sink holds once it holds `count` lines.
async fn delivered(place: &Place, count: usize) -> Vec<Value> {
    wait_until("the sink has every change", || {
        place.lines("audit.ndjson").len() >= count
    })
    .await;
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("the sink is done", || place.is_delivered(last)).await;
    let lines = place.lines("audit.ndjson");
    assert_eq!(lines.len(), count, "{lines:?}");
    lines
}

fn one(fields: &str) -> String {
    format!(r#"[{{"id":1,{fields}}}]"#)
}

#[tokio::test]
async fn a_change_is_told_with_every_field_that_differs_and_there_and_back_again_is_two() {
    let [before, after] = [
        one(r#""a":1,"b":"x","c":{"d":[1]},"same":true,"gone":null"#),
        one(r#""a":2,"b":"x","c":{"d":[2]},"same":true,"new":[]"#),
    ];
    let (pages, place, _daemon) = stored(&before).await;
    pages.shown("leads", after).await;
    pages.shown("leads", before).await;
    let lines = delivered(&place, 2).await;
    let there = json!({
        "a": {"before": 1, "after": 2},
        "c": {"before": {"d": [1]}, "after": {"d": [2]}},
        // Absent and null differ.
        "gone": {"before": null},
        "new": {"after": []},
    });
    let back = json!({
        "a": {"before": 2, "after": 1},
        "c": {"before": {"d": [2]}, "after": {"d": [1]}},
        "gone": {"after": null},
        "new": {"before": []},
    });
    assert_eq!(
        (&lines[0]["changed"], &lines[1]["changed"]),
        (&there, &back)
    );
    assert_ne!(lines[0]["event_id"], lines[1]["event_id"]);
    assert_eq!(
        (&lines[1]["kind"], &lines[1]["version"]),
        (&json!("updated"), &json!(3))
    );
    let shown = place.run(["records", "leads", "1", "--json"]).await.json();
    assert_eq!(
        shown["changes"][1], lines[0],
        "the command shows what the sink was told"
    );
}

#[tokio::test]
async fn a_record_that_leaves_the_page_is_not_taken_for_deleted() {
    let (pages, place, _daemon) = stored(r#"[{"id":2,"n":1},{"id":1,"n":1}]"#).await;
    pages
        .shown("leads", r#"[{"id":3,"n":1},{"id":2,"n":1}]"#)
        .await;
    pages.shown("leads", "[]").await;
    assert_eq!(place.number("SELECT count(*) FROM leads"), 3);
    // It comes back as it was: nothing has happened to it.
    pages
        .shown("leads", r#"[{"id":3,"n":1},{"id":2,"n":1},{"id":1,"n":1}]"#)
        .await;
    assert_eq!(place.changes().len(), 3);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    // It comes back changed: that is its second version.
    pages
        .shown("leads", r#"[{"id":3,"n":1},{"id":2,"n":1},{"id":1,"n":2}]"#)
        .await;
    assert_eq!(place.changes()[3], json!(["leads", "1", "updated", 2]));
    let lines = delivered(&place, 2).await;
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["record_id"]),
        (&json!("created"), &json!("3"))
    );
    assert_eq!(lines[1]["changed"], json!({"n": {"before": 1, "after": 2}}));
}
