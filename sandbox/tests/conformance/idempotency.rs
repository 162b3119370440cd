//! The idempotency section, rule by rule, and the keys that receivers derive.

use axum::http::Method;
use serde_json::{Value, json};

use super::{CHECKIN, Desk, LEADS, SUBMIT, ada};

#[tokio::test]
async fn rule_1_the_header_is_honoured_on_every_intake_route() {
    let desk = Desk::new();
    let envelope = json!({"destination": "self_checkin", "data": ada(json!({}))});
    let routes = [
        (LEADS, ada(json!({}))),
        (CHECKIN, ada(json!({}))),
        (SUBMIT, envelope.clone()),
        ("/integrations/ingest/canonical", envelope),
    ];
    for (nth, (route, sent)) in routes.iter().enumerate() {
        let text = format!("key {nth}");
        let key = [("idempotency-key", text.as_str())];
        let first = desk.post_with(route, &key, sent).await;
        let second = desk.post_with(route, &key, sent).await;
        assert_eq!(
            first.outcome(),
            (201, "completed"),
            "{route}: {}",
            first.json
        );
        assert_eq!(second.outcome(), (200, "duplicate"), "{route}");
        assert_eq!(
            second.json["request_id"], first.json["request_id"],
            "{route}"
        );
    }
}

#[tokio::test]
async fn rule_1_a_key_of_192_characters_is_refused() {
    let desk = Desk::new();
    let key = "k".repeat(192);
    let answer = desk
        .post_with(LEADS, &[("idempotency-key", &key)], &ada(json!({})))
        .await;
    assert_eq!(answer.fields(), ["Idempotency-Key"]);
    let answer = desk
        .post_with(LEADS, &[("idempotency-key", &key[2..])], &ada(json!({})))
        .await;
    assert_eq!(answer.status, 201);
}

#[tokio::test]
async fn rule_1_the_header_means_nothing_on_reads() {
    let desk = Desk::new();
    let headers = [
        ("x-api-key", desk.automation.as_str()),
        ("idempotency-key", "k"),
    ];
    let path = "/automation/triggers/leads?limit=1";
    let first = desk
        .ask(Method::GET, path, &headers, String::new())
        .await
        .json;
    desk.post(LEADS, &ada(json!({}))).await;
    assert_ne!(
        desk.ask(Method::GET, path, &headers, String::new())
            .await
            .json,
        first
    );
}

#[tokio::test]
async fn rule_2_a_key_is_remembered_against_its_integration() {
    let desk = Desk::new();
    let (other, _) = desk.key("website").await;
    let key = ("idempotency-key", "k");
    let first = desk.post_with(CHECKIN, &[key], &ada(json!({}))).await;
    let headers = [("x-api-key", other.as_str()), key];
    let second = desk
        .ask(Method::POST, CHECKIN, &headers, ada(json!({})).to_string())
        .await;
    assert_eq!(second.outcome(), (201, "completed"));
    assert_ne!(second.data()["id"], first.data()["id"]);
}

#[tokio::test]
async fn rule_2_a_rotated_key_s_integration_still_remembers() {
    let desk = Desk::new();
    let key = ("idempotency-key", "k");
    let first = desk.post_with(CHECKIN, &[key], &ada(json!({}))).await;
    let new = desk
        .portal(Method::POST, "/keys/rotate", &json!({"key": desk.rest}))
        .await;
    let headers = [("x-api-key", new.json["key"].as_str().unwrap()), key];
    let second = desk
        .ask(Method::POST, CHECKIN, &headers, ada(json!({})).to_string())
        .await;
    assert_eq!(second.json["request_id"], first.json["request_id"]);
}

#[tokio::test]
async fn rule_3_keys_are_compared_exactly() {
    let desk = Desk::new();
    for key in ["key", "KEY", "key2"] {
        let answer = desk
            .post_with(CHECKIN, &[("idempotency-key", key)], &ada(json!({})))
            .await;
        assert_eq!(answer.outcome(), (201, "completed"), "{key}");
    }
}

#[tokio::test]
async fn rule_4_another_body_under_the_same_key_gets_the_original_answer() {
    let desk = Desk::new();
    let key = [("idempotency-key", "k")];
    let first = desk.post_with(LEADS, &key, &ada(json!({}))).await;
    for other in [
        json!({"name": "Bea", "email": "bea@b.example"}),
        json!({"broken": true}),
    ] {
        let second = desk.post_with(LEADS, &key, &other).await;
        assert_eq!(second.outcome(), (200, "duplicate"));
        assert_eq!(second.data(), first.data());
        assert_eq!(second.json["request_id"], first.json["request_id"]);
    }
    let headers = [("x-api-key", desk.rest.as_str()), key[0]];
    let unreadable = desk.ask(Method::POST, LEADS, &headers, "{").await;
    assert_eq!(unreadable.json["request_id"], first.json["request_id"]);
}

#[tokio::test]
async fn rule_6_the_two_meanings_of_duplicate_differ_in_their_request_id() {
    let desk = Desk::new();
    let first = desk
        .post_with(LEADS, &[("idempotency-key", "k")], &ada(json!({})))
        .await;
    let replay = desk
        .post_with(LEADS, &[("idempotency-key", "k")], &ada(json!({})))
        .await;
    let found = desk.post(LEADS, &ada(json!({}))).await;
    assert_eq!(replay.json["request_id"], first.json["request_id"]);
    assert_ne!(found.json["request_id"], first.json["request_id"]);
    assert_eq!(
        (replay.outcome(), found.outcome()),
        ((200, "duplicate"), (200, "duplicate"))
    );
}

