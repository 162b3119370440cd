//! The receivers, rule by rule: adapters, forms, signatures, and the two generic ones.

use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{Answer, Desk, ada};

const BUILDERS: [&str; 3] = [
    "form_builder_signed_1",
    "form_builder_unsigned",
    "form_builder_signed_2",
];

/// A submission of form `F` with the fields `n` and `m`, as each builder sends it.
fn submission(builder: &str, id: &str) -> Value {
    match builder {
        "form_builder_signed_1" => json!({"form_response": {
            "form_id": "F", "token": id, "hidden": {"campaign": "spring"},
            "answers": [
                {"type": "text", "text": "Ada", "field": {"ref": "n"}},
                {"type": "email", "email": "ada@byron.example", "field": {"ref": "m"}},
                {"type": "choices", "choices": {"labels": ["Red", "Blue"]}, "field": {"ref": "c"}},
                {"type": "file_url", "file_url": "https://f.example/1", "field": {"ref": "f"}},
            ],
        }}),
        "form_builder_unsigned" => json!({
            "formID": "F", "submissionID": id,
            "rawRequest": json!({
                "n": "Ada", "m": "ada@byron.example", "c": ["Red", "Blue"],
                "f": ["https://f.example/1"], "campaign": "spring",
            }).to_string(),
        }),
        _ => json!({"data": {"formId": "F", "submissionId": id, "fields": [
            {"label": "n", "value": "Ada"}, {"label": "m", "value": "ada@byron.example"},
            {"label": "c", "value": ["1", "2"],
             "options": [{"id": "1", "text": "Red"}, {"id": "2", "text": "Blue"}]},
            {"label": "f", "value": [{"url": "https://f.example/1"}]},
            {"label": "campaign", "type": "HIDDEN_FIELDS", "value": "spring"},
        ]}}),
    }
}

fn path(adapter: &str) -> String {
    format!("/integrations/ingest/{adapter}")
}

fn mapped() -> Value {
    json!({"active": true, "destination": "lead", "map": {"n": "name", "m": "email"}})
}

#[tokio::test]
async fn rule_1_an_adapter_outside_the_table_is_unsupported() {
    let desk = Desk::new();
    for adapter in ["fax", "Form", "form_builder"] {
        let answer = desk.post(&path(adapter), &json!({})).await;
        assert_eq!(
            (answer.status, answer.code()),
            (404, "unsupported_adapter"),
            "{adapter}"
        );
        let keyed = format!("{}/{}", path(adapter), desk.rest);
        let answer = desk.post(&keyed, &json!({})).await;
        assert_eq!(
            (answer.status, answer.code()),
            (404, "unsupported_adapter"),
            "{adapter}/KEY"
        );
    }
}

#[tokio::test]
async fn rule_2_a_form_is_mapped_once_and_its_first_submission_parked_till_then() {
    for builder in BUILDERS {
        let desk = Desk::new();
        let (key, integration) = desk.key(builder).await;
        let first = desk
            .post_as(&key, &path(builder), &submission(builder, "1"))
            .await;
        assert_eq!(
            first.outcome(),
            (202, "received"),
            "{builder}: {}",
            first.json
        );
        let log = desk.deliveries().await;
        assert_eq!(
            log[0]["form_id"], "F",
            "the provider's form id is the form_id"
        );
        desk.form(integration, "F", mapped()).await;
        let log = desk.deliveries().await;
        assert_eq!(log[0]["outcome"], "completed", "{builder}: it is retried");
        let later = desk
            .post_as(&key, &path(builder), &submission(builder, "2"))
            .await;
        assert_eq!(
            later.outcome(),
            (200, "duplicate"),
            "{builder}: of the same e-mail"
        );
        assert_eq!(later.data()["id"], log[0]["record"]["id"]);
    }
}

