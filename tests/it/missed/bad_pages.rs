//! Bad pages: whatever is not the page the contract shows is refused, counted and shown, changes
//! nothing that is stored, and is over when the workspace answers well again.

use sandbox::{FaultKind, Route};
use serde_json::{Value, json};

use crate::support::{Pages, Place, Workspace, wait_until};

#[tokio::test]
async fn whatever_is_no_page_is_refused_counted_and_told_and_changes_nothing() {
    let error = FaultKind::Status {
        code: 503,
        retry_after: None,
    };
    let faults = [
        (FaultKind::NotJson, "not_json"),
        (FaultKind::Truncated, "cut"),
        (FaultKind::RecordWithoutId, "no_id"),
        (FaultKind::Object, "not_an_array"),
        (FaultKind::GzipBomb { mib: 1024 }, "too_large"),
        (error, "http_503"),
    ];
    let workspace = Workspace::start_full().await;
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
            let counted = if is_page(word) {
                &poller["refused_pages"]
            } else {
                &poller["failures"]
            };
            poller["state"] == "backoff" && poller["last_error"] == *word && counted != 0
        })
    };
    let status = place
        .status_when("every route's fault is shown", shown)
        .await;
    assert_ne!(status["health"], "ok", "{status}");
    let reasons = status["reasons"].to_string();
    for (route, (_, word)) in Route::ALL.iter().zip(&faults) {
        if is_page(word) {
            assert!(reasons.contains(&table(*route)), "{route}: {reasons}");
        }
    }
    assert_eq!(
        everything(&place),
        stored,
        "nothing that is stored has changed"
    );

    workspace.sandbox.clear_faults();
    wait_until("every route is read again", || {
        place.changes().len() == stored[0].len() + 6
    })
    .await;
    for (route, id) in Route::ALL.into_iter().zip(added) {
        let expected = json!([table(route), id, "created", 1]);
        assert!(place.changes().contains(&expected), "{route}");
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
    all.iter()
        .find(|poller| poller["route"] == table(route).as_str())
        .unwrap()
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

#[tokio::test]
async fn a_record_whose_id_holds_a_nul_is_one_gap_of_one_and_holds_up_no_other() {
    const NUL: &str = r#"{"id":"b\u0000","created_at":"2026-05-06T08:00:00Z"}"#;
    let pages = Pages::start().await;
    let place = pages.place();
    place.configure(&Place::file_sink("audit", ""));
    let mut daemon = place.started().await;
    pages
        .shown("leads", format!(r#"[{{"id":"a"}},{NUL}]"#))
        .await;
    pages
        .shown("leads", format!(r#"[{{"id":"c"}},{{"id":"a"}},{NUL}]"#))
        .await;
    let of_leads = "SELECT record_id FROM changes WHERE route = 'leads' ORDER BY seq";
    assert_eq!(
        place.rows(of_leads),
        [json!([""]), json!(["a"]), json!(["c"])]
    );
    let gaps = "SELECT certainty, estimate, from_at, state, left_out_id FROM gaps";
    let gap = |state: &str| {
        json!([
            "gap",
            1,
            "2026-05-06T08:00:00.000000Z",
            state,
            r#""b\u0000""#
        ])
    };
    assert_eq!(place.rows(gaps), [gap("open")]);
    let listed = place.run(["gaps"]).await;
    assert!(listed.out.contains("its id holds a NUL"), "{listed:?}");

    // While pages go on to show it, and after a restart.
    let accepted = place.run(["gaps", "accept", "1"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    pages
        .shown("leads", format!(r#"[{{"id":"d"}},{{"id":"c"}},{NUL}]"#))
        .await;
    assert!(daemon.is_running());
    let said = "a record whose id holds a NUL";
    assert_eq!(place.log().matches(said).count(), 1, "{}", place.log());
    daemon.stop().await;
    let _daemon = place.started().await;
    pages.polled("leads").await;
    assert_eq!(place.rows(gaps), [gap("accepted")]);
    let ok = |status: &Value| status["health"] == "ok";
    place.status_when("it counts no longer", ok).await;
}
