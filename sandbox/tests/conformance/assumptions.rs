//! Rows of the crate's table of assumptions that no other module covers.

use axum::http::Method;
use serde_json::{Value, json};

use super::{CHECKIN, Desk, LEADS, SUBMIT, ada};

#[tokio::test]
async fn form_and_canonical_take_website_and_rest_api_keys_only() {
    let desk = Desk::new();
    let body = json!({"destination": "lead", "data": ada(json!({}))});
    for (provider, status) in [
        ("website", 201),
        ("automation", 403),
        ("site_plugin", 403),
        ("form_builder_unsigned", 403),
    ] {
        let (key, _) = desk.key(provider).await;
        let answer = desk
            .post_as(&key, "/integrations/ingest/canonical", &body)
            .await;
        assert_eq!(answer.status, status, "{provider} {}", answer.json);
    }
}

#[tokio::test]
async fn activating_a_form_retries_what_is_parked_for_it_and_nothing_else() {
    let desk = Desk::new();
    let own = desk.own().await;
    let before = desk.leads();
    desk.post(
        SUBMIT,
        &json!({"form_id": "contact", "data": ada(json!({}))}),
    )
    .await;
    let another = json!({"form_id": "callback", "data": ada(json!({"email": "b@c.example"}))});
    desk.post(SUBMIT, &another).await;
    let mapped = json!({"destination": "lead", "map": {}});
    desk.form(own, "contact", mapped.clone()).await;
    assert_eq!(desk.leads(), before, "it is not active");
    let mut active = mapped;
    active["active"] = true.into();
    desk.form(own, "contact", active.clone()).await;
    assert_eq!(desk.leads(), before + 1);
    let log = desk.deliveries().await;
    let outcomes = [&log[0]["outcome"], &log[1]["outcome"]];
    assert_eq!(outcomes, ["completed", "received"]);
    desk.form(own, "contact", active).await;
    assert_eq!(desk.leads(), before + 1, "only what is parked");
}

#[tokio::test]
async fn an_idempotency_key_counts_on_a_get_of_the_listing_directory() {
    let desk = Desk::new();
    let (key, _) = desk.key("listing_directory").await;
    let headers = [("idempotency-key", "once")];
    for (name, status) in [("Ada", 201), ("Bea", 200)] {
        let path = format!(
            "/integrations/ingest/listing_directory/{key}?name={name}&email=a@b.example&leadid={name}"
        );
        assert_eq!(
            desk.ask(Method::GET, &path, &headers, "").await.status,
            status,
            "{name}"
        );
    }
}

#[tokio::test]
async fn one_bad_part_moves_a_lenient_address_to_the_custom_fields() {
    let desk = Desk::new();
    let data = ada(json!({"address": {"city": "Bath", "zip_code": 5}}));
    let answer = desk
        .post(SUBMIT, &json!({"destination": "lead", "data": data}))
        .await;
    assert!(answer.data()["address"].is_null());
    let kept = answer.data()["custom_fields"]["address"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(kept).unwrap(),
        json!({"city": "Bath", "zip_code": 5})
    );
}

#[tokio::test]
async fn a_numeric_mobile_number_is_no_contact() {
    let desk = Desk::new();
    let sent = json!({"name": "Ada", "mobile_number": 5550100});
    assert_eq!(desk.post(LEADS, &sent).await.fields(), ["mobile_number"]);
    let lenient = desk
        .post(SUBMIT, &json!({"destination": "lead", "data": sent}))
        .await;
    assert_eq!(lenient.fields(), ["mobile_number", "email"]);
}

#[tokio::test]
async fn the_booleans_of_a_check_in_are_false_when_they_are_not_sent() {
    let desk = Desk::new();
    let answer = desk.post(CHECKIN, &ada(json!({}))).await;
    assert_eq!(answer.data()["is_recovery"], false);
    assert_eq!(answer.data()["is_pickup_booked"], false);
}

#[tokio::test]
async fn an_unknown_adapter_is_404_for_post_and_405_for_get() {
    let desk = Desk::new();
    let headers = [("x-api-key", desk.rest.as_str())];
    let fax = "/integrations/ingest/fax";
    let posted = desk.post(fax, &json!({})).await;
    assert_eq!((posted.status, posted.code()), (404, "unsupported_adapter"));
    assert_eq!(desk.ask(Method::GET, fax, &headers, "").await.status, 405);
}

#[tokio::test]
async fn the_canonical_fingerprint_covers_the_body_and_not_the_query() {
    let desk = Desk::new();
    let body = json!({"data": ada(json!({}))});
    let canonical = "/integrations/ingest/canonical";
    let first = desk
        .post(&format!("{canonical}?destination=lead"), &body)
        .await;
    let second = desk
        .post(&format!("{canonical}?destination=self_checkin"), &body)
        .await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(second.data()["object"], "lead");
}

#[tokio::test]
async fn the_b2b_marketplace_needs_a_query_id() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    let answer = desk
        .post(
            &path,
            &json!({"SENDER_NAME": "Ada", "SENDER_EMAIL": "a@b.example"}),
        )
        .await;
    assert_eq!(
        (answer.status, answer.code()),
        (422, "unreadable_submission")
    );
}
