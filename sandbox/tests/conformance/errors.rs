//! The error body and each row of the error table.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Answer, CHECKIN, Desk, LEADS, SUBMIT, ada};

fn assert_body(answer: &Answer) {
    let error = answer.json["error"]
        .as_object()
        .unwrap_or_else(|| panic!("{}", answer.json));
    let members: Vec<&String> = error.keys().collect();
    assert_eq!(
        members,
        [
            "code",
            "details",
            "documentation_url",
            "message",
            "request_id"
        ]
    );
    assert!(error["code"].is_string() && error["documentation_url"].is_string());
    assert!(error["details"].is_array());
    assert_eq!(
        answer.json["message"], error["message"],
        "mirrored for older clients"
    );
    assert_eq!(error["request_id"], answer.header("x-request-id"));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn every_refusal_has_all_five_members_and_the_mirrored_message() {
    let desk = Desk::new();
    let rest = [("x-api-key", desk.rest.as_str())];
    let statuses = [
        (
            401,
            desk.ask(Method::GET, "/integrations/ping", &[], "").await,
        ),
        (
            403,
            desk.ask(Method::GET, "/automation/ping", &rest, "").await,
        ),
        (404, desk.get("/nowhere").await),
        (404, desk.post("/integrations/ingest/fax", &json!({})).await),
        (405, desk.ask(Method::GET, LEADS, &rest, "").await),
        (422, desk.post(LEADS, &json!({})).await),
        (422, desk.ask(Method::POST, LEADS, &rest, "{").await),
        (
            422,
            desk.get("/automation/triggers/leads?limit=1&limit=2").await,
        ),
        (422, desk.get("/automation/triggers/leads?limit=%FF").await),
        (
            413,
            desk.ask(Method::POST, LEADS, &rest, "x".repeat(2 << 20))
                .await,
        ),
    ];
    for (status, answer) in statuses {
        assert_eq!(answer.status, status);
        assert_body(&answer);
    }
}

#[tokio::test]
async fn validation_details_are_pairs_of_field_and_message() {
    let desk = Desk::new();
    let answer = desk
        .post(LEADS, &ada(json!({"name": 5, "source": []})))
        .await;
    assert_eq!(answer.fields(), ["name", "source"]);
    for detail in answer.json["error"]["details"].as_array().unwrap() {
        assert!(!detail["message"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn validation_failed_is_for_broken_rules() {
    let desk = Desk::new();
    for route in [LEADS, CHECKIN] {
        for broken in [
            json!({"email": "a@b.example"}),
            json!({"name": "Ada"}),
            ada(json!({"comment": 5})),
            ada(json!({"device_brand": "x".repeat(256)})),
        ] {
            let answer = desk.post(route, &broken).await;
            assert_eq!(
                (answer.status, answer.code()),
                (422, "validation_failed"),
                "{broken}"
            );
        }
    }
}

#[tokio::test]
async fn unreadable_submission_is_for_a_body_in_another_format() {
    let desk = Desk::new();
    let headers = [("x-api-key", desk.rest.as_str())];
    for route in [LEADS, CHECKIN, SUBMIT, "/integrations/ingest/canonical"] {
        for body in ["", "{", "null", "[1]", "\"x\""] {
            let answer = desk.ask(Method::POST, route, &headers, body).await;
            let told = (answer.status, answer.code());
            assert_eq!(told, (422, "unreadable_submission"), "{route} {body:?}");
        }
    }
}

#[tokio::test]
async fn integration_not_permitted_is_for_a_key_of_the_wrong_type() {
    let desk = Desk::new();
    let sent = json!({"form_response": {}});
    let answer = desk
        .post("/integrations/ingest/form_builder_signed_1", &sent)
        .await;
    assert_eq!(
        (answer.status, answer.code()),
        (403, "integration_not_permitted")
    );
}

#[tokio::test]
async fn idempotency_conflict_is_reserved_and_never_returned() {
    let desk = Desk::new();
    let key = [("idempotency-key", "k")];
    desk.post_with(LEADS, &key, &ada(json!({}))).await;
    let other = json!({"name": "Bea", "email": "bea@b.example"});
    assert_eq!(desk.post_with(LEADS, &key, &other).await.status, 200);
}

#[tokio::test]
async fn scripted_423_429_and_500_are_told_with_the_error_body() {
    let desk = Desk::new();
    for status in [423, 429, 500, 503] {
        let fault = json!({"kind": "status", "code": status, "route": "leads"});
        desk.portal(Method::POST, "/faults", &fault).await;
        let answer = desk.post(LEADS, &ada(json!({}))).await;
        assert_eq!(answer.status, status);
        assert_body(&answer);
    }
    assert_eq!(
        desk.post(LEADS, &ada(json!({}))).await.status,
        201,
        "nothing was created before"
    );
}

#[tokio::test]
async fn a_refusal_creates_nothing_and_is_not_remembered_under_its_key() {
    let desk = Desk::new();
    let before = desk.leads();
    let key = [("idempotency-key", "k")];
    assert_eq!(
        desk.post_with(LEADS, &key, &json!({"name": "Ada"}))
            .await
            .status,
        422
    );
    assert_eq!(desk.leads(), before);
    assert_eq!(
        desk.post_with(LEADS, &key, &ada(json!({}))).await.outcome(),
        (201, "completed")
    );
}

#[tokio::test]
async fn a_refused_delivery_is_logged_with_its_request_id() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &json!({})).await;
    let log = desk.deliveries().await;
    assert_eq!(log[0]["request_id"], answer.header("x-request-id"));
    assert_eq!(log[0]["outcome"], Value::from("validation_failed"));
}

#[tokio::test]
async fn a_scripted_429_carries_retry_after_unless_the_script_says_no() {
    let desk = Desk::new();
    for (fault, wait) in [
        (json!({"kind": "status", "code": 429}), "1"),
        (
            json!({"kind": "status", "code": 429, "retry_after": 7}),
            "7",
        ),
        (
            json!({"kind": "status", "code": 429, "retry_after": ""}),
            "",
        ),
        (json!({"kind": "status", "code": 503}), ""),
    ] {
        desk.portal(Method::POST, "/faults", &fault).await;
        assert_eq!(
            desk.get("/automation/ping").await.header("retry-after"),
            wait,
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_scripted_status_carries_the_code_that_the_contract_gives_it() {
    let desk = Desk::new();
    for (status, code) in [
        (404, "not_found"),
        (409, "idempotency_conflict"),
        (422, "validation_failed"),
        (400, "bad_request"),
        (502, "server_error"),
    ] {
        let fault = json!({"kind": "status", "code": status});
        desk.portal(Method::POST, "/faults", &fault).await;
        let answer = desk.get("/automation/ping").await;
        assert_eq!((answer.status, answer.code()), (status, code));
    }
}
