//! The authentication section, rule by rule, and which key opens which row of the summary.

use axum::http::Method;
use serde_json::{Value, json};

use super::{CHECKIN, Desk, LEADS, SUBMIT, ada};

const PING: &str = "/integrations/ping";
const AUTOMATION: [&str; 8] = [
    "/automation/ping",
    "/automation/triggers/jobs",
    "/automation/triggers/customers",
    "/automation/triggers/leads",
    "/automation/triggers/payments",
    "/automation/triggers/job-status-changes",
    "/automation/triggers/outsourced-jobs",
    "/automation/search/customers?search_term=a",
];
const PROVIDERS: [&str; 7] = [
    "automation",
    "rest_api",
    "website",
    "site_plugin",
    "form_builder_signed_1",
    "form_builder_unsigned",
    "form_builder_signed_2",
];

async fn ping_with(desk: &Desk, headers: &[(&str, &str)]) -> u16 {
    desk.ask(Method::GET, PING, headers, "").await.status
}

#[tokio::test]
async fn rule_1_a_request_without_a_key_or_with_an_unknown_one_is_refused() {
    let desk = Desk::new();
    for path in AUTOMATION
        .into_iter()
        .chain([PING, "/integrations/custom-fields"])
    {
        assert_eq!(
            desk.ask(Method::GET, path, &[], "").await.status,
            401,
            "{path}"
        );
        let foreign = [("x-api-key", "live_key_made_elsewhere")];
        assert_eq!(
            desk.ask(Method::GET, path, &foreign, "").await.status,
            401,
            "{path}"
        );
    }
    for path in [LEADS, CHECKIN, SUBMIT, "/integrations/ingest/form"] {
        assert_eq!(
            desk.ask(Method::POST, path, &[], "{}").await.status,
            401,
            "{path}"
        );
    }
}

#[tokio::test]
async fn rule_1_keys_begin_with_a_fixed_prefix_and_are_random_after_it() {
    let desk = Desk::new();
    let (first, _) = desk.key("website").await;
    let (second, _) = desk.key("website").await;
    assert!(first.starts_with("sandbox_") && second.starts_with("sandbox_"));
    assert_ne!(first, second);
}

#[tokio::test]
async fn rule_2_a_key_is_sent_as_bearer_or_in_x_api_key() {
    let desk = Desk::new();
    let bearer = format!("Bearer {}", desk.rest);
    assert_eq!(ping_with(&desk, &[("authorization", &bearer)]).await, 200);
    assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, 200);
    let basic = format!("Basic {}", desk.rest);
    assert_eq!(ping_with(&desk, &[("authorization", &basic)]).await, 401);
}

#[tokio::test]
async fn rule_3_form_builders_may_carry_the_key_as_token() {
    let desk = Desk::new();
    for provider in [
        "form_builder_signed_1",
        "form_builder_unsigned",
        "form_builder_signed_2",
    ] {
        let (key, _) = desk.key(provider).await;
        let path = format!("/integrations/ingest/{provider}?token={key}");
        let answer = desk.ask(Method::POST, &path, &[], "{").await;
        assert_eq!(answer.status, 422, "the key was taken");
    }
}

#[tokio::test]
async fn rule_3_elsewhere_a_token_opens_nothing() {
    let desk = Desk::new();
    let token = |path: &str, key: &str| format!("{path}?token={key}");
    for path in [
        LEADS,
        SUBMIT,
        "/integrations/ingest/form",
        "/integrations/ingest/canonical",
    ] {
        let path = token(path, &desk.rest);
        assert_eq!(
            desk.ask(Method::POST, &path, &[], "{}").await.status,
            401,
            "{path}"
        );
    }
    for path in [PING, "/automation/ping", "/automation/triggers/leads"] {
        let path = token(path, &desk.automation);
        assert_eq!(
            desk.ask(Method::GET, &path, &[], "").await.status,
            401,
            "{path}"
        );
    }
}

