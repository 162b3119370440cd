//! The B2B marketplace and the listing directory: their keys, and what becomes of each field.

use axum::http::Method;
use serde_json::json;

use super::{Answer, Desk, LEADS, ada};

fn push() -> serde_json::Value {
    json!({"CODE": 200, "STATUS": "SUCCESS", "RESPONSE": {
        "UNIQUE_QUERY_ID": "Q1", "QUERY_TYPE": "W", "QUERY_TIME": "2026-03-03 10:00:00",
        "SENDER_NAME": "Ravi Iyer", "SENDER_MOBILE": "+91-9845000001",
        "SENDER_EMAIL": "ravi@iyer.example", "SENDER_PHONE": "080-2222222",
        "SENDER_COMPANY": "Iyer & Sons", "SENDER_ADDRESS": "1 MG Road",
        "SENDER_CITY": "Bengaluru", "SENDER_STATE": "Karnataka", "SENDER_PINCODE": "560001",
        "SENDER_MOBILE_ALT": "9845000002", "SENDER_EMAIL_ALT": "alt@iyer.example",
        "SUBJECT": "Laptop repair", "QUERY_MESSAGE": "Screen is broken",
        "QUERY_PRODUCT_NAME": "Screen", "QUERY_MCAT_NAME": "Repairs", "CALL_DURATION": "30",
    }})
}

async fn pushed(desk: &Desk) -> Answer {
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    desk.ask(Method::POST, &path, &[], push().to_string()).await
}

#[tokio::test]
async fn rule_6_a_push_creates_a_lead_without_a_form() {
    let desk = Desk::new();
    let answer = pushed(&desk).await;
    assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
    assert_eq!(answer.data()["object"], "lead");
}

#[tokio::test]
async fn rule_6_the_source_is_a_fixed_label() {
    let desk = Desk::new();
    assert_eq!(pushed(&desk).await.data()["source"], "B2B marketplace");
}

#[tokio::test]
async fn rule_6_name_contacts_message_and_address_are_mapped() {
    let desk = Desk::new();
    let answer = pushed(&desk).await;
    let lead = answer.data();
    assert_eq!(lead["name"], "Ravi Iyer");
    assert_eq!(lead["email"], "ravi@iyer.example");
    assert_eq!(lead["mobile_number"], "9845000001");
    assert_eq!(lead["mobile_country_code"], "+91");
    assert_eq!(lead["phone_number"], "080-2222222");
    assert_eq!(lead["comment"], "Laptop repair\nScreen is broken");
    let address = json!({
        "address_line": "1 MG Road", "city": "Bengaluru", "state": "Karnataka",
        "zip_code": "560001",
    });
    assert_eq!(lead["address"], address);
}

#[tokio::test]
async fn rule_6_all_other_pushed_data_is_kept_as_custom_fields() {
    let desk = Desk::new();
    let answer = pushed(&desk).await;
    let custom = &answer.data()["custom_fields"];
    for (label, value) in [
        ("unique_query_id", "Q1"),
        ("query_type", "W"),
        ("sender_company", "Iyer & Sons"),
        ("query_product_name", "Screen"),
        ("query_mcat_name", "Repairs"),
        ("sender_mobile_alt", "9845000002"),
        ("sender_email_alt", "alt@iyer.example"),
        ("call_duration", "30"),
    ] {
        assert_eq!(custom[label], value, "{label}");
    }
}

const ENQUIRY: &str = "leadid=D1&prefix=Mr&name=Ravi&mobile=919845000001&phone=080-1&\
    email=ravi%40iyer.example&area=Indiranagar&city=Bengaluru&pincode=560038&\
    category=Laptop%20repair&dncmobile=0&company=Iyer";

