//! Bad pages: whatever is not the page the contract shows is refused, counted and shown, changes
//! nothing that is stored, and is over when the workspace answers well again.

use sandbox::{FaultKind, Route};
use serde_json::{Value, json};

use crate::support::{Pages, Place, Workspace, wait_until};

/// Gives each route its own fault, and expects each to be told by its word.
async fn refused(faults: [(FaultKind, &str); 6]) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let mut daemon = place.started().await;
    workspace.all_polled().await;
    let stored = everything(&place);

    for (route, (kind, _)) in Route::ALL.into_iter().zip(&faults) {
        workspace.fault(Some(route), kind.clone(), u32::MAX);
    }
    let added = Route::ALL.map(|route| workspace.add(route, json!({})));
    let shown = |status: &Value| {
        Route::ALL.iter().zip(&faults).all(|(route, (_, word))| {
            let poller = poller(status, *route);
            let counted =
                if is_page(word) { &poller["refused_pages"] } else { &poller["failures"] };
            poller["state"] == "backoff" && poller["last_error"] == *word && counted != 0
        })
    };
    let status = place.status_when("every route's fault is shown", shown).await;
    assert_ne!(status["health"], "ok", "{status}");
    let reasons = status["reasons"].to_string();
    for (route, (_, word)) in Route::ALL.iter().zip(&faults) {
        if is_page(word) {
            assert!(reasons.contains(&table(*route)), "{route}: {reasons}");
        }
    }
    assert_eq!(everything(&place), stored, "nothing that is stored has changed");

    workspace.sandbox.clear_faults();
    wait_until("every route is read again", || place.changes().len() == stored[0].len() + 6).await;
    for (route, id) in Route::ALL.into_iter().zip(added) {
        let expected = json!([table(route), id, "created", 1]);
        assert!(place.changes().contains(&expected), "{route}");
        let (_, word) = &faults[Route::ALL.iter().position(|r| *r == route).unwrap()];
        let sql = format!(
            "SELECT count(*) FROM polls WHERE route = '{}' AND outcome = 'failed' AND detail = '{word}'",
            table(route)
        );
        wait_until("the reason is kept", || place.number(&sql) > 0).await;
    }
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);
    let ok = |status: &Value| status["health"] == "ok";
    place.status_when("all is well again", ok).await;
    assert!(daemon.is_running());
}

fn table(route: Route) -> String {
    route.segment().replace('-', "_")
}

fn poller(status: &Value, route: Route) -> &Value {
    let all = status["pollers"].as_array().unwrap();
    all.iter().find(|poller| poller["route"] == table(route).as_str()).unwrap()
}

/// Whether the word is for an answer that was no page, not for an answer that was not given.
fn is_page(word: &str) -> bool {
    !word.starts_with("http_") && word != "cut"
}

/// The log, and every mirror row.
fn everything(place: &Place) -> Vec<Vec<Value>> {
    let mut all = vec![place.rows("SELECT * FROM changes ORDER BY seq")];
    for route in Route::ALL {
        all.push(place.rows(&format!("SELECT * FROM \"{}\" ORDER BY id", table(route))));
    }
    all
}

fn status(code: u16) -> FaultKind {
    FaultKind::Status { code, retry_after: None }
}

#[tokio::test]
async fn an_answer_of_another_shape_is_refused() {
    refused([
        (FaultKind::Html, "html"),
        (FaultKind::NotJson, "not_json"),
        (FaultKind::Object, "not_an_array"),
        (FaultKind::Null, "null"),
        (FaultKind::RecordWithoutId, "no_id"),
        (FaultKind::Nul, "not_json"),
    ])
    .await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_whole_is_refused() {
    refused([
        (FaultKind::Truncated, "cut"),
        (FaultKind::InvalidUtf8, "invalid_utf8"),
        (FaultKind::Nul, "not_json"),
        (FaultKind::Deep { depth: 10_000 }, "too_deep"),
        (FaultKind::GzipBomb { mib: 1024 }, "too_large"),
        (FaultKind::Huge { mib: 1024 }, "too_large"),
    ])
    .await;
}

#[tokio::test]
async fn an_error_is_no_empty_page() {
    refused([
        (status(500), "http_500"),
        (status(503), "http_503"),
        (status(423), "http_423"),
        (status(502), "http_502"),
        (status(206), "http_206"),
        (status(204), "http_204"),
    ])
    .await;
}

#[tokio::test]
async fn a_body_that_is_almost_a_page_is_refused() {
    let pages = Pages::start().await;
    let good = r#"[{"id":1,"name":"Ann"}]"#;
    pages.show("leads", good);
    let place = pages.place();
    let _daemon = place.daemon();
    pages.polled("leads").await;
    for (body, word) in [
        ("", "empty_body"),
        (r#"[{"id":2},7]"#, "not_an_object"),
        (r#"[{"id":2},{"id":true}]"#, "bad_id"),
        (r#"[{"id":2},{"id":1.5}]"#, "bad_id"),
        (r#"[{"id":2},{"id":""}]"#, "bad_id"),
        (r#"[{"id":2}] trailing"#, "not_json"),
        (r#"[{"id":2},]"#, "not_json"),
        (r#"[{"id":2,"n":NaN}]"#, "not_json"),
    ] {
        pages.show("leads", body);
        let refused = |status: &Value| poller(status, Route::Leads)["last_error"] == word;
        place.status_when(word, refused).await;
        pages.show("leads", good);
        let well = |status: &Value| poller(status, Route::Leads)["state"] == "ok";
        place.status_when("the route is read again", well).await;
        assert_eq!(place.changes(), [json!(["leads", "1", "baseline", 1])], "{body}");
    }
}

#[tokio::test]
async fn a_record_that_is_twice_on_a_page_is_stored_once_and_stops_nothing() {
    let pages = Pages::start().await;
    pages.show("leads", r#"[{"id":1,"name":"Ann"}]"#);
    let place = pages.place();
    let mut daemon = place.daemon();
    pages.polled("leads").await;
    let twice = [
        r#"[{"id":2,"name":"Bo"},{"id":2,"name":"Bo"},{"id":1,"name":"Ann"}]"#,
        r#"[{"id":3,"name":"New"},{"id":2,"name":"Bo"},{"id":3,"name":"Old"},{"id":1,"name":"Ann"}]"#,
    ];
    for (body, id) in twice.into_iter().zip(["2", "3"]) {
        pages.show("leads", body);
        let created = json!(["leads", id, "created", 1]);
        wait_until("the new record is stored", || place.changes().contains(&created)).await;
    }
    assert_eq!(place.rows("SELECT name FROM leads WHERE id = '3'"), [json!(["New"])]);
    assert_eq!(place.changes().len(), 3, "nothing else is a change");
    assert!(daemon.is_running());
}

#[tokio::test]
async fn an_escaped_nul_is_valid_and_kept() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    workspace.fault(Some(Route::Leads), FaultKind::EscapedNul, 1);
    let sql = "SELECT count(*) FROM leads WHERE name = 'nul ' || char(0) || ' here'";
    wait_until("the record is stored", || place.number(sql) == 1).await;
}
