//! The portal, the delivery log, and the sandbox over a real socket.

use axum::body::Body;
use axum::http::{Method, Request};
use sandbox::{self, Options, Sandbox, Shop};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Desk, LEADS, SUBMIT, ada};

#[tokio::test]
async fn each_delivery_is_logged_with_its_request_id_and_can_be_retried() {
    let desk = Desk::new();
    let sent = json!({"destination": "lead", "data": {"name": "Ada", "email": "a@b.example"}});
    let answer = desk.post("/integrations/ingest/canonical", &sent).await;
    let log = desk.deliveries().await;
    assert_eq!(log.len(), 1);
    assert_eq!(log[0]["request_id"], answer.json["request_id"]);
    assert_eq!(log[0]["route"], "ingest/canonical");
    assert_eq!(log[0]["outcome"], "completed");
    let retry = json!({"id": log[0]["id"]});
    let again = desk.portal(Method::POST, "/deliveries/retry", &retry).await;
    assert_eq!(
        again.outcome(),
        (200, "duplicate"),
        "what is done is not done twice"
    );
}

#[tokio::test]
async fn a_refused_delivery_is_taken_when_the_shop_has_mended_its_form() {
    let desk = Desk::new();
    let own = desk.own().await;
    let sent = json!({"form_id": "f", "data": {"who": "Ada", "email": "a@b.example"}});
    desk.form(own, "f", json!({"active": true, "destination": "lead"}))
        .await;
    assert_eq!(desk.post(SUBMIT, &sent).await.fields(), ["name"]);
    let mended = json!({"active": true, "destination": "lead", "map": {"who": "name"}});
    desk.form(own, "f", mended).await;
    let retry = json!({"id": desk.deliveries().await[0]["id"]});
    let again = desk.portal(Method::POST, "/deliveries/retry", &retry).await;
    assert_eq!(again.outcome(), (201, "completed"));
    assert_eq!(desk.deliveries().await[0]["outcome"], "completed");
}

#[tokio::test]
async fn a_delivery_that_was_never_read_or_never_was_cannot_be_retried() {
    let desk = Desk::new();
    desk.ask(Method::POST, LEADS, &[("x-api-key", &desk.rest)], "{")
        .await;
    let unread = desk
        .portal(Method::POST, "/deliveries/retry", &json!({"id": 1}))
        .await;
    assert_eq!(unread.status, 409);
    let unknown = desk
        .portal(Method::POST, "/deliveries/retry", &json!({"id": 99}))
        .await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn the_page_is_for_people_and_escapes_what_was_sent() {
    let desk = Desk::new();
    let (_, integration) = desk.key("website").await;
    desk.form(integration, "<script>alert(1)</script>", json!({}))
        .await;
    let request = Request::get("/_sandbox/")
        .header("accept", "text/html")
        .body(Body::empty())
        .unwrap();
    let response = tower::ServiceExt::oneshot(desk.router.clone(), request)
        .await
        .unwrap();
    assert_eq!(
        response.headers()["content-type"],
        "text/html; charset=utf-8"
    );
    let page = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    assert!(page.contains("Nothing here is real"));
    assert!(page.contains("&lt;script&gt;alert") && !page.contains("<script>alert"));
    assert!(
        !page.contains(&desk.automation),
        "keys are shown by reveal alone"
    );
}

#[tokio::test]
async fn the_portal_is_asked_by_a_name_of_this_machine_only() {
    let desk = Desk::new();
    let hosts = [
        ("127.0.0.1:8780", 200),
        ("[::1]:8780", 200),
        ("localhost", 200),
        ("attacker.example:8780", 403),
        ("127.0.0.1.attacker.example", 403),
    ];
    for (host, status) in hosts {
        for path in ["/_sandbox/", "/_sandbox/keys"] {
            let request = Request::get(path)
                .header("host", host)
                .body(Body::empty())
                .unwrap();
            assert_eq!(desk.send(request).await.status, status, "{host}");
        }
    }
}

#[tokio::test]
async fn a_sandbox_with_a_state_file_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        shop: Shop::Quiet,
        state_file: Some(folder.path().join("state.json")),
        ..Options::default()
    };
    let desk = |sandbox: Sandbox| {
        let (rest, automation) = (sandbox.rest_key(), sandbox.automation_key());
        Desk {
            router: sandbox.router(),
            sandbox,
            rest,
            automation,
        }
    };
    let first = desk(Sandbox::open(&options).unwrap());
    let own = first.own().await;
    first
        .form(own, "f", json!({"active": true, "destination": "lead"}))
        .await;
    let key = [("idempotency-key", "k")];
    let lead = first.post_with(LEADS, &key, &ada(json!({}))).await;
    first
        .post(
            SUBMIT,
            &json!({"form_id": "other", "data": {"name": "Parked"}}),
        )
        .await;
    first.sandbox.save().unwrap();

    let second = desk(Sandbox::open(&options).unwrap());
    let again = second.post_with(LEADS, &key, &ada(json!({}))).await;
    assert_eq!(again.json["request_id"], lead.json["request_id"]);
    assert_eq!(again.data(), lead.data());
    assert_eq!(second.deliveries().await[1]["outcome"], "received");
    let forms = second
        .portal(Method::GET, "/forms", &Value::Null)
        .await
        .json;
    assert_eq!(forms[0]["form_id"], "f");
    let fresh = second
        .post(LEADS, &json!({"name": "Bo", "email": "bo@b.example"}))
        .await;
    assert_ne!(fresh.json["request_id"], lead.json["request_id"]);
    assert_ne!(fresh.data()["id"], lead.data()["id"]);
}

#[tokio::test]
async fn over_a_socket_intake_and_reads_meet_and_the_state_is_saved_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let options = Options {
        shop: Shop::Quiet,
        state_file: Some(path.clone()),
        ..Options::default()
    };
    let sandbox = Sandbox::open(&options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/api", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let served = tokio::spawn(sandbox::serve(listener, sandbox.clone(), stop.clone()));
    // An error says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .tls_certs_only(std::iter::empty())
        .no_proxy()
        .build()
        .unwrap();
    let sent = client
        .post(format!("{base}{LEADS}"))
        .bearer_auth(sandbox.rest_key())
        .header("content-type", "application/json")
        .body(ada(json!({})).to_string());
    let answer = sent.send().await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.headers()["x-sandbox"], "true");
    let read = client
        .get(format!("{base}/automation/triggers/leads?limit=1"))
        .bearer_auth(sandbox.automation_key());
    let page: Value =
        serde_json::from_str(&read.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(page[0]["name"], "Ada Byron");
    stop.cancel();
    served.await.unwrap().unwrap();
    assert!(std::fs::read_to_string(path).unwrap().contains("Ada Byron"));
}
