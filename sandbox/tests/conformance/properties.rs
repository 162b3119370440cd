//! Whatever is sent, the sandbox answers what it documents: never a server error, never a panic.

use axum::body::Body;
use axum::http::{Method, Request};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{CHECKIN, Desk, LEADS, SUBMIT};

const NAMES: [&str; 24] = [
    "name",
    "mobile_number",
    "email",
    "mobile_country_code",
    "source",
    "next_follow_up",
    "comment",
    "device_type",
    "address",
    "custom_fields",
    "business_id",
    "form_id",
    "accessories",
    "is_recovery",
    "scheduled_on",
    "data",
    "destination",
    "form_response",
    "answers",
    "fields",
    "rawRequest",
    "RESPONSE",
    "unique_query_id",
    "leadid",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(NAMES.as_slice()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z]{1,8}@[a-z]{1,8}\\.example".prop_map(Value::from),
        "\\+?[0-9]{0,25}".prop_map(Value::from),
        Just(Value::from("lead")),
    ];
    leaf.prop_recursive(4, 48, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..12)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => json().prop_map(|value| value.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..400),
        1 => "[a-z_%&=+\\[\\]0-9]{0,200}".prop_map(String::into_bytes),
    ]
}

fn kind() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "text/plain",
    ])
}

#[derive(Debug, Clone)]
struct Sent {
    route: usize,
    kind: &'static str,
    header: (&'static str, Vec<u8>),
    query: String,
    body: Vec<u8>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let names = vec![
        "idempotency-key",
        "x-business",
        "x-form-builder-1-signature",
        "accept",
    ];
    let header = (
        proptest::sample::select(names),
        proptest::collection::vec(any::<u8>(), 0..250),
    );
    let query = "[a-z_%&=0-9+]{0,60}";
    (0..12_usize, kind(), header, query, body()).prop_map(|(route, kind, header, query, body)| {
        Sent {
            route,
            kind,
            header,
            query,
            body,
        }
    })
}

/// The statuses that anything under `/api` may have.
const EXPECTED: [u16; 11] = [200, 201, 202, 401, 403, 404, 405, 412, 413, 422, 429];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_input_is_answered_with_a_server_error(
        inputs in proptest::collection::vec(sent(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let desk = Desk::new();
            let mut keys = Vec::new();
            for provider in [
                "form_builder_signed_1", "form_builder_unsigned", "form_builder_signed_2",
                "marketplace_b2b", "listing_directory",
            ] {
                keys.push((provider, desk.key(provider).await.0));
            }
            for input in inputs {
                let Some(request) = request(&desk, &keys, &input) else { continue };
                let answer = desk.send(request).await;
                assert!(EXPECTED.contains(&answer.status), "{}: {input:?}", answer.status);
                assert!(!answer.header("x-request-id").is_empty(), "{input:?}");
            }
            assert_eq!(desk.get("/automation/triggers/leads?limit=100").await.status, 200);
        });
    }
}

/// The input as a request, or `None` when it is none that could be sent.
fn request(desk: &Desk, keys: &[(&str, String)], input: &Sent) -> Option<Request<Body>> {
    let (method, path, key) = match input.route {
        0 => (Method::POST, LEADS.to_owned(), desk.rest.as_str()),
        1 => (Method::POST, CHECKIN.to_owned(), desk.rest.as_str()),
        2 => (Method::POST, SUBMIT.to_owned(), desk.rest.as_str()),
        3 => (
            Method::POST,
            "/integrations/ingest/form".to_owned(),
            desk.rest.as_str(),
        ),
        4 => (
            Method::POST,
            "/integrations/ingest/canonical".to_owned(),
            desk.rest.as_str(),
        ),
        5 => (
            Method::GET,
            "/automation/triggers/leads".to_owned(),
            desk.automation.as_str(),
        ),
        6 => (
            Method::GET,
            "/automation/search/customers".to_owned(),
            desk.automation.as_str(),
        ),
        route => {
            let (provider, key) = &keys[route % keys.len()];
            let path = format!("/integrations/ingest/{provider}");
            match *provider {
                "marketplace_b2b" => (Method::POST, format!("{path}/{key}"), key.as_str()),
                "listing_directory" => {
                    let get = input.body.len().is_multiple_of(2);
                    let method = if get { Method::GET } else { Method::POST };
                    (method, format!("{path}/{key}"), key.as_str())
                }
                _ => (Method::POST, path, key.as_str()),
            }
        }
    };
    Request::builder()
        .method(method)
        .uri(format!("/api{path}?{}", input.query))
        .header("x-api-key", key)
        .header("content-type", input.kind)
        .header(input.header.0, input.header.1.as_slice())
        .body(Body::from(input.body.clone()))
        .ok()
}
