//! The self check-in's input table, row by row, on the strict route.

use axum::http::Method;
use serde_json::{Value, json};

use super::input::{Input, limits};
use super::{CHECKIN, Desk, ada, long, with};

const CHECK_IN: Input = Input(CHECKIN);

limits! {
    CHECK_IN;
    a_check_in_s_name_has_at_most_255_characters: "name", 255;
    a_check_in_s_mobile_number_has_at_most_20_characters: "mobile_number", 20;
    a_check_in_s_e_mail_has_at_most_255_characters: "email", 255;
    a_check_in_s_dialling_code_has_at_most_10_characters: "mobile_country_code", 10;
    a_check_in_s_device_type_has_at_most_255_characters: "device_type", 255;
    a_check_in_s_device_brand_has_at_most_255_characters: "device_brand", 255;
    a_check_in_s_device_model_has_at_most_255_characters: "device_model", 255;
    a_check_in_s_serial_number_has_at_most_255_characters: "serial_number", 255;
    a_check_in_s_second_serial_number_has_at_most_191_characters: "serial_number_2", 191;
    a_check_in_s_device_password_has_at_most_191_characters: "device_password", 191;
    a_check_in_s_form_id_has_at_most_191_characters: "form_id", 191;
}

#[tokio::test]
async fn a_check_in_needs_a_name_and_a_mobile_number_or_an_e_mail() {
    let desk = Desk::new();
    let answer = desk.post(CHECKIN, &json!({"email": "a@b.example"})).await;
    assert_eq!(answer.fields(), ["name"]);
    let answer = desk.post(CHECKIN, &json!({"name": "Ada"})).await;
    assert_eq!(answer.fields(), ["mobile_number", "email"]);
    for one in [
        json!({"mobile_number": "5550100"}),
        json!({"email": "a@b.example"}),
    ] {
        let answer = desk.post(CHECKIN, &with(json!({"name": "Ada"}), one)).await;
        assert_eq!(answer.status, 201);
    }
}

#[tokio::test]
async fn the_record_s_object_is_self_checkin() {
    let checkin = CHECK_IN.stored(json!({})).await;
    assert_eq!(checkin["object"], "self_checkin");
    assert!(checkin["id"].is_u64());
}

#[tokio::test]
async fn a_check_in_s_brand_and_model_are_kept_as_given() {
    let checkin = CHECK_IN
        .stored(json!({"device_brand": "Fairphone", "device_model": "FP 9"}))
        .await;
    assert_eq!(checkin["device_brand"], "Fairphone");
    assert_eq!(checkin["device_model"], "FP 9");
}

#[tokio::test]
async fn a_device_password_is_stored_for_staff_and_never_returned() {
    let desk = Desk::new();
    let sent = ada(json!({"device_password": "hunter2-secret"}));
    let keyed = [("idempotency-key", "once")];
    for _ in 0..2 {
        let answer = desk.post_with(CHECKIN, &keyed, &sent).await;
        assert!(
            !answer.json.to_string().contains("hunter2"),
            "{}",
            answer.json
        );
        assert!(answer.data().get("device_password").is_none());
    }
    let staff = desk
        .portal(Method::GET, "/checkins", &Value::Null)
        .await
        .json;
    assert_eq!(staff[0]["device_password"], "hunter2-secret");
    let log = desk.deliveries().await;
    assert!(!json!(log).to_string().contains("hunter2"));
}

#[tokio::test]
async fn accessories_are_a_list_or_a_comma_separated_text() {
    let expected = json!(["charger", "case"]);
    for sent in [
        json!(["charger", "case"]),
        json!("charger, case"),
        json!("charger,,case,"),
    ] {
        assert_eq!(
            CHECK_IN.stored(json!({"accessories": sent})).await["accessories"],
            expected
        );
    }
    for bad in [json!(5), json!([5]), json!({"a": 1})] {
        assert_eq!(
            CHECK_IN.refused(json!({"accessories": bad})).await,
            ["accessories"]
        );
    }
}

#[tokio::test]
async fn a_check_in_s_comment_is_free_text() {
    assert_eq!(
        CHECK_IN.stored(json!({"comment": long(9_000)})).await["comment"],
        long(9_000)
    );
    assert_eq!(
        CHECK_IN.refused(json!({"comment": true})).await,
        ["comment"]
    );
}

#[tokio::test]
async fn is_recovery_is_a_boolean() {
    assert_eq!(
        CHECK_IN.stored(json!({"is_recovery": true})).await["is_recovery"],
        true
    );
    for bad in [json!("yes"), json!(1)] {
        assert_eq!(
            CHECK_IN.refused(json!({"is_recovery": bad})).await,
            ["is_recovery"]
        );
    }
}

#[tokio::test]
async fn is_pickup_booked_is_a_boolean() {
    assert_eq!(
        CHECK_IN.stored(json!({"is_pickup_booked": true})).await["is_pickup_booked"],
        true
    );
    assert_eq!(
        CHECK_IN.refused(json!({"is_pickup_booked": "no"})).await,
        ["is_pickup_booked"]
    );
}

#[tokio::test]
async fn scheduled_on_is_a_date_or_a_date_time() {
    for good in ["2026-04-01", "2026-04-01T09:30:00"] {
        assert_eq!(
            CHECK_IN.stored(json!({"scheduled_on": good})).await["scheduled_on"],
            good
        );
    }
    assert_eq!(
        CHECK_IN.refused(json!({"scheduled_on": "next week"})).await,
        ["scheduled_on"]
    );
}

#[tokio::test]
async fn a_check_in_s_address_has_members_of_255_and_a_zip_code_of_20() {
    let limits = [
        ("address_line", 255),
        ("city", 255),
        ("state", 255),
        ("zip_code", 20),
    ];
    for (member, limit) in limits {
        let checkin = CHECK_IN
            .stored(json!({"address": {member: long(limit)}}))
            .await;
        assert_eq!(checkin["address"][member], long(limit));
        let over = json!({"address": {member: long(limit + 1)}});
        assert_eq!(CHECK_IN.refused(over).await, [format!("address.{member}")]);
    }
}

#[tokio::test]
async fn a_check_in_s_custom_fields_are_an_object() {
    let checkin = CHECK_IN
        .stored(json!({"custom_fields": {"Preferred contact": "mail"}}))
        .await;
    assert_eq!(checkin["custom_fields"]["Preferred contact"], "mail");
    assert_eq!(
        CHECK_IN.refused(json!({"custom_fields": "mail"})).await,
        ["custom_fields"]
    );
}

#[tokio::test]
async fn a_check_in_s_business_id_is_an_integer() {
    assert_eq!(
        CHECK_IN.refused(json!({"business_id": "1"})).await,
        ["business_id"]
    );
}