#[tokio::test]
async fn rule_2_the_query_pins_the_destination() {
    for builder in BUILDERS {
        let desk = Desk::new();
        let (key, integration) = desk.key(builder).await;
        desk.form(integration, "F", mapped()).await;
        let pinned = format!("{}?destination=self_checkin", path(builder));
        let answer = desk.post_as(&key, &pinned, &submission(builder, "1")).await;
        assert_eq!(
            answer.data()["object"],
            "self_checkin",
            "{builder}: {}",
            answer.json
        );
    }
}

#[tokio::test]
async fn rule_3_choices_come_as_labels_files_as_urls_and_hidden_fields_too() {
    for builder in BUILDERS {
        let desk = Desk::new();
        let (key, integration) = desk.key(builder).await;
        desk.form(integration, "F", mapped()).await;
        let answer = desk
            .post_as(&key, &path(builder), &submission(builder, "1"))
            .await;
        let custom = &answer.data()["custom_fields"];
        assert_eq!(custom["c"], "Red,Blue", "{builder}");
        assert_eq!(custom["f"], "https://f.example/1", "{builder}");
        assert_eq!(custom["campaign"], "spring", "{builder}");
    }
}

fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

async fn send_signed(desk: &Desk, builder: &str, key: &str, signature: &str) -> Answer {
    let header = match builder {
        "form_builder_signed_1" => "x-form-builder-1-signature",
        _ => "x-form-builder-2-signature",
    };
    let headers = [("x-api-key", key), (header, signature)];
    let body = submission(builder, "1").to_string();
    desk.ask(Method::POST, &path(builder), &headers, body).await
}

#[tokio::test]
async fn rule_4_once_a_secret_exists_every_request_must_be_signed() {
    for builder in ["form_builder_signed_1", "form_builder_signed_2"] {
        let desk = Desk::new();
        let (key, _) = desk.key(builder).await;
        let body = submission(builder, "1").to_string();
        let replay = [("x-api-key", key.as_str()), ("idempotency-key", "k")];
        let first = desk
            .ask(Method::POST, &path(builder), &replay, body.clone())
            .await;
        assert_eq!(first.status, 202, "no secret yet");
        let secret = json!({"key": key, "signing_secret": "s3cret"});
        desk.portal(Method::PATCH, "/keys", &secret).await;
        let unsigned = desk
            .post_as(&key, &path(builder), &submission(builder, "1"))
            .await;
        assert_eq!(
            (unsigned.status, unsigned.code()),
            (401, "invalid_signature")
        );
        for wrong in [
            sign("other", &body),
            sign("s3cret", "{}"),
            "nonsense".to_owned(),
        ] {
            let refused = send_signed(&desk, builder, &key, &wrong).await;
            assert_eq!((refused.status, refused.code()), (401, "invalid_signature"));
        }
        let again = desk
            .ask(Method::POST, &path(builder), &replay, body.clone())
            .await;
        assert_eq!(again.status, 401, "no key makes up for a signature");
        let right = send_signed(&desk, builder, &key, &sign("s3cret", &body)).await;
        assert!(right.status < 300, "{builder}: {}", right.json);
    }
}

#[tokio::test]
async fn rule_4_the_unsigned_form_builder_has_no_signing() {
    let desk = Desk::new();
    let (key, _) = desk.key("form_builder_unsigned").await;
    let secret = json!({"key": key, "signing_secret": "s3cret"});
    desk.portal(Method::PATCH, "/keys", &secret).await;
    let sent = submission("form_builder_unsigned", "1");
    let answer = desk
        .post_as(&key, &path("form_builder_unsigned"), &sent)
        .await;
    assert_eq!(answer.outcome(), (202, "received"));
}

