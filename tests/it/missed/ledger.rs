//! The ledger: a page that cannot prove contiguity is a gap, told everywhere; any other is not.

use serde_json::{Value, json};

use crate::support::{Daemon, Pages, Place, Receiver, wait_until};

/// Records asked for in these tests.
const LIMIT: i64 = 20;

/// A page with these ids, the newest first.
fn page(ids: std::ops::RangeInclusive<i64>) -> String {
    body(&ids.rev().collect::<Vec<_>>())
}

fn shuffled(ids: std::ops::RangeInclusive<i64>) -> String {
    let mut ids: Vec<i64> = ids.collect();
    fastrand::shuffle(&mut ids);
    body(&ids)
}

fn body(ids: &[i64]) -> String {
    let records: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "name": "N"}))
        .collect();
    Value::from(records).to_string()
}

/// A daemon that has stored the ids 1 to 20 as its first page of leads.
async fn baseline(rest: &str) -> (Pages, Place, Daemon) {
    let pages = Pages::start().await;
    pages.show("leads", page(1..=LIMIT));
    let place = pages.place();
    place.configure(&format!("limit = {LIMIT}\n{rest}"));
    let daemon = place.daemon();
    pages.polled("leads").await;
    (pages, place, daemon)
}

fn gaps(place: &Place) -> Vec<Value> {
    place.rows("SELECT route, certainty, after_id, before_id, estimate, state FROM gaps")
}

#[tokio::test]
async fn a_burst_longer_than_a_page_is_one_gap_with_its_bounds_told_everywhere_and_a_shorter_one_none()
 {
    let hook = Receiver::start().await;
    let sinks = format!(
        "{}{}{}",
        Place::file_sink("asked", "changes = [\"gap\"]\nstart = \"beginning\""),
        Place::file_sink(
            "usual",
            "changes = [\"created\", \"updated\"]\nstart = \"beginning\""
        ),
        Place::webhook_sink("hook", &hook.url("/"), "changes = [\"gap\"]"),
    );
    let (pages, place, _daemon) = baseline(&sinks).await;
    assert_eq!(
        place.number("SELECT count(*) FROM changes WHERE kind = 'baseline'"),
        LIMIT
    );
    pages.shown("leads", page(LIMIT..=2 * LIMIT - 1)).await;
    assert_eq!(gaps(&place), [] as [Value; 0], "one less than a page came");
    pages.shown("leads", page(24..=43)).await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    // The order of a page hides no gap.
    pages.shown("leads", shuffled(51..=70)).await;
    pages.shown("leads", shuffled(51..=70)).await;

    assert_eq!(
        gaps(&place),
        [json!(["leads", "gap", "43", null, 7, "open"])]
    );
    let ordered = "SELECT found_at = to_at AND from_at < to_at FROM gaps";
    assert_eq!(place.number(ordered), 1, "the time span is told");
    let logged = place.rows("SELECT record_id, body FROM changes WHERE kind = 'gap'");
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0][0], "");

    let listed = place.run(["gaps", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["after_id"], "43");
    assert_eq!(listed[0]["before_id"], Value::Null);
    assert_eq!(listed[0]["estimate"], 7);
    let shown = place.run(["gaps"]).await.out;
    assert!(shown.contains("43 .."), "{shown}");

    wait_until("both sinks that asked have it", || {
        place.lines("asked.ndjson").len() == 1 && hook.received().len() == 1
    })
    .await;
    let line = place.lines("asked.ndjson").remove(0);
    assert_eq!(
        (&line["kind"], &line["gap"]["estimate"]),
        (&json!("gap"), &json!(7))
    );
    let event: Value = serde_json::from_str(&hook.received()[0].body).unwrap();
    assert_eq!(
        (&event["type"], &event["data"]),
        (&json!("leads.gap"), &line)
    );
    wait_until("the other sink is done", || {
        place.lines("usual.ndjson").len() == 43
    })
    .await;
    assert!(
        place
            .lines("usual.ndjson")
            .iter()
            .all(|line| line["kind"] == "created")
    );

    let status = place.status().await;
    assert_ne!(status["health"], "ok");
    assert!(
        status["reasons"].to_string().contains("shopmirror gaps"),
        "{status}"
    );
    let leads = status["pollers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["route"] == "leads");
    assert_eq!(leads.unwrap()["gaps"], 1);
}

#[tokio::test]
async fn a_burst_while_the_daemon_was_down_is_a_gap_and_an_overlap_is_none() {
    let (pages, place, daemon) = baseline("").await;
    daemon.stop().await;
    pages.show("leads", page(LIMIT..=2 * LIMIT - 1));
    let daemon = place.daemon();
    pages.polled("leads").await;
    assert_eq!(place.number("SELECT count(*) FROM leads"), 2 * LIMIT - 1);
    assert_eq!(gaps(&place), [] as [Value; 0], "the pages overlap");

    daemon.kill().await;
    // Record 27 was edited after the burst: it comes first and looks as before.
    let mut ids: Vec<i64> = (48..=66).rev().collect();
    ids.insert(0, 27);
    pages.show("leads", body(&ids));
    let _daemon = place.daemon();
    pages.polled("leads").await;
    assert_eq!(
        gaps(&place),
        [json!(["leads", "gap", "39", null, 8, "open"])]
    );
}

#[tokio::test]
async fn an_empty_page_after_records_proves_nothing_and_the_next_page_is_judged_by_those_before() {
    let (pages, place, daemon) = baseline("").await;
    pages.shown("leads", "[]").await;
    let read = "SELECT last_success_at FROM _pollers WHERE route = 'leads'";
    daemon.stop().await;
    let before = place.rows(read);
    let daemon = place.daemon();
    pages.polled("leads").await;
    let is_told = |status: &Value| status["emptied"].to_string().contains("leads");
    place.status_when("the empty list is told", is_told).await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    // Nothing on this API deletes: what is shown now does not follow on from what was known.
    pages.shown("leads", page(31..=34)).await;
    assert_eq!(
        gaps(&place),
        [json!(["leads", "suspect", "20", null, 10, "open"])]
    );
    assert_eq!(
        place.rows("SELECT from_at FROM gaps"),
        before,
        "since the last page with records"
    );
    pages.shown("leads", page(31..=36)).await;
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 1);
    daemon.stop().await;
}
