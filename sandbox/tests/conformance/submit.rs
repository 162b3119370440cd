//! The submit route: its envelope, how the destination is chosen, and lenient validation.

use serde_json::{Value, json};

use super::{Desk, SUBMIT, ada, long};

fn envelope(data: Value) -> Value {
    json!({"destination": "lead", "data": data})
}

async fn lead(more: Value) -> Value {
    let desk = Desk::new();
    let answer = desk.post(SUBMIT, &envelope(ada(more))).await;
    assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
    answer.data().clone()
}

#[tokio::test]
async fn only_data_must_be_present() {
    let desk = Desk::new();
    assert_eq!(desk.post(SUBMIT, &json!({})).await.fields(), ["data"]);
    assert_eq!(
        desk.post(SUBMIT, &json!({"data": "x"})).await.fields(),
        ["data"]
    );
    let parked = desk.post(SUBMIT, &json!({"data": {}})).await;
    assert_eq!(parked.outcome(), (202, "received"));
}

#[tokio::test]
async fn an_envelope_s_form_id_has_at_most_191_characters() {
    let desk = Desk::new();
    let sent = |id: Value| json!({"destination": "lead", "form_id": id, "data": ada(json!({}))});
    assert_eq!(
        desk.post(SUBMIT, &sent(json!(long(192)))).await.fields(),
        ["form_id"]
    );
    assert_eq!(
        desk.post(SUBMIT, &sent(json!(5))).await.fields(),
        ["form_id"]
    );
    assert_eq!(desk.post(SUBMIT, &sent(json!(long(191)))).await.status, 201);
}

#[tokio::test]
async fn an_envelope_s_destination_is_lead_or_self_checkin() {
    let desk = Desk::new();
    for (destination, object) in [("lead", "lead"), ("self_checkin", "self_checkin")] {
        let sent = json!({"destination": destination, "data": ada(json!({}))});
        let answer = desk.post(SUBMIT, &sent).await;
        assert_eq!(answer.data()["object"], object);
    }
    let wrong = json!({"destination": "invoice", "data": ada(json!({}))});
    assert_eq!(desk.post(SUBMIT, &wrong).await.fields(), ["destination"]);
}

#[tokio::test]
async fn an_envelope_s_business_id_is_an_integer() {
    let desk = Desk::new();
    let sent = json!({"destination": "lead", "business_id": "1", "data": ada(json!({}))});
    assert_eq!(desk.post(SUBMIT, &sent).await.fields(), ["business_id"]);
}

#[tokio::test]
async fn destination_choice_1_is_the_body_or_the_query() {
    let desk = Desk::new();
    let own = desk.own().await;
    desk.form(
        own,
        "contact",
        json!({"active": true, "destination": "lead"}),
    )
    .await;
    let sent = json!({"form_id": "contact", "data": ada(json!({}))});
    let path = format!("{SUBMIT}?destination=self_checkin");
    assert_eq!(
        desk.post(&path, &sent).await.data()["object"],
        "self_checkin"
    );
    let sent = json!({
        "form_id": "contact", "destination": "self_checkin", "data": ada(json!({})),
    });
    assert_eq!(
        desk.post(SUBMIT, &sent).await.data()["object"],
        "self_checkin"
    );
}

#[tokio::test]
async fn destination_choice_2_is_that_of_the_form_named() {
    let desk = Desk::new();
    let own = desk.own().await;
    desk.form(own, "a", json!({"active": true, "destination": "lead"}))
        .await;
    desk.form(
        own,
        "b",
        json!({"active": true, "destination": "self_checkin"}),
    )
    .await;
    let sent = json!({"form_id": "b", "data": ada(json!({}))});
    assert_eq!(
        desk.post(SUBMIT, &sent).await.data()["object"],
        "self_checkin"
    );
}

