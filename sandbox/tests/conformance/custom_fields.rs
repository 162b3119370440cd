//! Custom fields on intake records, and their listing.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::{CHECKIN, Desk, LEADS, ada, long};

#[tokio::test]
async fn an_unlisted_scalar_is_kept_as_a_custom_field_and_not_rejected() {
    let desk = Desk::new();
    let sent = ada(json!({"favourite": "blue", "count": 3, "member": true}));
    for route in [LEADS, CHECKIN] {
        let answer = desk.post(route, &sent).await;
        assert_eq!(answer.status, 201);
        let custom = &answer.data()["custom_fields"];
        assert_eq!(
            (&custom["favourite"], &custom["count"]),
            (&json!("blue"), &json!(3))
        );
        assert_eq!(custom["member"], true);
    }
}

#[tokio::test]
async fn an_unlisted_object_or_list_is_neither_kept_nor_rejected() {
    let desk = Desk::new();
    let answer = desk
        .post(LEADS, &ada(json!({"deep": {"x": 1}, "list": [1]})))
        .await;
    assert_eq!(answer.status, 201);
    let custom = answer.data()["custom_fields"].as_object().unwrap();
    assert!(!custom.contains_key("deep") && !custom.contains_key("list"));
}

#[tokio::test]
async fn at_most_20_unlisted_fields_are_kept() {
    let desk = Desk::new();
    let extras: Map<String, Value> = (0..30)
        .map(|nth| (format!("extra_{nth:02}"), json!("x")))
        .collect();
    let answer = desk.post(LEADS, &ada(Value::Object(extras))).await;
    assert_eq!(answer.status, 201);
    let custom = answer.data()["custom_fields"].as_object().unwrap();
    assert_eq!(
        custom
            .keys()
            .filter(|label| label.starts_with("extra_"))
            .count(),
        20
    );
}

#[tokio::test]
async fn an_unlisted_value_is_cut_to_1000_characters() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &ada(json!({"essay": long(1500)}))).await;
    assert_eq!(answer.data()["custom_fields"]["essay"], long(1000));
}

#[tokio::test]
async fn a_value_under_a_defined_field_name_lands_in_that_field() {
    let desk = Desk::new();
    let fields = json!({"form_type": "Lead", "fields": [{"field_name": "Colour", "type": "text"}]});
    desk.portal(Method::PUT, "/custom-fields", &fields).await;
    let without = desk.post(LEADS, &ada(json!({}))).await;
    assert_eq!(without.data()["custom_fields"], json!({"Colour": null}));
    let sent = json!({"name": "Bo", "email": "bo@b.example", "Colour": "red"});
    let answer = desk.post(LEADS, &sent).await;
    assert_eq!(answer.data()["custom_fields"], json!({"Colour": "red"}));
}

#[tokio::test]
async fn without_a_form_type_the_form_names_are_listed() {
    let desk = Desk::new();
    let listed = desk.get("/integrations/custom-fields").await;
    assert_eq!(listed.status, 200);
    assert!(
        listed.json["form_types"]
            .as_array()
            .unwrap()
            .contains(&json!("Lead"))
    );
}

#[tokio::test]
async fn with_a_form_type_its_definitions_are_listed() {
    let desk = Desk::new();
    let listed = desk.get("/integrations/custom-fields?form_type=Lead").await;
    let first = &listed.json["fields"][0];
    for member in ["field_name", "type", "placeholder", "options"] {
        assert!(first.get(member).is_some(), "{member}");
    }
    let none = desk
        .get("/integrations/custom-fields?form_type=Nothing")
        .await;
    assert_eq!(none.json, json!({"fields": []}));
}

#[tokio::test]
async fn definitions_change_only_when_the_shop_edits_them() {
    let desk = Desk::new();
    let path = "/integrations/custom-fields?form_type=Lead";
    let before = desk.get(path).await.json;
    desk.post(LEADS, &ada(json!({"brand_new": "x"}))).await;
    assert_eq!(desk.get(path).await.json, before);
    let fields = json!({"form_type": "Lead", "fields": [{"field_name": "Colour", "type": "text"}]});
    desk.portal(Method::PUT, "/custom-fields", &fields).await;
    assert_eq!(
        desk.get(path).await.json["fields"][0]["field_name"],
        "Colour"
    );
}
