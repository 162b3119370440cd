//! The sandbox asked as a client would ask it, through its router.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Map, Value, json};
use tower::ServiceExt;

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

mod layout;

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }
}

async fn send(sandbox: &Sandbox, request: Request<Body>) -> Answer {
    let response = sandbox.router().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, 16 << 20).await.unwrap().to_vec();
    Answer {
        status: head.status,
        headers: head.headers,
        body,
    }
}

async fn get(sandbox: &Sandbox, path: &str) -> Answer {
    get_with(
        sandbox,
        path,
        &[(
            "authorization",
            &format!("Bearer {}", sandbox.automation_key()),
        )],
    )
    .await
}

async fn get_with(sandbox: &Sandbox, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(sandbox, request.body(Body::empty()).unwrap()).await
}

async fn control(sandbox: &Sandbox, method: Method, path: &str, body: Value) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(format!("/_sandbox{path}"))
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    send(sandbox, request).await
}

fn still(shop: Shop) -> Sandbox {
    let sandbox = Sandbox::new(Options {
        shop,
        ..Options::default()
    });
    sandbox.pause_growth(true);
    sandbox
}

fn trigger(route: Route, query: &str) -> String {
    format!("/api/automation/triggers/{route}{query}")
}

#[tokio::test]
async fn every_route_is_a_bare_array_of_the_newest_first() {
    let sandbox = still(Shop::Busy);
    for route in Route::ALL {
        for (query, rows) in [
            ("", 50),
            ("?limit=100", 100),
            ("?limit=7", 7),
            ("?limit=999", 100),
        ] {
            let answer = get(&sandbox, &trigger(route, query)).await;
            assert_eq!(answer.status, StatusCode::OK);
            let page = answer.json();
            let ids: Vec<u64> = page
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].as_u64().unwrap())
                .collect();
            assert_eq!(ids.len(), rows, "{route}{query}");
            assert!(ids.is_sorted_by(|newer, older| newer > older));
        }
    }
    let answer = get(&sandbox, &trigger(Route::Leads, "")).await;
    for name in ["name", "status", "status_stage", "created_at"] {
        assert!(answer.json()[0][name].is_string(), "{name}");
    }
}

#[tokio::test]
async fn a_read_shows_the_dates_that_the_shop_enters_in_its_formats() {
    let mut date_formats = DateFormats::default();
    date_formats.set("next_follow_up=%m/%d/%Y").unwrap();
    let sandbox = Sandbox::new(Options {
        date_formats,
        ..Options::default()
    });
    let lead = json!({"name": "Ann", "email": "a@b.example", "next_follow_up": "2026-11-27"});
    let made = Request::post("/api/integrations/leads")
        .header("authorization", format!("Bearer {}", sandbox.rest_key()))
        .header("content-type", "application/json")
        .body(Body::from(lead.to_string()))
        .unwrap();
    assert_eq!(send(&sandbox, made).await.status, StatusCode::CREATED);
    let leads = get(&sandbox, &trigger(Route::Leads, "?limit=1")).await;
    assert_eq!(leads.json()[0]["next_follow_up"], "11/27/2026");
    let jobs = get(&sandbox, &trigger(Route::Jobs, "?limit=1")).await;
    let received = jobs.json()[0]["received_at"].as_str().unwrap().to_owned();
    assert_eq!(
        received.matches('/').count(),
        2,
        "it is not ISO 8601: {received}"
    );
}

#[tokio::test]
async fn every_answer_says_who_limits_and_that_it_is_a_sandbox() {
    let sandbox = still(Shop::Quiet);
    for path in [
        "/api/automation/ping",
        "/api/integrations/custom-fields",
        "/api/nowhere",
    ] {
        let answer = get(&sandbox, path).await;
        assert!(answer.header("x-request-id").starts_with("req_"));
        assert_eq!(answer.header("x-ratelimit-limit"), "60");
        assert!(answer.headers.contains_key("x-ratelimit-remaining"));
        assert_eq!(answer.header("x-business"), "1");
        assert_eq!(answer.header("x-sandbox"), "true");
    }
}

