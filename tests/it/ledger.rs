//! The ledger: a page that cannot prove contiguity is a gap, told everywhere; any other is not.

use serde_json::{Value, json};
use shopmirror::sandbox::Route;

use crate::support::{Daemon, Pages, Place, Receiver, Workspace, wait_until};

/// Records asked for in these tests.
const LIMIT: i64 = 20;

/// A page with these ids, the newest first.
fn page(ids: std::ops::RangeInclusive<i64>) -> String {
    body(&ids.rev().collect::<Vec<_>>())
}

fn shuffled(ids: std::ops::RangeInclusive<i64>, seed: u64) -> String {
    let mut ids: Vec<i64> = ids.collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut ids);
    body(&ids)
}

fn body(ids: &[i64]) -> String {
    let records: Vec<Value> = ids.iter().map(|id| json!({"id": id, "name": "N"})).collect();
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
async fn a_burst_one_short_of_a_page_leaves_no_gap() {
    let (pages, place, _daemon) = baseline("").await;
    pages.shown("leads", page(LIMIT..=2 * LIMIT - 1)).await;
    assert_eq!(place.number("SELECT count(*) FROM leads"), 2 * LIMIT - 1);
    assert_eq!(gaps(&place), [] as [Value; 0]);
}

#[tokio::test]
async fn a_burst_longer_than_a_page_is_one_gap_with_its_bounds_told_everywhere() {
    let hook = Receiver::start().await;
    let sinks = format!(
        "{}{}{}",
        Place::file_sink("asked", "changes = [\"gap\"]\nstart = \"beginning\""),
        Place::file_sink("usual", "start = \"beginning\""),
        Place::webhook_sink("hook", &hook.url("/"), "changes = [\"gap\"]"),
    );
    let (pages, place, _daemon) = baseline(&sinks).await;
    pages.shown("leads", page(LIMIT + 8..=2 * LIMIT + 7)).await;
    pages.polled("leads").await;

    assert_eq!(gaps(&place), [json!(["leads", "gap", "20", "28", 7, "open"])]);
    let ordered = "SELECT found_at = to_at AND from_at < to_at FROM gaps";
    assert_eq!(place.number(ordered), 1, "the time span is told");
    let logged = place.rows("SELECT record_id, body FROM changes WHERE kind = 'gap'");
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0][0], "");

    let listed = place.run(["gaps", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["after_id"], "20");
    assert_eq!(listed[0]["before_id"], "28");
    assert_eq!(listed[0]["estimate"], 7);
    let shown = place.run(["gaps"]).await.out;
    assert!(shown.contains("20 .. 28"), "{shown}");

    wait_until("both sinks that asked have it", || {
        place.lines("asked.ndjson").len() == 1 && hook.received().len() == 1
    })
    .await;
    let line = place.lines("asked.ndjson").remove(0);
    assert_eq!((&line["kind"], &line["gap"]["estimate"]), (&json!("gap"), &json!(7)));
    let event: Value = serde_json::from_str(&hook.received()[0].body).unwrap();
    assert_eq!((&event["type"], &event["data"]), (&json!("leads.gap"), &line));
    wait_until("the other sink is done", || place.lines("usual.ndjson").len() == 20).await;
    assert!(place.lines("usual.ndjson").iter().all(|line| line["kind"] == "created"));

    let status = place.status().await;
    assert_ne!(status["health"], "ok");
    assert!(status["reasons"].to_string().contains("shopmirror gaps"), "{status}");
    let leads = status["pollers"].as_array().unwrap().iter().find(|p| p["route"] == "leads");
    assert_eq!(leads.unwrap()["gaps"], 1);
}

#[tokio::test]
async fn the_order_of_a_page_proves_nothing_and_hides_nothing() {
    for seed in 1..=3 {
        let (pages, place, _daemon) = baseline("").await;
        pages.shown("leads", shuffled(LIMIT..=2 * LIMIT - 1, seed)).await;
        assert_eq!(gaps(&place), [] as [Value; 0], "seed {seed}");
        pages.shown("leads", shuffled(47..=66, seed)).await;
        let gap = json!(["leads", "gap", "39", "47", 7, "open"]);
        assert_eq!(gaps(&place), [gap], "seed {seed}");
        pages.shown("leads", shuffled(47..=66, seed + 10)).await;
        assert_eq!(place.number("SELECT count(*) FROM gaps"), 1, "seed {seed}");
        assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'updated'"), 0);
    }
}

#[tokio::test]
async fn the_first_page_is_a_baseline_and_no_gap() {
    let (_pages, place, _daemon) = baseline("").await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'baseline'"), LIMIT);
    assert_eq!(place.number("SELECT count(*) FROM changes"), LIMIT);
}

#[tokio::test]
async fn a_burst_while_the_daemon_was_down_is_a_gap_and_an_overlap_is_none() {
    for kill in [false, true] {
        let (pages, place, daemon) = baseline("").await;
        if kill {
            daemon.kill().await
        } else {
            daemon.stop().await
        }
        pages.show("leads", page(LIMIT..=2 * LIMIT - 1));
        let daemon = place.daemon();
        pages.polled("leads").await;
        assert_eq!(place.number("SELECT count(*) FROM leads"), 2 * LIMIT - 1);
        assert_eq!(gaps(&place), [] as [Value; 0], "the pages overlap; killed: {kill}");

        if kill {
            daemon.kill().await
        } else {
            daemon.stop().await
        }
        pages.show("leads", page(47..=66));
        let _daemon = place.daemon();
        pages.polled("leads").await;
        assert_eq!(gaps(&place), [json!(["leads", "gap", "39", "47", 7, "open"])], "{kill}");
    }
}

#[tokio::test]
async fn text_ids_make_a_gap_without_an_estimate() {
    let ids = |from: u32| {
        let records: Vec<Value> =
            (from..from + 20).map(|n| json!({"id": format!("k{n}")})).collect();
        Value::from(records).to_string()
    };
    let pages = Pages::start().await;
    pages.show("leads", ids(0));
    let place = pages.place();
    place.configure("limit = 20\n");
    let _daemon = place.daemon();
    pages.polled("leads").await;
    pages.shown("leads", ids(19)).await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    pages.shown("leads", ids(60)).await;
    assert_eq!(gaps(&place), [json!(["leads", "gap", null, null, null, "open"])]);
}

#[tokio::test]
async fn each_route_is_judged_by_its_own_pages() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure("limit = 20\n");
    let _daemon = place.daemon();
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Payments, 19);
    workspace.sandbox.burst(Route::OutsourcedJobs, 27);
    workspace.all_polled().await;
    let found = place.rows("SELECT route, estimate FROM gaps");
    assert_eq!(found, [json!(["outsourced_jobs", 7])]);
}