#[tokio::test]
async fn the_form_receiver_takes_form_encoded_and_multipart_bodies() {
    let multipart = "--x\r\ncontent-disposition: form-data; name=\"name\"\r\n\r\nAda\r\n\
        --x\r\ncontent-disposition: form-data; name=\"email\"\r\n\r\nada@byron.example\r\n\
        --x\r\ncontent-disposition: form-data; name=\"destination\"\r\n\r\nlead\r\n\
        --x\r\ncontent-disposition: form-data; name=\"colour\"\r\n\r\nred\r\n--x--\r\n";
    let bodies = [
        (
            "application/x-www-form-urlencoded",
            "name=Ada&email=ada%40byron.example&destination=lead&colour=red",
        ),
        ("multipart/form-data; boundary=x", multipart),
    ];
    for (kind, body) in bodies {
        let desk = Desk::new();
        let headers = [("x-api-key", desk.rest.as_str()), ("content-type", kind)];
        let answer = desk.ask(Method::POST, &path("form"), &headers, body).await;
        assert_eq!(
            answer.outcome(),
            (201, "completed"),
            "{kind}: {}",
            answer.json
        );
        assert_eq!(answer.data()["custom_fields"]["colour"], "red");
    }
}

#[tokio::test]
async fn the_form_receiver_treats_all_but_form_id_and_destination_as_data() {
    let desk = Desk::new();
    let headers = [
        ("x-api-key", desk.rest.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let body = "form_id=contact&destination=lead&name=Ada&email=a%40b.example&page=home";
    let answer = desk.ask(Method::POST, &path("form"), &headers, body).await;
    let custom = answer.data()["custom_fields"].as_object().unwrap();
    assert_eq!(custom["page"], "home");
    assert!(!custom.contains_key("form_id") && !custom.contains_key("destination"));
    assert_eq!(desk.deliveries().await[0]["form_id"], "contact");
}

#[tokio::test]
async fn the_canonical_receiver_takes_the_submit_envelope() {
    let desk = Desk::new();
    let sent = json!({"destination": "lead", "data": ada(json!({"comment": " x "}))});
    let answer = desk.post(&path("canonical"), &sent).await;
    assert_eq!(answer.outcome(), (201, "completed"));
    assert_eq!(answer.data()["comment"], "x");
    assert_eq!(
        desk.post(&path("canonical"), &json!({})).await.fields(),
        ["data"]
    );
}

#[tokio::test]
async fn the_generic_receivers_are_for_website_and_rest_api_keys() {
    let desk = Desk::new();
    let sent = json!({"destination": "self_checkin", "data": ada(json!({}))});
    for provider in ["website", "rest_api"] {
        let (key, _) = desk.key(provider).await;
        assert_eq!(
            desk.post_as(&key, &path("canonical"), &sent).await.status,
            201
        );
    }
    for provider in ["automation", "form_builder_signed_1"] {
        let (key, _) = desk.key(provider).await;
        let answer = desk.post_as(&key, &path("canonical"), &sent).await;
        assert_eq!(
            (answer.status, answer.code()),
            (403, "integration_not_permitted")
        );
    }
}

#[tokio::test]
async fn each_provider_s_receiver_takes_its_own_provider_s_keys() {
    let desk = Desk::new();
    for builder in BUILDERS {
        for provider in BUILDERS.into_iter().chain(["rest_api"]) {
            let (key, _) = desk.key(provider).await;
            let answer = desk
                .post_as(&key, &path(builder), &submission(builder, provider))
                .await;
            let expected = if provider == builder { 202 } else { 403 };
            assert_eq!(answer.status, expected, "{provider} at {builder}");
        }
    }
}

#[tokio::test]
async fn a_payload_that_its_receiver_cannot_read_is_unreadable() {
    let desk = Desk::new();
    for (adapter, provider) in [
        ("form_builder_signed_1", "form_builder_signed_1"),
        ("form_builder_unsigned", "form_builder_unsigned"),
        ("form_builder_signed_2", "form_builder_signed_2"),
        ("form", "website"),
        ("canonical", "website"),
    ] {
        let (key, _) = desk.key(provider).await;
        for body in ["", "{", "[]", "\u{0}"] {
            let headers = [("x-api-key", key.as_str())];
            let answer = desk.ask(Method::POST, &path(adapter), &headers, body).await;
            let told = (answer.status, answer.code());
            assert_eq!(told, (422, "unreadable_submission"), "{adapter} {body:?}");
        }
    }
}
