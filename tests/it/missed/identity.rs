//! Identity: an id is opaque text; how it is written in JSON makes no other record of it.

use sandbox::Route;
use serde_json::json;

use crate::support::{Pages, Place, Workspace, text, wait_until};

#[tokio::test]
async fn ids_that_turn_from_integers_into_strings_create_and_deliver_nothing() {
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let before = place.changes();
    workspace.sandbox.send_ids_as_strings(true);
    workspace.all_polled().await;
    assert_eq!(place.changes(), before);
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);

    // The record under its string id is still the one known.
    let id = text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    workspace.edit(Route::Leads, &id, json!({"status": "Renamed"}));
    workspace.polled(Route::Leads).await;
    assert_eq!(
        place.changes()[before.len()..],
        [json!(["leads", id, "updated", 2])]
    );
    wait_until("the change is delivered", || {
        !place.lines("audit.ndjson").is_empty()
    })
    .await;
    let line = place.lines("audit.ndjson").remove(0);
    let changed: Vec<&String> = line["changed"].as_object().unwrap().keys().collect();
    assert_eq!(changed, ["status"], "the id is no changed field");
}

#[tokio::test]
async fn an_id_is_kept_digit_for_digit_with_its_leading_zeros_and_for_its_own_route() {
    // One more than a power of two: a floating-point number has not all of their digits.
    let big = "9223372036854775809";
    let huge = "340282366920938463463374607431768211457";
    let pages = Pages::start().await;
    pages.show(
        "jobs",
        format!(r#"[{{"id":{huge},"n":1}},{{"id":{big},"n":1}},{{"id":7,"n":1}}]"#),
    );
    let place = pages.place();
    let _daemon = place.daemon();
    pages.polled("jobs").await;
    pages
        .shown(
            "jobs",
            format!(r#"[{{"id":"{huge}","n":1}},{{"id":"{big}","n":2}},{{"id":"007","n":1}},{{"id":"7","n":1}}]"#),
        )
        .await;
    pages.shown("payments", r#"[{"id":7,"n":1}]"#).await;
    let changes = place.changes();
    assert_eq!(changes.len(), 6, "{changes:?}");
    for expected in [
        json!(["jobs", big, "updated", 2]),
        json!(["jobs", "007", "created", 1]),
        json!(["payments", "7", "created", 1]),
    ] {
        assert!(changes.contains(&expected), "{expected} in {changes:?}");
    }
    let events = place.rows("SELECT count(DISTINCT event_id) FROM changes");
    assert_eq!(events, [json!([6])]);
    for args in [
        &["records", "jobs", huge, "--json"][..],
        &["records", "jobs", "--json"],
    ] {
        let shown = place.run(args.iter().copied()).await.out;
        assert!(
            shown.contains(&format!("\"id\":{huge}")),
            "no digit is lost: {shown}"
        );
    }
}