#[tokio::test]
async fn the_sixty_first_request_within_a_minute_is_refused_with_a_wait() {
    let sandbox = still(Shop::Quiet);
    for left in (0..60).rev() {
        let answer = get(&sandbox, "/api/automation/ping").await;
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    let answer = get(&sandbox, "/api/automation/ping").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
    assert_eq!(
        answer.json()["error"]["request_id"],
        answer.header("x-request-id")
    );
    assert_eq!(sandbox.requests().max_in_60s["automation"], 61);
    assert_eq!(sandbox.requests().log[60].status, 429);
}

#[tokio::test(start_paused = true)]
async fn on_virtual_time_the_shop_grows_and_the_minute_passes() {
    let sandbox = Sandbox::new(Options {
        requests_per_minute: 1,
        ..Options::default()
    });
    let newest = |answer: &Answer| answer.json()[0]["id"].as_u64().unwrap();
    let path = trigger(Route::JobStatusChanges, "?limit=1");
    let before = newest(&get(&sandbox, &path).await);
    assert_eq!(
        get(&sandbox, &path).await.status,
        StatusCode::TOO_MANY_REQUESTS
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(newest(&get(&sandbox, &path).await) > before + 5);
}

#[tokio::test]
async fn keys_open_what_they_were_made_for() {
    let sandbox = still(Shop::Quiet);
    let path = "/api/automation/ping";
    assert_eq!(
        get_with(&sandbox, path, &[]).await.code(),
        "missing_api_key"
    );
    let unknown = get_with(&sandbox, path, &[("x-api-key", "made-elsewhere")]).await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::UNAUTHORIZED, "invalid_api_key".into())
    );
    let rest = sandbox.rest_key();
    let refused = get_with(&sandbox, path, &[("x-api-key", &rest)]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let ping = get_with(&sandbox, "/api/integrations/ping", &[("x-api-key", &rest)]).await;
    assert_eq!(ping.json()["provider"], "rest_api");
    assert!(sandbox.disable_key(&rest, true));
    let dead = get_with(&sandbox, "/api/integrations/ping", &[("x-api-key", &rest)]).await;
    assert_eq!(dead.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_standard_host_of_a_white_label_workspace_answers_412() {
    let sandbox = still(Shop::Quiet);
    let key = sandbox.automation_key();
    let headers = [("x-api-key", key.as_str()), ("host", "localhost:8080")];
    let answer = get_with(&sandbox, "/api/automation/ping", &headers).await;
    assert_eq!(answer.status, StatusCode::PRECONDITION_FAILED);
    sandbox.set_standard_host(None);
    let answer = get_with(&sandbox, "/api/automation/ping", &headers).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_business_shows_its_own_records() {
    let sandbox = still(Shop::Chain);
    let id = sandbox
        .add_record(Route::Leads, Some(2), Map::new())
        .unwrap();
    let key = sandbox.automation_key();
    let path = trigger(Route::Leads, "?limit=1");
    let of = async |business| {
        get_with(
            &sandbox,
            &path,
            &[("x-api-key", key.as_str()), ("x-business", business)],
        )
        .await
    };
    let second = of("2").await;
    assert_eq!(second.header("x-business"), "2");
    assert_eq!(second.json()[0]["id"], id);
    assert_ne!(of("1").await.json()[0]["id"], id);
    assert_eq!(of("9").await.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn search_looks_at_name_e_mail_and_mobile_number() {
    let sandbox = still(Shop::Busy);
    let record = json!({"name": "Ægir Findable", "email": "f@x.example", "mobile_number": "777-1"});
    let Value::Object(record) = record else {
        unreachable!("an object literal")
    };
    let id = sandbox.add_record(Route::Customers, None, record).unwrap();
    for term in ["%C3%86gir%20find", "F%40X.example", "777-1"] {
        let path = format!("/api/automation/search/customers?search_term={term}");
        assert_eq!(get(&sandbox, &path).await.json()[0]["id"], id, "{term}");
    }
    let all = get(&sandbox, "/api/automation/search/customers?search_term=a").await;
    assert_eq!(all.json().as_array().unwrap().len(), 25);
    let none = get(
        &sandbox,
        "/api/automation/search/customers?search_term=zzzz",
    )
    .await;
    assert_eq!(none.body, b"[]");
    let missing = get(&sandbox, "/api/automation/search/customers").await;
    assert_eq!(
        missing.json()["error"]["details"][0]["field"],
        "search_term"
    );
    let long = "x".repeat(101);
    let path = format!("/api/automation/search/customers?search_term={long}");
    assert_eq!(
        get(&sandbox, &path).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn every_refusal_has_the_error_body() {
    let sandbox = still(Shop::Quiet);
    let post = |path: &str| {
        let request = Request::post(path).header("x-api-key", sandbox.automation_key());
        request.body(Body::empty()).unwrap()
    };
    let answers = [
        (
            404,
            get(&sandbox, "/api/automation/triggers/invoices").await,
        ),
        (404, get(&sandbox, "/api/nowhere").await),
        (405, send(&sandbox, post("/api/automation/ping")).await),
        (
            422,
            get(&sandbox, "/api/automation/triggers/leads?limit=ten").await,
        ),
        (
            422,
            get(&sandbox, "/api/automation/triggers/leads?limit=1&limit=2").await,
        ),
    ];
    for (status, answer) in answers {
        assert_eq!(answer.status, status);
        assert!(answer.code().is_string());
        assert_eq!(answer.json()["message"], answer.json()["error"]["message"]);
        assert_eq!(
            answer.json()["error"]["request_id"],
            answer.header("x-request-id")
        );
    }
}

#[tokio::test]
async fn the_portal_says_in_json_what_it_cannot_take() {
    let sandbox = still(Shop::Quiet);
    for (path, body) in [
        ("/faults", json!({"kind": "no such"})),
        ("/burst", json!({"count": 1})),
    ] {
        let answer = control(&sandbox, Method::POST, path, body).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert!(
            answer.json()["error"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{path}"
        );
    }
    let plain = Request::post("/_sandbox/pause")
        .body(Body::from("{}"))
        .unwrap();
    let answer = send(&sandbox, plain).await;
    assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(
        answer.json()["error"]
            .as_str()
            .unwrap()
            .contains("application/json")
    );
}

#[tokio::test]
async fn a_scripted_fault_meets_its_requests_and_then_all_is_well() {
    let sandbox = still(Shop::Busy);
    let path = trigger(Route::Leads, "?limit=10");
    let right = get(&sandbox, &path).await.body;
    let script = async |fault: Value| {
        let answer = control(&sandbox, Method::POST, "/faults", fault).await;
        assert_eq!(answer.status, StatusCode::OK);
        get(&sandbox, &path).await
    };
    let busy = script(json!({"kind": "status", "code": 429, "retry_after": "3"})).await;
    assert_eq!(
        (busy.status.as_u16(), busy.header("retry-after")),
        (429, "3")
    );
    let busy = script(json!({"kind": "status", "code": 503, "retry_after": 4})).await;
    assert_eq!(
        (busy.status.as_u16(), busy.header("retry-after")),
        (503, "4")
    );
    let locked = script(json!({"route": "leads", "kind": "status", "code": 423})).await;
    assert_eq!(locked.status, StatusCode::LOCKED);
    assert!(!locked.headers.contains_key("retry-after"));
    let cut = script(json!({"kind": "truncated"})).await;
    assert_eq!(cut.body, right[..right.len() / 2]);
    assert_eq!(cut.header("content-length"), right.len().to_string());
    assert!(
        script(json!({"kind": "html"}))
            .await
            .body
            .starts_with(b"<!doctype")
    );
    assert_eq!(script(json!({"kind": "null"})).await.body, b"null");
    let deep = script(json!({"kind": "deep", "depth": 10_000})).await.body;
    assert!(deep.len() > 20_000);
    let twice = script(json!({"kind": "duplicate_ids"})).await.json();
    assert_eq!(twice[0]["id"], twice[9]["id"]);
    assert_eq!(
        script(json!({"kind": "record_without_id"})).await.json()[9].get("id"),
        None
    );
    assert!(String::from_utf8(script(json!({"kind": "invalid_utf8"})).await.body).is_err());
    assert!(script(json!({"kind": "nul"})).await.body.contains(&0));
    assert_eq!(
        script(json!({"kind": "huge", "mib": 2})).await.body.len(),
        (2 << 20) + 1
    );
    assert_eq!(
        script(json!({"kind": "gzip_bomb", "mib": 64}))
            .await
            .header("content-encoding"),
        "gzip"
    );
    assert_eq!(get(&sandbox, &path).await.body, right);
}

#[tokio::test]
async fn edits_bursts_and_additions_show_in_reads_and_in_the_truth() {
    let sandbox = still(Shop::Quiet);
    let path = trigger(Route::Leads, "?limit=100");
    let added = json!({"route": "leads", "record": {"id": "00123", "name": "Ω"}});
    let answer = control(&sandbox, Method::POST, "/records", added.clone()).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let again = control(&sandbox, Method::POST, "/records", added).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    let edit = json!({"route": "leads", "id": "00123", "fields": {"status": "Won"}});
    control(&sandbox, Method::PATCH, "/records", edit).await;
    let page = get(&sandbox, &path).await.json();
    assert_eq!(
        (&page[0]["id"], &page[0]["status"]),
        (&json!("00123"), &json!("Won"))
    );
    control(
        &sandbox,
        Method::POST,
        "/burst",
        json!({"route": "leads", "count": 150}),
    )
    .await;
    let page = get(&sandbox, &path).await.json();
    assert!(
        page.as_array()
            .unwrap()
            .iter()
            .all(|one| one["id"] != "00123")
    );
    control(
        &sandbox,
        Method::PATCH,
        "/settings",
        json!({"ids_as_strings": true}),
    )
    .await;
    assert!(get(&sandbox, &path).await.json()[0]["id"].is_string());
    let truth = control(&sandbox, Method::GET, "/truth?route=leads", Value::Null)
        .await
        .json();
    let truth = truth["leads"].as_array().unwrap();
    let ours = truth.iter().find(|one| one["id"] == "00123").unwrap();
    assert_eq!(ours["versions"], 2);
    assert_eq!(ours["history"][1]["changed"], json!(["status"]));
    assert_eq!(ours["record"]["name"], "Ω");
}

#[tokio::test]
async fn a_job_whose_status_is_set_in_the_portal_gets_a_status_change() {
    let sandbox = still(Shop::Quiet);
    let added = json!({"route": "jobs", "record": {"id": 9001, "job_number": "JOB-9001"}});
    control(&sandbox, Method::POST, "/records", added).await;
    let done = json!({"comment": "Glass", "status": "Delivered", "status_stage": "completed"});
    for fields in [json!({"problem": "Glass"}), done.clone()] {
        let edit = json!({"route": "jobs", "id": 9001, "fields": fields});
        control(&sandbox, Method::PATCH, "/records", edit).await;
    }
    let page = get(&sandbox, &trigger(Route::JobStatusChanges, "?limit=100"))
        .await
        .json();
    let page = page.as_array().unwrap();
    let found: Vec<_> = page
        .iter()
        .filter(|change| change["job_number"] == "JOB-9001")
        .collect();
    assert_eq!(
        found.len(),
        1,
        "the edit that left the status as it was makes no change"
    );
    assert_eq!(
        (&found[0]["status"], &found[0]["status_stage"]),
        (&done["status"], &done["status_stage"])
    );
}

#[tokio::test]
async fn a_rival_on_the_key_lowers_what_remains() {
    let sandbox = still(Shop::Quiet);
    sandbox.set_rival(60);
    let answer = get(&sandbox, "/api/automation/ping").await;
    assert!(
        answer
            .header("x-ratelimit-remaining")
            .parse::<u32>()
            .unwrap()
            < 59
    );
}

#[tokio::test]
async fn custom_fields_are_listed_by_form() {
    let sandbox = still(Shop::Quiet);
    let forms = get(&sandbox, "/api/integrations/custom-fields")
        .await
        .json();
    assert!(
        forms["form_types"]
            .as_array()
            .unwrap()
            .contains(&json!("Lead"))
    );
    let path = "/api/integrations/custom-fields?form_type=Lead";
    assert!(get(&sandbox, path).await.json()["fields"][0]["field_name"].is_string());
}

#[tokio::test]
async fn only_loopback_is_served_and_a_stop_ends_it() {
    let stop = CancellationToken::new();
    let sandbox = still(Shop::Quiet);
    let open = TcpListener::bind("0.0.0.0:0").await.unwrap();
    // Stopped beforehand, so that a listener that is let through ends at once.
    let stopped = CancellationToken::new();
    stopped.cancel();
    let refused = serve(open, sandbox.clone(), stopped).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener, sandbox.clone(), stop.clone()));
    // An error says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .tls_certs_only(std::iter::empty())
        .no_proxy()
        .build()
        .unwrap();
    let url = format!("http://{address}/api/automation/ping");
    let ask = || {
        client
            .get(&url)
            .bearer_auth(sandbox.automation_key())
            .send()
    };
    assert_eq!(ask().await.unwrap().status(), 200);
    sandbox.fault(Fault {
        route: None,
        kind: FaultKind::Truncated,
        count: 1,
    });
    let cut = ask().await.unwrap().bytes().await;
    assert!(cut.is_err(), "a cut body is an error on a real socket");
    sandbox.fault(Fault {
        route: None,
        kind: FaultKind::GzipBomb { mib: 64 },
        count: 1,
    });
    let unpacked = ask().await.unwrap().chunk().await.unwrap().unwrap();
    assert!(unpacked.starts_with(b"[  "), "the bomb unpacks");
    stop.cancel();
    served.await.unwrap().unwrap();
}
