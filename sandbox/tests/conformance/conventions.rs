//! Data conventions, and what every response carries.

use axum::http::Method;
use sandbox::Shop;
use serde_json::{Value, json};

use super::{CHECKIN, Desk, LEADS, SUBMIT, ada};

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.push(name.clone());
                if name != "custom_fields" {
                    names(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn field_names_are_snake_case() {
    let desk = Desk::new();
    let mut found = Vec::new();
    for route in [
        "jobs",
        "customers",
        "leads",
        "payments",
        "job-status-changes",
        "outsourced-jobs",
    ] {
        names(
            &desk
                .get(&format!("/automation/triggers/{route}"))
                .await
                .json,
            &mut found,
        );
    }
    names(&desk.post(LEADS, &ada(json!({}))).await.json, &mut found);
    names(&desk.post(CHECKIN, &ada(json!({}))).await.json, &mut found);
    names(&desk.post(LEADS, &json!({})).await.json, &mut found);
    let snake = |name: &String| {
        name.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    assert!(found.iter().all(snake), "{found:?}");
}

#[tokio::test]
async fn timestamps_are_utc_with_z_and_microseconds() {
    let desk = Desk::new();
    let lead = desk.post(LEADS, &ada(json!({}))).await.data()["created_at"].clone();
    let checkin = desk.post(CHECKIN, &ada(json!({}))).await.data()["created_at"].clone();
    for text in [lead.as_str().unwrap(), checkin.as_str().unwrap()] {
        assert_eq!(text.len(), "2026-03-03T10:30:00.000000Z".len(), "{text}");
        assert!(text.ends_with('Z') && text.as_bytes()[19] == b'.');
        text.parse::<jiff::Timestamp>().unwrap();
    }
}

#[tokio::test]
async fn absent_values_are_null_and_the_field_is_still_there() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &ada(json!({}))).await;
    let lead = answer.data().as_object().unwrap();
    for name in [
        "mobile_number",
        "mobile_country_code",
        "phone_number",
        "contact_person_name",
        "source",
        "next_follow_up",
        "comment",
        "device_type",
        "device_brand",
        "device_model",
        "address",
    ] {
        assert_eq!(lead.get(name), Some(&Value::Null), "{name}");
    }
}

#[tokio::test]
async fn empty_lists_are_empty_arrays() {
    let desk = Desk::new();
    let answer = desk.post(CHECKIN, &ada(json!({}))).await;
    assert_eq!(answer.data()["accessories"], json!([]));
}

#[tokio::test]
async fn the_phone_is_two_fields_on_input_and_output() {
    let desk = Desk::new();
    let sent = ada(json!({"mobile_number": "0171 234", "mobile_country_code": "+49"}));
    for route in [LEADS, CHECKIN] {
        let answer = desk.post(route, &sent).await;
        assert_eq!(answer.data()["mobile_number"], "0171 234");
        assert_eq!(answer.data()["mobile_country_code"], "+49");
    }
}

#[tokio::test]
async fn every_response_carries_the_request_id_and_the_rate_headers() {
    let desk = Desk::new();
    let rest = [("x-api-key", desk.rest.as_str())];
    let answers = [
        desk.get("/automation/ping").await,
        desk.get("/automation/triggers/leads").await,
        desk.post(LEADS, &ada(json!({}))).await,
        desk.post(LEADS, &json!({})).await,
        desk.post(SUBMIT, &json!({"data": {}})).await,
        desk.ask(Method::GET, "/automation/ping", &rest, "").await,
        desk.ask(Method::GET, "/automation/ping", &[], "").await,
        desk.get("/nowhere").await,
    ];
    let mut ids: Vec<&str> = Vec::new();
    for answer in &answers {
        assert!(
            !answer.header("x-request-id").is_empty(),
            "{}",
            answer.status
        );
        assert!(
            !answer.header("x-ratelimit-limit").is_empty(),
            "{}",
            answer.status
        );
        assert!(
            !answer.header("x-ratelimit-remaining").is_empty(),
            "{}",
            answer.status
        );
        assert_eq!(answer.header("x-sandbox"), "true");
        ids.push(answer.header("x-request-id"));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), answers.len(), "request ids are unlike");
}

