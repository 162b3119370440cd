//! The ledger: a page that cannot prove contiguity is a gap, told everywhere; any other is not.

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{BUDGET, Daemon, EAGER, Pages, Place, Receiver, Workspace, wait_until};

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
        Place::file_sink("usual", "changes = [\"created\", \"updated\"]\nstart = \"beginning\""),
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
        pages.shown("leads", shuffled(5..=LIMIT + 4, seed)).await;
        assert_eq!(gaps(&place), [] as [Value; 0], "seed {seed}");
        pages.shown("leads", shuffled(32..=51, seed)).await;
        let gap = json!(["leads", "gap", "24", "32", 7, "open"]);
        assert_eq!(gaps(&place), [gap], "seed {seed}");
        pages.shown("leads", shuffled(32..=51, seed + 10)).await;
        assert_eq!(place.number("SELECT count(*) FROM gaps"), 1, "seed {seed}");
        assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'updated'"), 0);
    }
}

#[tokio::test]
async fn an_edit_that_changes_nothing_hides_no_burst_with_or_without_a_restart() {
    for restart in [false, true] {
        let (pages, place, daemon) = baseline("").await;
        // Record 7 was edited after the burst: it comes first and looks as before.
        let mut ids: Vec<i64> = (48..=66).rev().collect();
        ids.insert(0, 7);
        let _daemon = if restart {
            daemon.stop().await;
            pages.show("leads", body(&ids));
            let daemon = place.daemon();
            pages.polled("leads").await;
            daemon
        } else {
            pages.shown("leads", body(&ids)).await;
            daemon
        };
        let gap = json!(["leads", "gap", "20", "48", 27, "open"]);
        assert_eq!(gaps(&place), [gap], "restart: {restart}");
        pages.shown("leads", body(&ids)).await;
        assert_eq!(place.number("SELECT count(*) FROM gaps"), 1, "restart: {restart}");
    }
}

#[tokio::test]
async fn an_old_record_that_is_shown_again_proves_nothing() {
    let (pages, place, _daemon) = baseline("").await;
    pages.shown("leads", page(11..=30)).await;
    // Known, but not of the page before: whatever brought it back says nothing of the rest.
    let mut ids: Vec<i64> = (38..=56).rev().collect();
    ids.push(3);
    pages.shown("leads", body(&ids)).await;
    assert_eq!(gaps(&place), [json!(["leads", "gap", "30", "38", 7, "open"])]);
    ids.rotate_right(1);
    pages.shown("leads", body(&ids)).await;
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 1);
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
            (from..from + 20).rev().map(|n| json!({"id": format!("k{n}")})).collect();
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
async fn an_empty_page_after_records_proves_nothing_and_the_next_page_is_judged_by_those_before() {
    let (pages, place, daemon) = baseline("").await;
    pages.shown("leads", "[]").await;
    let read = "SELECT last_success_at FROM pollers WHERE route = 'leads'";
    daemon.stop().await;
    let before = place.rows(read);
    let daemon = place.daemon();
    pages.polled("leads").await;
    assert!(place.log().contains("returned an empty list"), "{}", place.log());
    assert_eq!(gaps(&place), [] as [Value; 0]);
    // Nothing on this API deletes: what is shown now does not follow on from what was known.
    pages.shown("leads", page(31..=35)).await;
    assert_eq!(gaps(&place), [json!(["leads", "suspect", "20", "31", 10, "open"])]);
    assert_eq!(place.rows("SELECT from_at FROM gaps"), before, "since the last page with records");
    pages.shown("leads", page(31..=36)).await;
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 1);
    daemon.stop().await;
    // A poll that a stop has cut is noted as failed.
    let told = place.rows(
        "SELECT DISTINCT outcome FROM polls \
         WHERE route = 'leads' AND records = 0 AND outcome <> 'failed'",
    );
    assert_eq!(told, [json!(["suspect"])]);
}

