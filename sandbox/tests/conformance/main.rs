//! The contract, rule by rule, against the sandbox: each test is named after the rule it keeps.
//!
//! Requests go through the sandbox's router; what only a socket shows is asked over a socket.
//! Nothing here may look into the sandbox but through its API and its portal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a body is written where it is sent"
)]

mod assumptions;
mod auth;
mod business;
mod checkin_input;
mod conventions;
mod custom_fields;
mod errors;
mod idempotency;
mod input;
mod lead_input;
mod limits;
mod marketplaces;
mod openapi;
mod outcomes;
mod portal;
mod properties;
mod reads;
mod receivers;
mod submit;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use sandbox::{Options, Sandbox, Shop};
use serde_json::{Value, json};
use tower::ServiceExt;

const LEADS: &str = "/integrations/leads";
const CHECKIN: &str = "/integrations/self-checkin";
const SUBMIT: &str = "/integrations/submit";

/// An answer, read to its end.
struct Answer {
    status: u16,
    headers: HeaderMap,
    json: Value,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    fn data(&self) -> &Value {
        &self.json["data"]
    }

    /// The outcome's status and name.
    fn outcome(&self) -> (u16, &str) {
        (
            self.status,
            self.json["status"].as_str().unwrap_or_default(),
        )
    }

    /// The fields that a 422 names.
    fn fields(&self) -> Vec<&str> {
        assert_eq!(
            (self.status, self.code()),
            (422, "validation_failed"),
            "{}",
            self.json
        );
        let details = self.json["error"]["details"].as_array().unwrap();
        details
            .iter()
            .map(|detail| detail["field"].as_str().unwrap())
            .collect()
    }
}

/// A quiet workspace that stands still, and keys to it.
struct Desk {
    sandbox: Sandbox,
    router: Router,
    /// A REST API key.
    rest: String,
    automation: String,
}

impl Desk {
    fn new() -> Self {
        Self::of(Shop::Quiet)
    }

    fn of(shop: Shop) -> Self {
        let options = Options {
            shop,
            requests_per_minute: 100_000,
            ..Options::default()
        };
        let sandbox = Sandbox::new(options);
        sandbox.pause_growth(true);
        let (rest, automation) = (sandbox.rest_key(), sandbox.automation_key());
        Self {
            router: sandbox.router(),
            sandbox,
            rest,
            automation,
        }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 64 << 20).await.unwrap();
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            json,
        }
    }

    /// Asks below `/api` with these headers and nothing else.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("/api{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(
            Method::GET,
            path,
            &[("x-api-key", &self.automation)],
            Body::empty(),
        )
        .await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    async fn post_with(&self, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let mut headers = vec![
            ("x-api-key", self.rest.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(more);
        self.ask(Method::POST, path, &headers, body.to_string())
            .await
    }

    /// Posts under another key than the REST API one.
    async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        let headers = [("x-api-key", key), ("content-type", "application/json")];
        self.ask(Method::POST, path, &headers, body.to_string())
            .await
    }

    async fn portal(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("/_sandbox{path}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        self.send(request).await
    }

    /// A new key of a provider, and its integration.
    async fn key(&self, provider: &str) -> (String, u64) {
        let made = self
            .portal(Method::POST, "/keys", &json!({"provider": provider}))
            .await;
        assert_eq!(made.status, 201, "{}", made.json);
        let key = made.json["key"].as_str().unwrap().to_owned();
        (key, made.json["integration"].as_u64().unwrap())
    }

    /// Configures a form of an integration.
    async fn form(&self, integration: u64, form_id: &str, more: Value) {
        let mut form = json!({"integration": integration, "form_id": form_id});
        form.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let made = self.portal(Method::PUT, "/forms", &form).await;
        assert_eq!(made.status, 200, "{}", made.json);
    }

    /// The integration of the REST API key.
    async fn own(&self) -> u64 {
        let keys = self.portal(Method::GET, "/keys", &Value::Null).await.json;
        let rest = keys
            .as_array()
            .unwrap()
            .iter()
            .find(|key| key["name"] == "rest")
            .unwrap();
        rest["integration"].as_u64().unwrap()
    }

    async fn deliveries(&self) -> Vec<Value> {
        let log = self
            .portal(Method::GET, "/deliveries", &Value::Null)
            .await
            .json;
        log.as_array().unwrap().clone()
    }

    /// How many leads there are.
    fn leads(&self) -> usize {
        self.sandbox.truth(sandbox::Route::Leads).len()
    }
}

/// The object with members put over it.
fn with(mut base: Value, more: Value) -> Value {
    base.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    base
}

/// The smallest lead or self check-in, with members put over it.
fn ada(more: Value) -> Value {
    with(
        json!({"name": "Ada Byron", "email": "ada@byron.example"}),
        more,
    )
}

/// A text of so many characters, none of them ASCII.
fn long(characters: usize) -> String {
    "é".repeat(characters)
}
