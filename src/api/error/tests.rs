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
    ApiError::from_response(&response, &asked, None, true, SECRET)
}

fn status(status: u16, retry_after: Option<Duration>) -> ApiError {
    ApiError::Status {
        status,
        is_of_workspace: true,
        request_id: None,
        retry_after,
        quotation: None,
    }
}

/// What the other side said.
fn said(error: &ApiError) -> &str {
    error.quotation().map_or("", Quotation::shown)
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
        for body in ["{}", "{\"error\":{}}", "\u{feff} {\"cut", ""] {
            let error = answer(code, &[("x-request-id", "r")], body);
            assert_eq!(error.class(), class, "{code} {body:?}");
        }
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
        (
            TransportError::Encoding(text()).into(),
            Retry::Never,
            Class::BadPage,
        ),
        (
            ApiError::page(PageError::Html),
            Retry::Never,
            Class::BadPage,
        ),
        (ApiError::Unsendable("x"), Retry::Never, Class::RouteBroken),
        (ApiError::UnusableKey, Retry::Never, Class::KeyRefused),
    ] {
        assert_eq!((error.retry(), error.class()), (retry, class), "{error:?}");
    }
}

#[test]
fn a_response_that_is_not_of_the_workspace_comes_from_somebody_between() {
    let title = "<html><title>Just a moment...</title>";
    for (status, headers, body, class, word) in [
        (403, None, title, Class::Between, "http_403"),
        (401, None, "Denied", Class::Between, "http_401"),
        (404, None, "", Class::Between, "http_404"),
        (404, Some("r"), "", Class::RouteBroken, ""),
        (404, Some("r"), "[]", Class::Between, "http_404"),
        (407, Some("r"), "{}", Class::Between, "http_407"),
        (204, None, "", Class::Between, "http_204"),
        (302, Some("r"), "{}", Class::Between, "redirect"),
        (304, Some("r"), "", Class::Between, "http_304"),
        // The contract has these retried, whoever sends them.
        (423, None, title, Class::Busy, ""),
        (429, None, title, Class::Busy, ""),
        (502, None, title, Class::Busy, ""),
    ] {
        let headers: Vec<_> = headers.map(|id| ("x-request-id", id)).into_iter().collect();
        let error = answer(status, &headers, body);
        assert_eq!(error.class(), class, "{status} {body:?}");
        if let ApiError::Between(between) = &error {
            assert_eq!(between.word(), word);
        }
        if body == title {
            assert_eq!(said(&error), "Just a moment...");
        }
        assert!(!error.to_string().contains("moment"), "{error}");
    }
}

#[test]
fn a_200_that_is_not_json_comes_from_somebody_between() {
    for (headers, body, word) in [
        (None, "<html>", Some("html")),
        (None, "\u{feff} <html>", Some("html")),
        (None, "Warning: x [{\"id\":1}]", Some("not_json")),
        (None, "", Some("not_json")),
        (Some("r"), "", None),
        (None, "[{\"id\":1, oops", None),
        (None, "{\"error\":", None),
        (None, "null", None),
        (None, "\u{feff}[]", None),
    ] {
        let mut map = HeaderMap::new();
        if let Some(id) = headers {
            map.insert("x-request-id", HeaderValue::from_static(id));
        }
        let response = ApiResponse {
            status: 200,
            headers: map,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        let found = match ApiError::from_body_between(&response, true, SECRET) {
            Some(ApiError::Between(between)) => Some(between.word()),
            Some(other) => panic!("{other:?}"),
            None => None,
        };
        assert_eq!(found.as_deref(), word, "{body:?}");
    }
}

#[test]
fn before_the_first_good_response_the_address_is_the_first_thing_to_check() {
    let mut between = Between {
        status: 404,
        kind: BetweenKind::Html,
        is_address_proven: false,
        quotation: None,
    };
    let text = between.to_string();
    assert!(text.contains("; check base_url first"), "{text}");
    between.is_address_proven = true;
    let text = between.to_string();
    assert!(text.contains("; let requests of this machine"), "{text}");
}

#[test]
fn the_operator_is_told_what_to_do_and_the_envelope_stays_apart() {
    let envelope = r#"{"error":{"code":"validation_failed","message":"The limit is wrong.",
        "details":[{"field":"limit","message":"is Ann"}],"request_id":"req_1",
        "documentation_url":"x"},"message":"old"}"#;
    let error = answer(422, &[("x-request-id", "other")], envelope);
    let text = error.to_string();
    for part in ["status 422", "request id req_1"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let quoted = "validation_failed; The limit is wrong.; limit: is Ann";
    assert_eq!(said(&error), quoted);
    assert!(!format!("{error} {error:?}").contains("Ann"), "{error:?}");
    assert_eq!(
        error.with_quotation(),
        format!("{text}; response: {quoted}")
    );
    for (status, advice) in [
        (401, "disabled, expired or was rotated"),
        (403, "needs an automation key"),
        (412, "white-label address"),
        (404, "base_url"),
        (429, "reserve"),
        (503, "will retry"),
    ] {
        let text = answer(status, &[], "{}").to_string();
        assert!(text.contains(advice), "{text}");
    }
    let of_proxy = answer(429, &[], "Too many requests").to_string();
    assert!(of_proxy.contains("somebody between"), "{of_proxy}");
    assert!(!of_proxy.contains("used up"), "{of_proxy}");
}

#[test]
fn an_envelope_of_another_shape_costs_only_its_parts() {
    let read = |body: &str| {
        let error = answer(500, &[("x-request-id", "req_2")], body);
        let said = error.quotation().map(|words| words.shown().to_owned());
        match error {
            ApiError::Status { request_id, .. } => (said, request_id),
            other => panic!("{other:?}"),
        }
    };
    let id = Some("req_2".to_owned());
    for (body, said) in [
        ("", None),
        ("<html>oops</html>", None),
        ("null", None),
        ("[]", None),
        ("\"x\"", None),
        (r#"{"error":"x"}"#, Some("x")),
        ("{\"err", None),
        (r#"{"message":"m"}"#, Some("m")),
        (
            r#"{"error":{"code":7,"message":null,"request_id":["x"]}}"#,
            None,
        ),
        (r#"{"error":{"code":"c"}}"#, Some("c")),
    ] {
        assert_eq!(read(body), (said.map(str::to_owned), id.clone()), "{body}");
    }
    assert_eq!(read(&"[".repeat(60_000)), (None, id));
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
        let ApiError::Between(between) = &error else {
            panic!("{error:?}");
        };
        let expected = BetweenKind::Redirect(host.map(str::to_owned));
        assert_eq!(between.kind, expected, "{location}");
        assert!(!format!("{error} {error:?}").contains("pass"));
    }
    let nameless = answer(302, &[], "").to_string();
    assert!(
        nameless.contains("an address it does not name"),
        "{nameless}"
    );
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
        let texts = format!("{} {error:?}", error.with_quotation()).to_lowercase();
        assert!(!texts.contains("canarykey"), "{texts}");
    }
}
