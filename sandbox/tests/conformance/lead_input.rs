//! The lead's input table, row by row, on the strict route.

use serde_json::json;

use super::input::{Input, limits};
use super::{Desk, LEADS, ada, long, with};

const LEAD: Input = Input(LEADS);

limits! {
    LEAD;
    a_lead_s_name_has_at_most_60_characters: "name", 60;
    a_lead_s_mobile_number_has_at_most_20_characters: "mobile_number", 20;
    a_lead_s_dialling_code_has_at_most_10_characters: "mobile_country_code", 10;
    a_lead_s_phone_number_has_at_most_20_characters: "phone_number", 20;
    a_lead_s_contact_person_has_at_most_60_characters: "contact_person_name", 60;
    a_lead_s_source_has_at_most_100_characters: "source", 100;
    a_lead_s_device_type_has_at_most_100_characters: "device_type", 100;
    a_lead_s_device_brand_has_at_most_100_characters: "device_brand", 100;
    a_lead_s_device_model_has_at_most_100_characters: "device_model", 100;
    a_lead_s_form_id_has_at_most_191_characters: "form_id", 191;
}

#[tokio::test]
async fn a_lead_needs_a_name() {
    let desk = Desk::new();
    let before = desk.leads();
    for name in [json!(null), json!(""), json!("  ")] {
        let answer = desk.post(LEADS, &ada(json!({"name": name}))).await;
        assert_eq!(answer.fields(), ["name"]);
    }
    let answer = desk.post(LEADS, &json!({"email": "a@b.example"})).await;
    assert_eq!(answer.fields(), ["name"]);
    assert_eq!(desk.leads(), before, "nothing is created");
}

#[tokio::test]
async fn a_lead_needs_a_mobile_number_or_an_e_mail() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &json!({"name": "Ada"})).await;
    assert_eq!(answer.fields(), ["mobile_number", "email"]);
    for one in [
        json!({"mobile_number": "5550100"}),
        json!({"email": "a@b.example"}),
    ] {
        let answer = desk.post(LEADS, &with(json!({"name": "Ada"}), one)).await;
        assert_eq!(answer.status, 201);
    }
}

#[tokio::test]
async fn a_lead_s_mobile_number_is_kept_as_entered() {
    let lead = LEAD
        .stored(json!({"mobile_number": "(415) 555-0100"}))
        .await;
    assert_eq!(lead["mobile_number"], "(415) 555-0100");
}

#[tokio::test]
async fn a_lead_s_e_mail_is_a_valid_one_of_at_most_255_characters() {
    for bad in ["ada", "ada@", "@byron.example", "a da@byron.example"] {
        assert_eq!(
            LEAD.refused(json!({"email": bad})).await,
            ["email"],
            "{bad}"
        );
    }
    let of = |length: usize| format!("a@{}.example", "b".repeat(length - 10));
    assert_eq!(LEAD.refused(json!({"email": of(256)})).await, ["email"]);
    assert_eq!(
        LEAD.stored(json!({"email": of(255)})).await["email"],
        of(255)
    );
    assert_eq!(LEAD.refused(json!({"email": 5})).await, ["email"]);
}

#[tokio::test]
async fn a_lead_s_source_is_matched_to_the_workspace_s_by_name() {
    assert_eq!(
        LEAD.stored(json!({"source": "google ADS"})).await["source"],
        "Google Ads"
    );
}

#[tokio::test]
async fn a_lead_s_next_follow_up_is_a_date_or_a_date_time() {
    for good in ["2026-04-01", "2026-04-01T09:30:00Z", "2026-04-01 09:30:00"] {
        assert_eq!(
            LEAD.stored(json!({"next_follow_up": good})).await["next_follow_up"],
            good
        );
    }
    for bad in [json!("soon"), json!(5), json!("2026-13-01")] {
        assert_eq!(
            LEAD.refused(json!({"next_follow_up": bad})).await,
            ["next_follow_up"]
        );
    }
}