#[tokio::test]
async fn rule_4_any_provider_s_key_may_use_intake_ping_and_custom_fields() {
    let desk = Desk::new();
    for provider in PROVIDERS {
        let (key, _) = desk.key(provider).await;
        let headers = [("x-api-key", key.as_str())];
        let ping = desk.ask(Method::GET, PING, &headers, "").await;
        assert_eq!(
            (ping.status, &ping.json["provider"]),
            (200, &json!(provider))
        );
        let fields = desk
            .ask(Method::GET, "/integrations/custom-fields", &headers, "")
            .await;
        assert_eq!(fields.status, 200, "{provider}");
        let lead = desk.post_as(&key, LEADS, &ada(json!({}))).await;
        assert!([200, 201].contains(&lead.status), "{provider}");
        assert_eq!(
            desk.post_as(&key, CHECKIN, &ada(json!({}))).await.status,
            201,
            "{provider}"
        );
        let sent = json!({"destination": "self_checkin", "data": ada(json!({}))});
        assert_eq!(
            desk.post_as(&key, SUBMIT, &sent).await.status,
            201,
            "{provider}"
        );
    }
}

#[tokio::test]
async fn rule_4_the_automation_routes_accept_an_automation_key_only() {
    let desk = Desk::new();
    for path in AUTOMATION {
        assert_eq!(desk.get(path).await.status, 200, "{path}");
    }
    for provider in PROVIDERS
        .into_iter()
        .skip(1)
        .chain(["marketplace_b2b", "listing_directory"])
    {
        let (key, _) = desk.key(provider).await;
        for path in AUTOMATION {
            let answer = desk
                .ask(Method::GET, path, &[("x-api-key", &key)], "")
                .await;
            assert_eq!(answer.status, 403, "{provider} at {path}");
        }
    }
}

#[tokio::test]
async fn rule_6_a_disabled_key_is_refused_until_it_is_enabled() {
    let desk = Desk::new();
    for (disabled, status) in [(true, 401), (false, 200)] {
        let change = json!({"key": desk.rest, "disabled": disabled});
        desk.portal(Method::PATCH, "/keys", &change).await;
        assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, status);
    }
}

#[tokio::test]
async fn rule_6_a_key_is_refused_from_its_expiry_on() {
    let desk = Desk::new();
    let end = desk.sandbox.now() + std::time::Duration::from_secs(3600);
    let change = json!({"key": desk.rest, "expires_at": end.to_string()});
    desk.portal(Method::PATCH, "/keys", &change).await;
    assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, 200);
    desk.sandbox.advance_clock(3601);
    assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, 401);
}

#[tokio::test]
async fn rule_6_rotating_stops_the_old_key_at_once() {
    let desk = Desk::new();
    let rotated = desk
        .portal(Method::POST, "/keys/rotate", &json!({"key": desk.rest}))
        .await;
    let new = rotated.json["key"].as_str().unwrap();
    assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, 401);
    assert_eq!(ping_with(&desk, &[("x-api-key", new)]).await, 200);
}

#[tokio::test]
async fn rule_6_a_key_is_revealed_again_by_the_portal_alone() {
    let desk = Desk::new();
    let (key, integration) = desk.key("website").await;
    let list = desk
        .portal(Method::GET, "/keys", &Value::Null)
        .await
        .json
        .to_string();
    assert!(!list.contains(&key), "the list hides it");
    let which = json!({"integration": integration});
    let shown = desk.portal(Method::POST, "/keys/reveal", &which).await;
    assert_eq!(shown.json["key"], key);
}

#[tokio::test]
async fn a_revoked_key_is_refused() {
    let desk = Desk::new();
    desk.portal(Method::DELETE, "/keys", &json!({"key": desk.rest}))
        .await;
    assert_eq!(ping_with(&desk, &[("x-api-key", &desk.rest)]).await, 401);
}

#[tokio::test]
async fn rule_7_no_key_stands_in_the_request_log_or_the_delivery_log() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    desk.ask(Method::POST, &path, &[], "{}").await;
    for log in ["/requests", "/deliveries"] {
        let text = desk
            .portal(Method::GET, log, &Value::Null)
            .await
            .json
            .to_string();
        assert!(!text.contains(&key), "{log}");
    }
}