#[tokio::test]
async fn every_response_carries_the_resolved_business() {
    let desk = Desk::of(Shop::Chain);
    let by_default = desk.post(LEADS, &ada(json!({}))).await;
    assert_eq!(by_default.header("x-business"), "1");
    let by_header = desk
        .post_with(CHECKIN, &[("x-business", "2")], &ada(json!({})))
        .await;
    assert_eq!(by_header.header("x-business"), "2");
    let by_body = desk.post(CHECKIN, &ada(json!({"business_id": 3}))).await;
    assert_eq!(by_body.header("x-business"), "3");
    let envelope = json!({"destination": "self_checkin", "business_id": 3, "data": ada(json!({}))});
    assert_eq!(desk.post(SUBMIT, &envelope).await.header("x-business"), "3");
    let in_data = json!({"destination": "self_checkin", "data": ada(json!({"business_id": 2}))});
    assert_eq!(desk.post(SUBMIT, &in_data).await.header("x-business"), "2");
    let fields = [("x-api-key", desk.rest.as_str()), ("x-business", "3")];
    let listed = desk
        .ask(Method::GET, "/integrations/custom-fields", &fields, "")
        .await;
    assert_eq!(listed.header("x-business"), "3");
}

#[tokio::test]
async fn a_business_that_there_is_not_is_refused() {
    let desk = Desk::new();
    let by_header = desk
        .post_with(LEADS, &[("x-business", "9")], &ada(json!({})))
        .await;
    assert_eq!(by_header.fields(), ["business_id"]);
    let by_body = desk.post(LEADS, &ada(json!({"business_id": 9}))).await;
    assert_eq!(by_body.fields(), ["business_id"]);
}

#[tokio::test]
async fn ids_are_integers_unlike_within_a_record_type() {
    let desk = Desk::new();
    let mut ids = Vec::new();
    for nth in 0..5 {
        let sent = json!({"name": "Ada", "email": format!("a{nth}@b.example")});
        ids.push(desk.post(LEADS, &sent).await.data()["id"].as_u64().unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn nothing_on_the_api_deletes() {
    let desk = Desk::new();
    let headers = [("x-api-key", desk.automation.as_str())];
    for path in [
        LEADS,
        CHECKIN,
        "/automation/triggers/leads",
        "/integrations/ping",
    ] {
        for method in [Method::DELETE, Method::PUT, Method::PATCH] {
            assert_eq!(
                desk.ask(method, path, &headers, "").await.status,
                405,
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn paths_that_repeat_the_workspace_are_refused_with_a_clear_code() {
    let desk = Desk::new();
    for path in [
        "/myshop/automation/triggers/leads",
        "/myshop/integrations/ping",
    ] {
        let answer = desk.get(path).await;
        assert_eq!(
            (answer.status, answer.code()),
            (404, "legacy_path_not_supported")
        );
    }
}

#[tokio::test]
async fn a_white_label_workspace_is_not_called_on_the_standard_host() {
    let desk = Desk::new();
    for (host, status) in [
        ("localhost:8780", 412),
        ("127.0.0.1:8780", 200),
        ("[::1]:8780", 200),
    ] {
        let headers = [("x-api-key", desk.automation.as_str()), ("host", host)];
        let answer = desk
            .ask(Method::GET, "/automation/ping", &headers, "")
            .await;
        assert_eq!(answer.status, status, "{host}");
    }
}

#[tokio::test]
async fn ids_sent_as_strings_are_strings_in_every_answer() {
    let desk = Desk::new();
    let key = [("idempotency-key", "once")];
    let before = desk.post_with(CHECKIN, &key, &ada(json!({}))).await;
    assert!(before.data()["id"].is_u64());
    let strings = json!({"ids_as_strings": true});
    desk.portal(Method::PATCH, "/settings", &strings).await;
    let replay = desk.post_with(CHECKIN, &key, &ada(json!({}))).await;
    assert_eq!(replay.data()["id"], before.data()["id"].to_string());
    for route in [LEADS, CHECKIN] {
        assert!(
            desk.post(route, &ada(json!({}))).await.data()["id"].is_string(),
            "{route}"
        );
    }
    let kept = desk
        .portal(Method::GET, "/checkins", &Value::Null)
        .await
        .json;
    assert!(
        kept.as_array()
            .unwrap()
            .iter()
            .all(|checkin| checkin["id"].is_string()),
        "{kept}"
    );
    for nth in [1, 2, 3] {
        let retried = desk
            .portal(Method::POST, "/deliveries/retry", &json!({"id": nth}))
            .await;
        assert!(retried.data()["id"].is_string(), "{}", retried.json);
    }
}