#[tokio::test]
async fn a_lead_s_comment_is_free_text() {
    let comment = long(50_000);
    assert_eq!(
        LEAD.stored(json!({"comment": comment})).await["comment"],
        comment
    );
    assert_eq!(LEAD.refused(json!({"comment": 5})).await, ["comment"]);
}

#[tokio::test]
async fn a_lead_s_device_is_matched_to_the_catalogue_by_name() {
    let lead = LEAD
        .stored(json!({
            "device_type": "smartphone", "device_brand": "APPLE", "device_model": "iphone 14",
        }))
        .await;
    assert_eq!(lead["device_type"], "Smartphone");
    assert_eq!(
        (&lead["device_brand"], &lead["device_model"]),
        (&json!("Apple"), &json!("iPhone 14"))
    );
}

#[tokio::test]
async fn a_lead_s_brand_and_model_are_kept_as_given_when_the_catalogue_lacks_them() {
    let lead = LEAD
        .stored(json!({"device_brand": "Fairphone", "device_model": "FP 9"}))
        .await;
    assert_eq!(
        (&lead["device_brand"], &lead["device_model"]),
        (&json!("Fairphone"), &json!("FP 9"))
    );
}

#[tokio::test]
async fn a_lead_s_address_is_an_object_with_limited_members() {
    let address = json!({
        "address_line": long(200), "city": long(100), "state": long(100), "zip_code": long(20),
    });
    assert_eq!(
        LEAD.stored(json!({"address": address})).await["address"],
        address
    );
    for (member, limit) in [
        ("address_line", 200),
        ("city", 100),
        ("state", 100),
        ("zip_code", 20),
    ] {
        let over = json!({"address": {member: long(limit + 1)}});
        assert_eq!(LEAD.refused(over).await, [format!("address.{member}")]);
        let typed = json!({"address": {member: 5}});
        assert_eq!(LEAD.refused(typed).await, [format!("address.{member}")]);
    }
    assert_eq!(
        LEAD.refused(json!({"address": "Mill Lane"})).await,
        ["address"]
    );
}

#[tokio::test]
async fn a_lead_s_custom_fields_are_an_object_of_values_of_at_most_1000_characters() {
    let lead = LEAD
        .stored(json!({"custom_fields": {"Colour": long(1000), "Seats": 4}}))
        .await;
    assert_eq!(lead["custom_fields"]["Colour"], long(1000));
    assert_eq!(lead["custom_fields"]["Seats"], 4);
    let over = json!({"custom_fields": {"Colour": long(1001)}});
    assert_eq!(LEAD.refused(over).await, ["custom_fields.Colour"]);
    assert_eq!(
        LEAD.refused(json!({"custom_fields": ["x"]})).await,
        ["custom_fields"]
    );
}

#[tokio::test]
async fn a_lead_s_business_id_is_an_integer() {
    for bad in [json!("1"), json!(1.5), json!(true)] {
        assert_eq!(
            LEAD.refused(json!({"business_id": bad})).await,
            ["business_id"]
        );
    }
    LEAD.stored(json!({"business_id": 1})).await;
}

#[tokio::test]
async fn every_field_that_breaks_a_rule_is_named_at_once() {
    let fields = LEAD
        .refused(json!({"name": long(61), "email": "x", "comment": []}))
        .await;
    assert_eq!(fields, ["name", "email", "comment"]);
}

#[tokio::test]
async fn a_new_lead_is_assigned_to_the_default_reception_user() {
    assert_eq!(LEAD.stored(json!({})).await["assigned_to"], "Reception");
}

#[tokio::test]
async fn an_optional_field_that_is_null_counts_as_absent() {
    let lead = LEAD
        .stored(json!({"comment": null, "address": null, "mobile_number": null}))
        .await;
    assert!(lead["comment"].is_null() && lead["address"].is_null());
}
