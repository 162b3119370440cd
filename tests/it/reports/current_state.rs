//! The state of jobs that are no longer among the newest 100, beside what the workspace knows.

use axum::body::{Body, to_bytes};
use sandbox::{Options, Sandbox, Shop};
use serde_json::Value;
use shopmirror::api::decode;
use shopmirror::store::Store;
use shopmirror_core::record::{PollerId, Route};
use tower::ServiceExt;

use super::store_page;
use crate::support::Place;

/// How often each route is read, in seconds of the shop's clock.
const STEP_S: u32 = 3_600;

const READ: [(Route, &str); 3] = [
    (Route::Jobs, "jobs"),
    (Route::JobStatusChanges, "job-status-changes"),
    (Route::Payments, "payments"),
];

/// Mirrors some days of a shop.
async fn mirrored(days: u32, newest_by_change: bool) -> (Sandbox, Place) {
    let options = Options {
        shop: Shop::Quiet,
        seed: 3,
        speed: 0.0,
        requests_per_minute: 1_000_000,
        ..Options::default()
    };
    let sandbox = Sandbox::new(options);
    sandbox.list_by_last_change(newest_by_change);
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    let store = Store::open(&place.store()).unwrap();
    for step in 0..days * 86_400 / STEP_S {
        // About 60 jobs a day, so that a repair of two days is no longer among the newest 100.
        sandbox.burst(sandbox::Route::Jobs, 1 + step as usize % 2);
        for (route, path) in READ {
            read(&sandbox, &store, route, path).await;
        }
        sandbox.advance_clock(STEP_S);
    }
    // The list of jobs is read last before the changes of the last step.
    for (route, path) in READ {
        read(&sandbox, &store, route, path).await;
    }
    store.close().await.unwrap();
    (sandbox, place)
}

async fn read(sandbox: &Sandbox, store: &Store, route: Route, path: &str) {
    let request = axum::http::Request::get(format!("/api/automation/triggers/{path}?limit=100"))
        .header(
            "authorization",
            format!("Bearer {}", sandbox.automation_key()),
        )
        .body(Body::empty())
        .unwrap();
    let answer = sandbox.router().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let poller = PollerId {
        route,
        business: None,
    };
    let page = decode(body.into()).unwrap();
    let outcome = store_page(store, poller, page, sandbox.now(), 100, None).await;
    assert!(outcome.gap.is_none(), "{route}: {outcome:?}");
}

/// What the workspace says of each job that is in the mirror, and what the mirror says.
fn compared(sandbox: &Sandbox, place: &Place) -> Vec<(String, Value, Value)> {
    let truth: Vec<Value> = sandbox
        .truth(sandbox::Route::Jobs)
        .iter()
        .map(|one| serde_json::from_str(one.record.get()).unwrap())
        .collect();
    let found = place.rows(
        "SELECT id, current_status, current_stage, round(coalesce(paid_total, -1), 2), state_source FROM report_jobs",
    );
    let of = |id: &Value| truth.iter().find(|job| job["id"] == *id).unwrap();
    found
        .iter()
        .map(|row| {
            let row = row.as_array().unwrap();
            let job = of(&row[0]);
            let wanted = serde_json::json!([
                job["status"],
                job["status_stage"],
                job["paid_amount"].as_f64().unwrap()
            ]);
            let source = row[4].as_str().unwrap().to_owned();
            (
                source,
                wanted,
                serde_json::json!([row[1], row[2], row[3].as_f64().unwrap()]),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_job_that_left_the_newest_100_is_what_its_status_changes_and_payments_say() {
    for newest_by_change in [false, true] {
        let days = std::env::var("SHOPMIRROR_DAYS").map_or(3, |days| days.parse().unwrap());
        let (sandbox, place) = mirrored(days, newest_by_change).await;
        let compared = compared(&sandbox, &place);
        let wrong: Vec<_> = compared
            .iter()
            .filter(|(_, wanted, found)| wanted != found)
            .collect();
        let of_changes = compared
            .iter()
            .filter(|(source, ..)| source == "status change")
            .count();
        assert_eq!(
            of_changes == 0,
            newest_by_change,
            "the list shows what it was made for"
        );
        assert!(
            wrong.is_empty(),
            "{} of {}: {:?}",
            wrong.len(),
            compared.len(),
            wrong.first()
        );
    }
}