async fn enquired(desk: &Desk, by_query: bool) -> Answer {
    let (key, _) = desk.key("listing_directory").await;
    let path = format!("/integrations/ingest/listing_directory/{key}");
    if by_query {
        return desk
            .ask(Method::GET, &format!("{path}?{ENQUIRY}"), &[], "")
            .await;
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    desk.ask(Method::POST, &path, &form, ENQUIRY).await
}

#[tokio::test]
async fn rule_7_an_enquiry_by_query_or_post_creates_a_lead_without_a_form() {
    for by_query in [true, false] {
        let desk = Desk::new();
        let answer = enquired(&desk, by_query).await;
        assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
    }
}

#[tokio::test]
async fn rule_7_the_directory_s_fields_are_mapped() {
    for by_query in [true, false] {
        let desk = Desk::new();
        let answer = enquired(&desk, by_query).await;
        let lead = answer.data();
        assert_eq!(lead["source"], "Listing directory");
        assert_eq!(lead["name"], "Mr Ravi", "with its prefix");
        assert_eq!(lead["mobile_number"], "9845000001");
        assert_eq!(lead["mobile_country_code"], "+91");
        assert_eq!(
            (&lead["phone_number"], &lead["email"]),
            (&json!("080-1"), &json!("ravi@iyer.example"))
        );
        let address = json!({
            "address_line": "Indiranagar", "city": "Bengaluru", "state": null,
            "zip_code": "560038",
        });
        assert_eq!(lead["address"], address);
        assert_eq!(lead["comment"], "Laptop repair");
    }
}

#[tokio::test]
async fn rule_7_any_other_parameter_is_kept_as_a_custom_field() {
    let desk = Desk::new();
    let answer = enquired(&desk, true).await;
    let custom = &answer.data()["custom_fields"];
    assert_eq!(
        (&custom["dncmobile"], &custom["company"]),
        (&json!("0"), &json!("Iyer"))
    );
    assert_eq!(custom["leadid"], "D1");
}

#[tokio::test]
async fn rule_5_a_marketplace_s_key_is_accepted_by_its_own_receiver_only() {
    let desk = Desk::new();
    let (marketplace, _) = desk.key("marketplace_b2b").await;
    let (directory, _) = desk.key("listing_directory").await;
    let combinations = [
        ("listing_directory", marketplace.as_str()),
        ("marketplace_b2b", directory.as_str()),
        ("marketplace_b2b", desk.rest.as_str()),
        ("listing_directory", desk.automation.as_str()),
    ];
    for (receiver, key) in combinations {
        let path = format!("/integrations/ingest/{receiver}/{key}");
        let answer = desk.ask(Method::POST, &path, &[], push().to_string()).await;
        assert_eq!(
            (answer.status, answer.code()),
            (403, "integration_not_permitted")
        );
    }
    for key in [&marketplace, &directory] {
        for route in [LEADS, "/integrations/submit", "/integrations/ingest/form"] {
            let answer = desk.post_as(key, route, &ada(json!({}))).await;
            assert_eq!(
                (answer.status, answer.code()),
                (403, "integration_not_permitted"),
                "{route}"
            );
        }
        let headers = [("x-api-key", key.as_str())];
        let answer = desk
            .ask(Method::GET, "/automation/ping", &headers, "")
            .await;
        assert_eq!(answer.status, 403);
    }
}

#[tokio::test]
async fn rule_5_elsewhere_a_key_in_the_path_opens_nothing() {
    let desk = Desk::new();
    for adapter in ["form", "canonical", "form_builder_unsigned"] {
        let path = format!("/integrations/ingest/{adapter}/{}", desk.rest);
        assert_eq!(desk.ask(Method::POST, &path, &[], "{}").await.status, 401);
    }
}

#[tokio::test]
async fn a_key_in_a_header_opens_no_marketplace_receiver() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = "/integrations/ingest/marketplace_b2b";
    let answer = desk.post_as(&key, path, &push()).await;
    assert_eq!((answer.status, answer.code()), (401, "missing_api_key"));
}

#[tokio::test]
async fn only_the_listing_directory_is_asked_by_get() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    assert_eq!(desk.ask(Method::GET, &path, &[], "").await.status, 405);
}

#[tokio::test]
async fn what_a_marketplace_cannot_have_sent_is_unreadable() {
    let desk = Desk::new();
    for (provider, bodies) in [
        ("marketplace_b2b", ["", "[]", "{\"a\": 1}"]),
        ("listing_directory", ["", "[]", "<x>"]),
    ] {
        let (key, _) = desk.key(provider).await;
        for body in bodies {
            let path = format!("/integrations/ingest/{provider}/{key}");
            let answer = desk.ask(Method::POST, &path, &[], body).await;
            let told = (answer.status, answer.code());
            assert_eq!(told, (422, "unreadable_submission"), "{provider} {body:?}");
        }
    }
}

#[tokio::test]
async fn a_marketplace_s_lead_still_needs_a_name() {
    let desk = Desk::new();
    let (key, _) = desk.key("marketplace_b2b").await;
    let path = format!("/integrations/ingest/marketplace_b2b/{key}");
    let sent = json!({"UNIQUE_QUERY_ID": "Q", "SENDER_MOBILE": "9845000001"});
    let answer = desk.ask(Method::POST, &path, &[], sent.to_string()).await;
    assert_eq!(answer.fields(), ["name"]);
}