#[tokio::test]
async fn destination_choice_3_is_the_key_s_only_form_when_nothing_was_sent() {
    let desk = Desk::new();
    let own = desk.own().await;
    let (_, other) = desk.key("website").await;
    desk.form(
        other,
        "not ours",
        json!({"active": true, "destination": "lead"}),
    )
    .await;
    desk.form(
        own,
        "only",
        json!({"active": true, "destination": "self_checkin"}),
    )
    .await;
    let sent = json!({"data": ada(json!({}))});
    assert_eq!(
        desk.post(SUBMIT, &sent).await.data()["object"],
        "self_checkin"
    );
    desk.form(
        own,
        "second",
        json!({"active": true, "destination": "lead"}),
    )
    .await;
    assert_eq!(desk.post(SUBMIT, &sent).await.outcome(), (202, "received"));
}

#[tokio::test]
async fn destination_choice_4_is_to_park() {
    let desk = Desk::new();
    let answer = desk.post(SUBMIT, &json!({"data": ada(json!({}))})).await;
    assert_eq!(answer.outcome(), (202, "received"));
    assert!(answer.data().is_null());
}

#[tokio::test]
async fn a_form_s_map_is_applied_before_validation() {
    let desk = Desk::new();
    let own = desk.own().await;
    let map = json!({"Your name": "name", "Mail": "email", "Town": "address.city"});
    desk.form(
        own,
        "contact",
        json!({"active": true, "destination": "lead", "map": map}),
    )
    .await;
    let data = json!({"Your name": " Ada ", "Mail": "a@b.example", "Town": "Bath"});
    let answer = desk
        .post(SUBMIT, &json!({"form_id": "contact", "data": data}))
        .await;
    assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
    assert_eq!(answer.data()["name"], "Ada");
    assert_eq!(answer.data()["address"]["city"], "Bath");
}

#[tokio::test]
async fn lenient_values_are_trimmed() {
    let lead = lead(json!({"comment": "  hello \n", "address": {"city": " Bath "}})).await;
    assert_eq!(lead["comment"], "hello");
    assert_eq!(lead["address"]["city"], "Bath");
}

#[tokio::test]
async fn lenient_empty_strings_are_dropped() {
    let lead = lead(json!({"comment": "", "own": "  ", "custom_fields": {"Colour": ""}})).await;
    assert!(lead["comment"].is_null());
    let custom = lead["custom_fields"].as_object().unwrap();
    assert!(!custom.contains_key("own") && !custom.contains_key("Colour"));
}

#[tokio::test]
async fn lenient_yes_and_no_become_booleans() {
    let desk = Desk::new();
    let data = ada(json!({"is_recovery": "yes", "is_pickup_booked": "No"}));
    let answer = desk
        .post(
            SUBMIT,
            &json!({"destination": "self_checkin", "data": data}),
        )
        .await;
    assert_eq!(answer.data()["is_recovery"], true);
    assert_eq!(answer.data()["is_pickup_booked"], false);
}

#[tokio::test]
async fn lenient_values_that_are_too_long_are_cut_to_their_limit() {
    let lead = lead(json!({
        "name": long(90), "device_brand": long(130), "address": {"zip_code": long(30)},
        "custom_fields": {"Essay": long(1200)},
    }))
    .await;
    assert_eq!(lead["name"], long(60));
    assert_eq!(lead["device_brand"], long(100));
    assert_eq!(lead["address"]["zip_code"], long(20));
    assert_eq!(lead["custom_fields"]["Essay"], long(1000));
}

#[tokio::test]
async fn a_lenient_optional_field_that_fails_is_moved_to_custom_fields() {
    let lead =
        lead(json!({"next_follow_up": "soon", "comment": 5, "mobile_number": 4155550100_u64}));
    let lead = lead.await;
    assert!(lead["next_follow_up"].is_null() && lead["comment"].is_null());
    let custom = &lead["custom_fields"];
    assert_eq!(
        (&custom["next_follow_up"], &custom["comment"]),
        (&json!("soon"), &json!(5))
    );
    assert_eq!(custom["mobile_number"], 4155550100_u64);
}

#[tokio::test]
async fn lenient_refuses_only_a_missing_name_or_neither_contact() {
    let desk = Desk::new();
    let unnamed = envelope(json!({"email": "a@b.example"}));
    assert_eq!(desk.post(SUBMIT, &unnamed).await.fields(), ["name"]);
    let unreachable = envelope(json!({"name": "Ada", "email": "not one"}));
    assert_eq!(
        desk.post(SUBMIT, &unreachable).await.fields(),
        ["mobile_number", "email"]
    );
}

