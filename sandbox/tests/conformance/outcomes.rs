//! The submission outcomes, row by row of the transitions table, and the envelope.

use axum::http::Method;
use serde_json::{Value, json};

use super::{CHECKIN, Desk, LEADS, SUBMIT, ada};

#[tokio::test]
async fn a_valid_submission_is_completed_and_creates_a_record() {
    let desk = Desk::new();
    let before = desk.leads();
    let answer = desk.post(LEADS, &ada(json!({}))).await;
    assert_eq!(answer.outcome(), (201, "completed"));
    assert_eq!(desk.leads(), before + 1);
    assert_eq!(answer.data()["object"], "lead");
    assert!(answer.data()["id"].is_u64());
}

#[tokio::test]
async fn the_envelope_has_a_status_a_request_id_and_data() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &ada(json!({}))).await;
    let members: Vec<&String> = answer.json.as_object().unwrap().keys().collect();
    assert_eq!(members, ["data", "request_id", "status"]);
    assert_eq!(answer.json["request_id"], answer.header("x-request-id"));
}

#[tokio::test]
async fn a_lead_with_the_same_mobile_number_and_dialling_code_is_a_duplicate() {
    let desk = Desk::new();
    let of = |name: &str, code: &str, number: &str| json!({"name": name, "mobile_country_code": code, "mobile_number": number});
    let first = desk.post(LEADS, &of("Ada", "+1", "5550100")).await;
    let second = desk.post(LEADS, &of("Bea", "+1", "5550100")).await;
    assert_eq!(second.outcome(), (200, "duplicate"));
    assert_eq!(second.data()["id"], first.data()["id"]);
    assert_eq!(
        second.data()["name"],
        "Ada",
        "the existing record is returned"
    );
    assert_ne!(
        second.json["request_id"], first.json["request_id"],
        "with a new request id"
    );
    assert_eq!(
        desk.post(LEADS, &of("Cleo", "+44", "5550100")).await.status,
        201
    );
    assert_eq!(
        desk.post(LEADS, &of("Dora", "+1", "5550101")).await.status,
        201
    );
}

#[tokio::test]
async fn a_lead_with_the_same_e_mail_is_a_duplicate() {
    let desk = Desk::new();
    let first = desk.post(LEADS, &ada(json!({}))).await;
    let second = desk
        .post(LEADS, &ada(json!({"name": "Bea", "mobile_number": "1"})))
        .await;
    assert_eq!(second.outcome(), (200, "duplicate"));
    assert_eq!(second.data()["id"], first.data()["id"]);
}

#[tokio::test]
async fn a_form_may_change_the_duplicate_rule() {
    let desk = Desk::new();
    let own = desk.own().await;
    let form = |rule: &str| json!({"active": true, "duplicates": rule});
    desk.form(own, "mobile", form("match_mobile")).await;
    desk.form(own, "mail", form("match_email")).await;
    let first = ada(json!({"mobile_number": "1"}));
    assert_eq!(desk.post(LEADS, &first).await.status, 201);
    let same_mail = |form: &str| ada(json!({"mobile_number": "2", "form_id": form}));
    assert_eq!(desk.post(LEADS, &same_mail("mobile")).await.status, 201);
    assert_eq!(desk.post(LEADS, &same_mail("mail")).await.status, 200);
}

#[tokio::test]
async fn self_check_ins_are_always_created_by_default() {
    let desk = Desk::new();
    let sent = ada(json!({"mobile_number": "5550100"}));
    let first = desk.post(CHECKIN, &sent).await;
    let second = desk.post(CHECKIN, &sent).await;
    assert_eq!(second.outcome(), (201, "completed"));
    assert_ne!(second.data()["id"], first.data()["id"]);
}