#[tokio::test]
async fn a_workspace_that_was_empty_from_the_start_is_complete() {
    let pages = Pages::start().await;
    let place = pages.place();
    place.configure(&format!("limit = {LIMIT}\n"));
    let _daemon = place.daemon();
    pages.polled("leads").await;
    pages.shown("leads", page(1..=3)).await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'created'"), 3);
    // As many as a page holds may be more.
    pages.shown("payments", page(1..=LIMIT)).await;
    assert_eq!(gaps(&place), [json!(["payments", "gap", null, "1", null, "open"])]);
}

#[tokio::test]
async fn a_raised_limit_shows_what_was_there_before_but_what_lay_in_a_gap_is_news() {
    let pages = Pages::start().await;
    pages.show("leads", page(101..=120));
    let place = pages.place();
    place.configure(&format!("limit = {LIMIT}\n"));
    let daemon = place.daemon();
    pages.polled("leads").await;
    pages.shown("leads", page(128..=147)).await;
    daemon.stop().await;
    place.configure("limit = 60\n");
    pages.show("leads", page(90..=148));
    let _daemon = place.daemon();
    pages.polled("leads").await;
    let kinds = |ids: &str| {
        place.rows(&format!(
            "SELECT kind, count(*) FROM changes WHERE CAST(record_id AS INTEGER) {ids} GROUP BY kind"
        ))
    };
    assert_eq!(kinds("BETWEEN 90 AND 100"), [json!(["baseline", 11])], "there before");
    assert_eq!(kinds("BETWEEN 121 AND 127"), [json!(["created", 7])], "missed until now");
    assert_eq!(kinds("= 148"), [json!(["created", 1])]);
    assert_eq!(gaps(&place), [json!(["leads", "gap", "120", "128", 7, "repaired"])]);
}

#[tokio::test]
async fn a_lowered_limit_or_ids_that_turn_to_text_leave_no_gap_and_no_wrong_bound() {
    let (pages, place, daemon) = baseline("").await;
    daemon.stop().await;
    place.configure("limit = 5\n");
    pages.show("leads", page(18..=22));
    let _daemon = place.daemon();
    pages.polled("leads").await;
    let text = |ids: std::ops::RangeInclusive<i64>| {
        let records: Vec<Value> = ids.rev().map(|id| json!({"id": format!("k{id}")})).collect();
        Value::from(records).to_string()
    };
    let mixed = r#"[{"id":"k24"},{"id":"k23"},{"id":"22","name":"N"},{"id":"21","name":"N"},{"id":"20","name":"N"}]"#;
    pages.shown("leads", mixed).await;
    pages.shown("leads", text(23..=27)).await;
    assert_eq!(gaps(&place), [] as [Value; 0]);
    pages.shown("leads", text(40..=44)).await;
    let gap = json!(["leads", "gap", null, null, null, "open"]);
    assert_eq!(gaps(&place), [gap], "the last integer was not the last id known");
}

#[tokio::test]
async fn naming_the_business_hides_nothing_that_was_missed_meanwhile() {
    let (pages, place, daemon) = baseline("").await;
    daemon.stop().await;
    let rest = format!("{BUDGET}{EAGER}limit = 20\n");
    place.configure_all(&format!("businesses = [\"1\"]\n{rest}"));
    pages.show("leads", page(28..=47));
    let daemon = place.daemon();
    pages.polled("leads").await;
    // This workspace does not say which business answers, so both may be the same.
    let gap = json!(["leads", "suspect", "20", "28", 7, "open"]);
    assert_eq!(gaps(&place), [gap]);
    assert_eq!(place.number("SELECT count(*) FROM changes WHERE kind = 'created'"), 20);
    // Whichever stores it first, both businesses find the gap.
    daemon.stop().await;
    place.configure_all(&format!("businesses = [\"1\", \"2\"]\n{rest}"));
    let daemon = place.daemon();
    pages.polled_for("leads", &["1", "2"]).await;
    pages.show("leads", page(60..=79));
    pages.polled_for("leads", &["1", "2"]).await;
    let found = place.rows(
        "SELECT business, after_id, before_id FROM gaps WHERE certainty = 'gap' ORDER BY business",
    );
    assert_eq!(found, [json!(["1", "47", "60"]), json!(["2", "47", "60"])]);
    daemon.stop().await;
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
