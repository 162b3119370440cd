//! Identity: an id is opaque text; how it is written in JSON makes no other record of it.

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Pages, Place, Workspace, wait_until};

#[tokio::test]
async fn ids_that_turn_from_integers_into_strings_create_and_deliver_nothing() {
    let workspace = Workspace::start().await;
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
    let id = crate::support::text(&workspace.sandbox.truth(Route::Leads).last().unwrap().id);
    workspace.edit(Route::Leads, &id, json!({"status": "Renamed"}));
    workspace.polled(Route::Leads).await;
    assert_eq!(place.changes()[before.len()..], [json!(["leads", id, "updated", 2])]);
    wait_until("the change is delivered", || !place.lines("audit.ndjson").is_empty()).await;
    let line = place.lines("audit.ndjson").remove(0);
    let changed: Vec<&String> = line["changed"].as_object().unwrap().keys().collect();
    assert_eq!(changed, ["status"], "the id is no changed field");
}

async fn stored(body: &str) -> (Pages, Place, crate::support::Daemon) {
    let pages = Pages::start().await;
    pages.show("jobs", body);
    let place = pages.place();
    let daemon = place.daemon();
    pages.polled("jobs").await;
    (pages, place, daemon)
}

fn ids(place: &Place) -> Vec<Value> {
    place.rows("SELECT id FROM jobs ORDER BY id")
}

#[tokio::test]
async fn leading_zeros_make_another_record() {
    let (pages, place, _daemon) = stored(r#"[{"id":123,"n":1}]"#).await;
    pages.shown("jobs", r#"[{"id":"00123","n":2},{"id":"123","n":1}]"#).await;
    assert_eq!(ids(&place), [json!(["00123"]), json!(["123"])]);
    assert_eq!(
        place.changes(),
        [json!(["jobs", "123", "baseline", 1]), json!(["jobs", "00123", "created", 1])]
    );
}

#[tokio::test]
async fn ids_beyond_sixty_three_bits_are_kept_digit_for_digit() {
    // One more than a power of two: a floating-point number has not all of their digits.
    let big = "9223372036854775809";
    let huge = "340282366920938463463374607431768211457";
    let (pages, place, _daemon) =
        stored(&format!(r#"[{{"id":{huge},"n":1}},{{"id":{big},"n":1}}]"#)).await;
    assert_eq!(ids(&place), [json!([huge]), json!([big])]);
    pages.shown("jobs", format!(r#"[{{"id":"{huge}","n":1}},{{"id":"{big}","n":2}}]"#)).await;
    assert_eq!(place.changes().len(), 3, "one record changed, none is new");
    assert_eq!(place.changes()[2], json!(["jobs", big, "updated", 2]));
    for args in [&["show", "jobs", huge, "--json"][..], &["records", "jobs", "--json"]] {
        let shown = place.run(args.iter().copied()).await.out;
        assert!(shown.contains(&format!("\"id\": {huge}")), "no digit is lost: {shown}");
    }
}

#[tokio::test]
async fn one_id_on_two_routes_is_two_records() {
    let (pages, place, _daemon) = stored(r#"[{"id":5,"n":1}]"#).await;
    pages.shown("payments", r#"[{"id":5,"n":1}]"#).await;
    let events = place.rows("SELECT count(DISTINCT event_id), count(*) FROM changes");
    assert_eq!(events, [json!([2, 2])]);
}