#[tokio::test]
async fn with_the_policy_skip_an_open_check_in_of_the_same_mobile_number_is_a_duplicate() {
    let desk = Desk::new();
    let own = desk.own().await;
    desk.form(own, "kiosk", json!({"active": true, "duplicates": "skip"}))
        .await;
    let sent = ada(json!({"mobile_number": "5550100", "form_id": "kiosk"}));
    let first = desk.post(CHECKIN, &sent).await;
    let second = desk.post(CHECKIN, &sent).await;
    assert_eq!(second.outcome(), (200, "duplicate"));
    assert_eq!(second.data()["id"], first.data()["id"]);
    desk.sandbox.pause_growth(false);
    desk.sandbox.advance_clock(7 * 86_400);
    let after = desk.post(CHECKIN, &sent).await;
    assert_eq!(
        after.outcome(),
        (201, "completed"),
        "the first customer has come in"
    );
}

#[tokio::test]
async fn a_repeated_idempotency_key_is_a_duplicate_with_the_original_answer() {
    let desk = Desk::new();
    let key = [("idempotency-key", "8a51")];
    let first = desk.post_with(LEADS, &key, &ada(json!({}))).await;
    let before = desk.leads();
    let second = desk.post_with(LEADS, &key, &ada(json!({}))).await;
    assert_eq!(second.outcome(), (200, "duplicate"));
    assert_eq!(second.json["request_id"], first.json["request_id"]);
    assert_eq!(second.data(), first.data());
    assert_eq!(desk.leads(), before);
}

#[tokio::test]
async fn a_submission_without_a_destination_is_received_and_parked() {
    let desk = Desk::new();
    let before = desk.leads();
    let answer = desk.post(SUBMIT, &json!({"data": ada(json!({}))})).await;
    assert_eq!(answer.outcome(), (202, "received"));
    assert!(answer.data().is_null());
    assert_eq!(desk.leads(), before);
}

#[tokio::test]
async fn a_submission_to_a_form_that_is_not_activated_is_parked() {
    let desk = Desk::new();
    let own = desk.own().await;
    desk.form(
        own,
        "contact",
        json!({"destination": "lead", "map": {"n": "name"}}),
    )
    .await;
    for destination in [Value::Null, json!("lead")] {
        let sent =
            json!({"form_id": "contact", "destination": destination, "data": ada(json!({}))});
        assert_eq!(desk.post(SUBMIT, &sent).await.outcome(), (202, "received"));
    }
}

#[tokio::test]
async fn a_parked_submission_is_completed_when_it_is_replayed_from_the_portal() {
    let desk = Desk::new();
    let own = desk.own().await;
    let data = json!({"n": "Ada", "email": "a@b.example"});
    // Without its form's id: activating a form retries only what names it.
    let parked = desk.post(SUBMIT, &json!({"data": data})).await;
    let id = desk.deliveries().await.last().unwrap()["id"].clone();
    let early = desk
        .portal(Method::POST, "/deliveries/retry", &json!({"id": id}))
        .await;
    assert_eq!(
        early.outcome(),
        (202, "received"),
        "not before the form is mapped"
    );
    let form = json!({"active": true, "destination": "lead", "map": {"n": "name"}});
    desk.form(own, "contact", form).await;
    let before = desk.leads();
    let replayed = desk
        .portal(Method::POST, "/deliveries/retry", &json!({"id": id}))
        .await;
    assert_eq!(replayed.outcome(), (201, "completed"));
    assert_eq!(replayed.data()["name"], "Ada");
    assert_eq!(replayed.json["request_id"], parked.json["request_id"]);
    assert_eq!(desk.leads(), before + 1);
}

#[tokio::test]
async fn the_key_of_a_parked_submission_gives_its_record_once_it_is_there() {
    let desk = Desk::new();
    let key = [("idempotency-key", "k")];
    let sent = json!({"data": ada(json!({}))});
    let parked = desk.post_with(SUBMIT, &key, &sent).await;
    let early = desk.post_with(SUBMIT, &key, &sent).await;
    assert_eq!(early.outcome(), (200, "duplicate"));
    assert!(early.data().is_null());
    let id = desk.deliveries().await[0]["id"].clone();
    let retry = json!({"id": id, "destination": "lead"});
    desk.portal(Method::POST, "/deliveries/retry", &retry).await;
    let late = desk.post_with(SUBMIT, &key, &sent).await;
    assert_eq!(late.json["request_id"], parked.json["request_id"]);
    assert_eq!(late.data()["name"], "Ada Byron");
}