/// Sends the same twice and something else once; answers with the three request ids.
async fn three(desk: &Desk, key: &str, path: &str, same: &Value, other: &Value) -> [Value; 3] {
    let mut ids = Vec::new();
    for body in [same, same, other] {
        let answer = desk.post_as(key, path, body).await;
        assert!(answer.status < 300, "{}", answer.json);
        ids.push(answer.json["request_id"].clone());
    }
    ids.try_into().unwrap()
}

#[tokio::test]
async fn rule_5_the_first_signed_form_builder_s_key_is_its_response_token() {
    let desk = Desk::new();
    let (key, _) = desk.key("form_builder_signed_1").await;
    let sent = |token: &str| json!({"form_response": {"form_id": "F", "token": token}});
    let path = "/integrations/ingest/form_builder_signed_1";
    let [first, again, other] = three(&desk, &key, path, &sent("a"), &sent("b")).await;
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test]
async fn rule_5_the_unsigned_form_builder_s_key_is_its_submission_id() {
    let desk = Desk::new();
    let (key, _) = desk.key("form_builder_unsigned").await;
    let sent = |id: &str| json!({"formID": "F", "submissionID": id, "rawRequest": {"q": "x"}});
    let path = "/integrations/ingest/form_builder_unsigned";
    let [first, again, other] = three(&desk, &key, path, &sent("1"), &sent("2")).await;
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test]
async fn rule_5_the_second_signed_form_builder_s_key_is_its_submission_id() {
    let desk = Desk::new();
    let (key, _) = desk.key("form_builder_signed_2").await;
    let sent = |id: &str| json!({"data": {"formId": "F", "submissionId": id, "fields": []}});
    let path = "/integrations/ingest/form_builder_signed_2";
    let [first, again, other] = three(&desk, &key, path, &sent("1"), &sent("2")).await;
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[tokio::test]
async fn rule_5_the_marketplace_s_key_is_its_unique_query_id() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let sent = |id: &str, name: &str| json!({"UNIQUE_QUERY_ID": id, "SENDER_NAME": name, "SENDER_MOBILE": "9845000001"});
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    let first = desk.post_as("", &path, &sent("1", "Ravi")).await;
    let again = desk.post_as("", &path, &sent("1", "Somebody else")).await;
    let other = desk.post_as("", &path, &sent("2", "Ravi")).await;
    assert_eq!(first.json["request_id"], again.json["request_id"]);
    assert_ne!(first.json["request_id"], other.json["request_id"]);
}

#[tokio::test]
async fn rule_5_the_directory_s_key_is_its_lead_id_else_a_fingerprint_of_the_day() {
    let desk = Desk::new();
    let (key, _) = desk.key("listing_directory").await;
    let enquire = async |query: &str| {
        let path = format!("/integrations/ingest/listing_directory/{key}?{query}");
        desk.ask(Method::GET, &path, &[], String::new()).await.json["request_id"].clone()
    };
    let with_id = enquire("leadid=L1&name=Ravi&mobile=9845000001").await;
    assert_eq!(
        enquire("leadid=L1&name=Other&mobile=9845000002").await,
        with_id
    );
    assert_ne!(
        enquire("leadid=L2&name=Ravi&mobile=9845000001").await,
        with_id
    );
    let plain = enquire("name=Ravi&mobile=9845000009").await;
    assert_eq!(enquire("mobile=9845000009&name=Ravi").await, plain);
    assert_ne!(enquire("name=Ravi&mobile=9845000008").await, plain);
    desk.sandbox.advance_clock(86_400);
    assert_ne!(enquire("name=Ravi&mobile=9845000009").await, plain);
}

#[tokio::test]
async fn rule_5_the_same_canonical_payload_is_a_replay_on_the_same_day_only() {
    let desk = Desk::new();
    let path = "/integrations/ingest/canonical";
    let sent = json!({"destination": "self_checkin", "data": ada(json!({}))});
    let first = desk.post(path, &sent).await;
    let again = desk.post(path, &sent).await;
    assert_eq!(again.outcome(), (200, "duplicate"));
    assert_eq!(again.json["request_id"], first.json["request_id"]);
    desk.sandbox.advance_clock(86_400);
    let tomorrow = desk.post(path, &sent).await;
    assert_eq!(tomorrow.outcome(), (201, "completed"));
}

#[tokio::test]
async fn rule_5_the_same_form_payload_is_a_replay_on_the_same_day_only() {
    let desk = Desk::new();
    let headers = [
        ("x-api-key", desk.rest.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let body = "destination=self_checkin&name=Ada&email=a%40b.example";
    let send = async || {
        desk.ask(
            Method::POST,
            "/integrations/ingest/form",
            &headers,
            body.to_owned(),
        )
        .await
    };
    let first = send().await;
    assert_eq!(first.outcome(), (201, "completed"), "{}", first.json);
    assert_eq!(send().await.json["request_id"], first.json["request_id"]);
    desk.sandbox.advance_clock(86_400);
    assert_eq!(send().await.outcome(), (201, "completed"));
}
