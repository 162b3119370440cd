use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};

use super::*;

const SECRET: &str = "svc_CanaryKey0123456789";

fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> ApiError {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect();
    let asked = "https://shop.example.com/api/automation/triggers/leads?limit=100"
        .parse()
        .unwrap();
    let response = ApiResponse {
        status,
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
    };
    ApiError::from_response(&response, &asked, None, SECRET)
}

fn status(status: u16, retry_after: Option<Duration>) -> ApiError {
    ApiError::Status {
        status,
        code: None,
        message: None,
        request_id: None,
        retry_after,
    }
}

#[test]
fn only_429_423_and_5xx_are_retried_and_not_before_the_server_allows() {
    let wait = Duration::from_secs(30);
    for code in 100..=999 {
        let again = matches!(code, 423 | 429 | 500..=599);
        let (soon, later) = if again {
            (Retry::Backoff, Retry::After(wait))
        } else {
            (Retry::Never, Retry::Never)
        };
        assert_eq!(status(code, None).retry(), soon, "{code}");
        assert_eq!(status(code, Some(wait)).retry(), later, "{code}");
        assert_eq!(status(code, None).class() == Class::Busy, again, "{code}");
    }
}

#[test]
fn every_status_has_its_class() {
    for (code, class) in [
        (304, Class::BadPage),
        (201, Class::BadPage),
        (206, Class::BadPage),
        (400, Class::RouteBroken),
        (401, Class::KeyRefused),
        (403, Class::KeyForbidden),
        (404, Class::RouteBroken),
        (412, Class::WrongHost),
        (422, Class::RouteBroken),
        (423, Class::Busy),
        (429, Class::Busy),
        (500, Class::Busy),
        (599, Class::Busy),
        (600, Class::BadPage),
    ] {
        assert_eq!(answer(code, &[], "").class(), class, "{code}");
    }
}

#[test]
fn errors_without_a_status_follow_the_same_rules() {
    let text = || "x".to_owned();
    for (error, retry, class) in [
        (
            TransportError::Connect(text()).into(),
            Retry::Backoff,
            Class::Busy,
        ),
        (TransportError::Timeout.into(), Retry::Backoff, Class::Busy),
        (
            TransportError::Cut(text()).into(),
            Retry::Backoff,
            Class::Busy,
        ),
        (
            TransportError::Other(text()).into(),
            Retry::Backoff,
            Class::Busy,
        ),
        (
            TransportError::TooLarge.into(),
            Retry::Never,
            Class::BadPage,
        ),
        (PageError::Html.into(), Retry::Never, Class::BadPage),
        (
            ApiError::Redirect { host: None },
            Retry::Never,
            Class::RouteBroken,
        ),
        (ApiError::Unsendable("x"), Retry::Never, Class::RouteBroken),
        (ApiError::UnusableKey, Retry::Never, Class::KeyRefused),
    ] {
        assert_eq!((error.retry(), error.class()), (retry, class), "{error:?}");
    }
}

#[test]
fn the_envelope_is_read_and_the_operator_told_what_to_do() {
    let envelope = r#"{"error":{"code":"validation_failed","message":"The limit is wrong.",
        "details":[],"request_id":"req_1","documentation_url":"x"},"message":"old"}"#;
    let text = answer(422, &[("x-request-id", "other")], envelope).to_string();
    for part in [
        "status 422",
        "validation_failed",
        "The limit is wrong.",
        "request id req_1",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    for (status, advice) in [
        (401, "disabled, expired or was rotated"),
        (403, "needs an automation key"),
        (412, "white-label address"),
        (404, "base_url"),
        (429, "reserve"),
        (503, "will retry"),
    ] {
        let text = answer(status, &[], "").to_string();
        assert!(text.contains(advice), "{text}");
    }
}

#[test]
fn an_envelope_of_another_shape_costs_only_its_parts() {
    let read = |body: &str| match answer(500, &[("x-request-id", "req_2")], body) {
        ApiError::Status {
            code,
            message,
            request_id,
            ..
        } => (code, message, request_id),
        other => panic!("{other:?}"),
    };
    let id = Some("req_2".to_owned());
    for body in [
        "",
        "<html>oops</html>",
        "null",
        "[]",
        "\"x\"",
        r#"{"error":"x"}"#,
        "{\"err",
    ] {
        assert_eq!(read(body), (None, None, id.clone()), "{body:?}");
    }
    assert_eq!(read(&"[".repeat(60_000)), (None, None, id.clone()));
    assert_eq!(
        read(r#"{"message":"m"}"#),
        (None, Some("m".into()), id.clone())
    );
    let odd = r#"{"error":{"code":7,"message":null,"request_id":["x"]}}"#;
    assert_eq!(read(odd), (None, None, id.clone()));
    assert_eq!(
        read(r#"{"error":{"code":"c"}}"#),
        (Some("c".into()), None, id)
    );
}

#[test]
fn a_redirect_names_the_target_host_and_nothing_else_of_it() {
    for (location, host) in [
        (
            "https://user:pass@Other.example:8443/login?next=secret",
            Some("other.example"),
        ),
        ("//cdn.example/x", Some("cdn.example")),
        ("/login", Some("shop.example.com")),
        ("https://[", None),
        ("data:text/plain,hello", None),
    ] {
        let error = answer(302, &[("location", location)], "");
        assert_eq!(
            error,
            ApiError::Redirect {
                host: host.map(str::to_owned)
            },
            "{location}"
        );
        assert!(!format!("{error} {error:?}").contains("pass"));
    }
    assert_eq!(answer(302, &[], ""), ApiError::Redirect { host: None });
    let cached = answer(304, &[], "").to_string();
    assert!(
        cached.contains("cache") && !cached.contains("redirect"),
        "{cached}"
    );
}

#[test]
fn an_answer_that_hands_the_key_back_does_not_put_it_into_the_error() {
    let envelope = r#"{"error":{"code":"KEY","message":"key KEY expired","request_id":"KEY"}}"#;
    let body = envelope.replace("KEY", SECRET);
    let target = format!("https://{SECRET}.example/{SECRET}");
    for error in [
        answer(401, &[], &body),
        answer(401, &[("x-request-id", SECRET)], ""),
        answer(302, &[("location", &target)], ""),
    ] {
        let texts = format!("{error} {error:?}").to_lowercase();
        assert!(!texts.contains("canarykey"), "{texts}");
    }
}
