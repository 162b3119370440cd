//! The limits table: the request rate and its headers. Field limits stand with their tables.

use std::time::Duration;

use axum::http::Method;
use sandbox::{Options, Sandbox, Shop};
use serde_json::json;

use super::{Desk, LEADS, ada};

fn limited() -> Desk {
    let sandbox = Sandbox::new(Options {
        shop: Shop::Quiet,
        ..Options::default()
    });
    sandbox.pause_growth(true);
    let (rest, automation) = (sandbox.rest_key(), sandbox.automation_key());
    Desk {
        router: sandbox.router(),
        sandbox,
        rest,
        automation,
    }
}

#[tokio::test]
async fn sixty_requests_a_minute_are_granted_and_the_next_is_refused() {
    let desk = limited();
    for left in (0..60).rev() {
        let answer = desk.get("/automation/ping").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), "60");
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    assert_eq!(desk.get("/automation/ping").await.status, 429);
}

#[tokio::test]
async fn the_rate_is_per_key_and_shared_by_all_routes() {
    let desk = limited();
    for _ in 0..30 {
        desk.get("/automation/ping").await;
        desk.get("/automation/triggers/leads").await;
    }
    assert_eq!(desk.get("/integrations/ping").await.status, 429);
    assert_eq!(
        desk.post(LEADS, &ada(json!({}))).await.status,
        201,
        "another key is free"
    );
}

#[tokio::test]
async fn the_rate_is_shared_by_every_client_of_the_key() {
    let desk = limited();
    desk.sandbox.set_rival(30);
    let answer = desk.get("/automation/ping").await;
    assert!(
        answer
            .header("x-ratelimit-remaining")
            .parse::<u32>()
            .unwrap()
            < 59
    );
}

#[tokio::test]
async fn a_429_carries_retry_after_and_nothing_else_does() {
    let desk = limited();
    let first = desk.get("/automation/ping").await;
    assert!(!first.headers.contains_key("retry-after"));
    for _ in 0..60 {
        desk.get("/automation/ping").await;
    }
    let refused = desk.get("/automation/ping").await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
}

#[tokio::test(start_paused = true)]
async fn after_the_wait_the_key_is_free_again() {
    let desk = limited();
    let mut answer = desk.get("/automation/ping").await;
    while answer.status == 200 {
        answer = desk.get("/automation/ping").await;
    }
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    tokio::time::advance(Duration::from_secs(wait)).await;
    assert_eq!(desk.get("/automation/ping").await.status, 200);
}

#[tokio::test]
async fn a_body_of_more_than_a_mebibyte_is_refused() {
    let desk = Desk::new();
    let sent = ada(json!({"comment": "x".repeat((1 << 20) + 1)}));
    let answer = desk.post(LEADS, &sent).await;
    assert_eq!((answer.status, answer.code()), (413, "payload_too_large"));
}

#[tokio::test]
async fn the_portal_sets_the_rate() {
    let desk = Desk::new();
    let settings = json!({"requests_per_minute": 2});
    desk.portal(Method::PATCH, "/settings", &settings).await;
    let mut last = 0;
    for _ in 0..3 {
        last = desk.get("/automation/ping").await.status;
    }
    assert_eq!(last, 429);
}