#[tokio::test]
async fn duplicates_follow_the_destination_s_default_unless_the_form_says_otherwise() {
    let desk = Desk::new();
    let own = desk.own().await;
    let lead = envelope(ada(json!({})));
    assert_eq!(desk.post(SUBMIT, &lead).await.status, 201);
    assert_eq!(desk.post(SUBMIT, &lead).await.outcome(), (200, "duplicate"));
    let always = json!({"active": true, "destination": "lead", "duplicates": "always_create"});
    desk.form(own, "open", always).await;
    let sent = json!({"form_id": "open", "data": ada(json!({}))});
    assert_eq!(desk.post(SUBMIT, &sent).await.outcome(), (201, "completed"));
}

#[tokio::test]
async fn lenient_lists_are_trimmed_and_lose_their_empty_strings() {
    let desk = Desk::new();
    let data = ada(json!({
        "accessories": [" charger ", "", "  ", "bag"],
        "custom_fields": {"Colours": [" red ", "", "blue"]},
    }));
    let answer = desk
        .post(
            SUBMIT,
            &json!({"destination": "self_checkin", "data": data}),
        )
        .await;
    assert_eq!(answer.outcome(), (201, "completed"), "{}", answer.json);
    assert_eq!(answer.data()["accessories"], json!(["charger", "bag"]));
    assert_eq!(
        answer.data()["custom_fields"]["Colours"],
        "[\"red\",\"blue\"]"
    );
}

#[tokio::test]
async fn a_device_password_of_any_form_is_never_returned() {
    let desk = Desk::new();
    let own = desk.own().await;
    let form = |target: &str| json!({"active": true, "destination": "self_checkin", "map": {"pin": target}});
    desk.form(own, "direct", form("device_password")).await;
    desk.form(own, "inside", form("device_password.pin")).await;
    desk.form(own, "custom", form("custom_fields.device_password"))
        .await;
    let data = |name: &str, value: Value| ada(json!({name: value}));
    let in_custom = json!({"custom_fields": {"device_password": 90210}});
    let mut sent = vec![json!({"destination": "self_checkin", "data": ada(in_custom.clone())})];
    for value in [
        json!(90210),
        json!([90210]),
        json!({"pin": 90210}),
        json!("90210"),
    ] {
        let data = data("device_password", value.clone());
        sent.push(json!({"destination": "self_checkin", "data": data}));
        for form in ["direct", "inside", "custom"] {
            sent.push(json!({"form_id": form, "data": ada(json!({"pin": value}))}));
        }
    }
    for body in &sent {
        for route in [SUBMIT, "/integrations/ingest/canonical"] {
            let answer = desk.post(route, body).await;
            assert_eq!(
                answer.outcome(),
                (201, "completed"),
                "{body} {}",
                answer.json
            );
            assert!(
                !answer.json.to_string().contains("90210"),
                "{body} {}",
                answer.json
            );
        }
    }
    let strict = desk.post(super::CHECKIN, &ada(in_custom)).await;
    assert_eq!(strict.status, 201);
    assert!(
        !strict.json.to_string().contains("90210"),
        "{}",
        strict.json
    );
    let kept = desk
        .portal(axum::http::Method::GET, "/checkins", &Value::Null)
        .await
        .json;
    for checkin in kept.as_array().unwrap() {
        let password = checkin["device_password"].as_str().unwrap_or_default();
        assert!(password.contains("90210"), "staff see it: {checkin}");
    }
}

#[tokio::test]
async fn a_device_password_sent_with_a_lead_is_not_kept() {
    let desk = Desk::new();
    let sent = ada(json!({"device_password": "hunter2", "custom_fields": {"device_password": 1}}));
    for (route, body) in [
        (super::LEADS, sent.clone()),
        (SUBMIT, json!({"destination": "lead", "data": sent})),
    ] {
        let answer = desk.post(route, &body).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.json);
        assert!(
            answer.data()["custom_fields"]
                .get("device_password")
                .is_none(),
            "{route}"
        );
    }
}