#[tokio::test]
async fn a_form_builder_s_lead_for_a_form_not_yet_configured_is_parked() {
    for provider in [
        "form_builder_signed_1",
        "form_builder_unsigned",
        "form_builder_signed_2",
    ] {
        let desk = Desk::new();
        let (key, integration) = desk.key(provider).await;
        let sent = ada(json!({"form_id": "contact"}));
        assert_eq!(
            desk.post_as(&key, LEADS, &sent).await.outcome(),
            (202, "received")
        );
        let form = json!({"active": true, "map": {}, "destination": "lead"});
        desk.form(integration, "contact", form).await;
        assert_eq!(desk.deliveries().await[0]["outcome"], "completed");
        let later = ada(json!({"form_id": "contact", "email": "b@c.example"}));
        assert_eq!(
            desk.post_as(&key, LEADS, &later).await.outcome(),
            (201, "completed")
        );
    }
    let desk = Desk::new();
    let sent = ada(json!({"form_id": "contact"}));
    assert_eq!(
        desk.post(LEADS, &sent).await.status,
        201,
        "other providers need no map"
    );
}

#[tokio::test]
async fn a_lead_s_form_id_applies_the_form_s_map() {
    let desk = Desk::new();
    let own = desk.own().await;
    desk.form(
        own,
        "contact",
        json!({"active": true, "map": {"full_name": "name"}}),
    )
    .await;
    let sent = json!({"form_id": "contact", "full_name": "Ada", "email": "a@b.example"});
    let answer = desk.post(LEADS, &sent).await;
    assert_eq!(
        (answer.status, &answer.data()["name"]),
        (201, &json!("Ada"))
    );
}

#[tokio::test]
async fn what_intake_creates_shows_in_the_reads_at_once_and_newest_first() {
    let desk = Desk::new();
    let answer = desk.post(LEADS, &ada(json!({"comment": "seen"}))).await;
    let page = desk.get("/automation/triggers/leads?limit=2").await.json;
    let mut shown = answer.data().clone();
    shown.as_object_mut().unwrap().remove("object");
    assert_eq!(page[0], shown);
    assert_ne!(page[1]["id"], shown["id"]);
}

#[tokio::test]
async fn a_created_lead_moves_on_with_the_shop() {
    let desk = Desk::new();
    let id = desk.post(LEADS, &ada(json!({}))).await.data()["id"].clone();
    desk.sandbox.pause_growth(false);
    desk.sandbox.advance_clock(14 * 86_400);
    let truth = desk
        .portal(Method::GET, "/truth?route=leads", &Value::Null)
        .await
        .json;
    let ours = truth["leads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|lead| lead["id"] == id)
        .unwrap();
    assert!(ours["versions"].as_u64().unwrap() >= 3, "{ours}");
    assert_eq!(ours["record"]["status_stage"], "completed");
}

#[tokio::test]
async fn a_check_in_s_customer_comes_in_and_becomes_a_repair() {
    let desk = Desk::new();
    desk.post(CHECKIN, &ada(json!({"device_brand": "Fairphone"})))
        .await;
    desk.sandbox.pause_growth(false);
    desk.sandbox.advance_clock(7 * 86_400);
    let truth = desk
        .portal(Method::GET, "/truth?route=jobs", &Value::Null)
        .await
        .json;
    let jobs = truth["jobs"].as_array().unwrap();
    let ours = jobs
        .iter()
        .find(|job| job["record"]["customer_name"] == "Ada Byron");
    assert_eq!(ours.unwrap()["record"]["device_brand"], "Fairphone");
}
