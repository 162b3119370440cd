//! The business of an answer: `X-Business` on every outcome, also when the body names it.

use axum::http::Method;
use sandbox::Shop;
use serde_json::{Value, json};

use super::{Answer, CHECKIN, Desk, LEADS, SUBMIT, ada, long, with};

const FORM: &str = "/integrations/ingest/form";

/// Each intake route that takes `business_id` in its body, with a body for business 3.
fn bodies(more: &Value) -> [(&'static str, Value); 4] {
    let data = with(ada(json!({"business_id": 3})), more.clone());
    let envelope = json!({"destination": "lead", "business_id": 3, "data": with(ada(json!({})), more.clone())});
    let in_data = json!({"destination": "lead", "data": data});
    [
        (LEADS, data.clone()),
        (CHECKIN, data),
        (SUBMIT, envelope),
        (SUBMIT, in_data),
    ]
}

async fn form(desk: &Desk, text: &'static str) -> Answer {
    let headers = [
        ("x-api-key", desk.rest.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    desk.ask(Method::POST, FORM, &headers, text).await
}

#[tokio::test]
async fn a_replay_carries_the_business_of_the_original_answer() {
    for (route, body) in bodies(&json!({})) {
        let desk = Desk::of(Shop::Chain);
        let key = [("idempotency-key", "once"), ("x-business", "2")];
        let first = desk.post_with(route, &key, &body).await;
        assert_eq!(
            (first.status, first.header("x-business")),
            (201, "3"),
            "{route}"
        );
        for repeat in [body, json!({"data": {}})] {
            let replay = desk.post_with(route, &key, &repeat).await;
            assert_eq!(replay.outcome(), (200, "duplicate"), "{route}");
            assert_eq!(replay.header("x-business"), "3", "{route} {repeat}");
        }
    }
    let desk = Desk::of(Shop::Chain);
    for status in [201, 200] {
        let sent = "destination=lead&name=Ada&email=a@b.example&business_id=3";
        let answer = form(&desk, sent).await;
        assert_eq!((answer.status, answer.header("x-business")), (status, "3"));
    }
}

#[tokio::test]
async fn a_422_carries_the_business_of_the_body() {
    for (route, body) in bodies(&json!({"name": null})) {
        let desk = Desk::of(Shop::Chain);
        let answer = desk.post(route, &body).await;
        assert_eq!(answer.fields(), ["name"], "{route}");
        assert_eq!(answer.header("x-business"), "3", "{route} {body}");
    }
    let desk = Desk::of(Shop::Chain);
    let answer = form(&desk, "destination=lead&email=a@b.example&business_id=3").await;
    assert_eq!(answer.fields(), ["name"]);
    assert_eq!(answer.header("x-business"), "3");
}

#[tokio::test]
async fn a_422_for_an_unknown_business_carries_the_one_of_the_header() {
    let desk = Desk::of(Shop::Chain);
    let header = [("x-business", "2")];
    for route in [LEADS, CHECKIN] {
        for unknown in [json!(99), json!("3")] {
            let answer = desk
                .post_with(route, &header, &ada(json!({"business_id": unknown})))
                .await;
            assert_eq!(answer.fields(), ["business_id"], "{route}");
            assert_eq!(answer.header("x-business"), "2", "{route}");
        }
    }
}

#[tokio::test]
async fn a_parked_submission_carries_the_business_of_the_body() {
    let desk = Desk::of(Shop::Chain);
    for body in [
        json!({"business_id": 3, "data": ada(json!({}))}),
        json!({"data": ada(json!({"business_id": 3}))}),
        json!({"data": ada(json!({"business_id": " 3 "}))}),
    ] {
        let parked = desk.post(SUBMIT, &body).await;
        assert_eq!(parked.outcome(), (202, "received"), "{body}");
        assert_eq!(parked.header("x-business"), "3", "{body}");
    }
    let parked = form(&desk, "name=Ada&email=a@b.example&business_id=3").await;
    assert_eq!((parked.status, parked.header("x-business")), (202, "3"));
    let (key, _) = desk.key("form_builder_unsigned").await;
    for route in [LEADS, CHECKIN] {
        let sent = ada(json!({"form_id": "contact", "business_id": 3}));
        let parked = desk.post_as(&key, route, &sent).await;
        assert_eq!(
            (parked.status, parked.header("x-business")),
            (202, "3"),
            "{route}"
        );
    }
}

#[tokio::test]
async fn a_form_s_map_may_name_the_business() {
    let desk = Desk::of(Shop::Chain);
    let own = desk.own().await;
    let map = json!({"branch": "business_id", "mail": "email"});
    desk.form(
        own,
        "contact",
        json!({"active": true, "destination": "lead", "map": map}),
    )
    .await;
    let sent = |data: Value| json!({"form_id": "contact", "data": data});
    let complete = json!({"name": "Ada", "mail": "a@b.example", "branch": "3"});
    assert_eq!(
        desk.post(SUBMIT, &sent(complete))
            .await
            .header("x-business"),
        "3"
    );
    let refused = desk
        .post(SUBMIT, &sent(json!({"mail": "a@b.example", "branch": 3})))
        .await;
    assert_eq!((refused.status, refused.header("x-business")), (422, "3"));
}

#[tokio::test]
async fn a_form_builder_s_wrong_form_id_or_business_id_is_refused_and_not_parked() {
    let desk = Desk::new();
    let (key, _) = desk.key("form_builder_signed_1").await;
    for route in [LEADS, CHECKIN] {
        let long_id = ada(json!({"form_id": long(192)}));
        assert_eq!(
            desk.post_as(&key, route, &long_id).await.fields(),
            ["form_id"],
            "{route}"
        );
        for wrong in [json!("one"), json!(99)] {
            let sent = ada(json!({"form_id": "contact", "business_id": wrong}));
            assert_eq!(
                desk.post_as(&key, route, &sent).await.fields(),
                ["business_id"],
                "{route}"
            );
        }
    }
}
