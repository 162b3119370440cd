use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;

use super::super::error::Class;
use super::super::transport::{ApiResponse, TransportError};
use super::*;
use crate::config::KeySource;
use crate::text::locale::Locale;

const KEY: &str = "svc_CanaryKey0123456789";

/// Keeps what it is given, and answers the same each time.
struct Recorder {
    seen: Mutex<Vec<ApiRequest>>,
    answer: Box<dyn Fn() -> Result<ApiResponse, TransportError> + Send + Sync>,
}

#[async_trait]
impl Transport for Recorder {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        self.seen.lock().unwrap().push(request);
        (self.answer)()
    }
}

impl Recorder {
    fn new(
        answer: impl Fn() -> Result<ApiResponse, TransportError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            answer: Box::new(answer),
        })
    }

    fn last<T>(&self, read: impl FnOnce(&ApiRequest) -> T) -> T {
        read(self.seen.lock().unwrap().last().unwrap())
    }

    fn last_url(&self) -> String {
        self.last(|request| request.url.to_string())
    }

    fn last_header(&self, name: &str) -> Option<String> {
        self.last(|request| Some(request.headers.get(name)?.to_str().unwrap().to_owned()))
    }
}

fn response(
    status: u16,
    headers: &[(&'static str, &'static str)],
    body: &str,
) -> Result<ApiResponse, TransportError> {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    let headers = headers.iter().map(pair).collect();
    Ok(ApiResponse {
        status,
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
    })
}

fn ok(body: &str) -> Result<ApiResponse, TransportError> {
    response(200, &[], body)
}

fn client(base_url: &str, auth: Auth, transport: &Arc<Recorder>) -> Client {
    let workspace = WorkspaceSettings {
        base_url: base_url.parse().unwrap(),
        key: KeySource::Environment(KEY.into()),
        auth,
        businesses: Default::default(),
        ca_file: None,
        proxy: None,
        time_zone: jiff::tz::TimeZone::UTC,
        locale: None,
        machine_locale: Locale::default(),
    };
    let poll = PollSettings {
        limit: 100,
        timeout: Duration::from_secs(20),
        min_interval: Duration::ZERO,
        max_interval: Duration::ZERO,
    };
    Client::new(
        &workspace,
        &poll,
        Arc::<Recorder>::clone(transport),
        KEY.into(),
        Clock::system(),
    )
}

fn key_of(route: Route, business: Option<&str>) -> PollerId {
    PollerId {
        route,
        business: business.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_search_term_is_encoded_and_bounded() {
    let transport = Recorder::new(|| ok(r#"[{"id":1}]"#));
    let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (page, _) = client.search_customers("Zoë +1&limit=9#/", Some("7")).await;
    assert_eq!(page.unwrap().records().len(), 1);
    assert!(
        transport.last_url().ends_with(
            "/automation/search/customers?search_term=Zo%C3%AB%20%2B1%26limit%3D9%23%2F"
        )
    );
    assert_eq!(transport.last_header("x-business").as_deref(), Some("7"));
    client
        .search_customers(&"ë".repeat(100), None)
        .await
        .0
        .unwrap();
    let sent = transport.seen.lock().unwrap().len();
    for term in ["", &"ë".repeat(101)] {
        let (result, rate) = client.search_customers(term, None).await;
        assert!(matches!(result, Err(ApiError::Unsendable(_))), "{term}");
        assert_eq!(rate, RateHeaders::default());
    }
    assert_eq!(
        transport.seen.lock().unwrap().len(),
        sent,
        "nothing was sent"
    );
}

#[tokio::test]
async fn the_key_travels_in_the_configured_header_and_is_marked_secret() {
    for (auth, name, value) in [
        (Auth::Bearer, "authorization", format!("Bearer {KEY}")),
        (Auth::XApiKey, "x-api-key", KEY.to_owned()),
    ] {
        let transport = Recorder::new(|| ok("[]"));
        let client = client("https://shop.example.com/api", auth, &transport);
        client
            .poll(&key_of(Route::Leads, Some("12")), None)
            .await
            .0
            .unwrap();
        assert_eq!(transport.last_header(name), Some(value));
        assert_eq!(
            transport.last_header("accept").as_deref(),
            Some("application/json")
        );
        assert_eq!(
            transport.last_header("cache-control").as_deref(),
            Some("no-cache")
        );
        let agent = format!("shopmirror/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(transport.last_header("user-agent"), Some(agent));
        assert_eq!(transport.last_header("x-business").as_deref(), Some("12"));
        transport.last(|request| {
            assert_eq!(request.headers.len(), 5);
            assert_eq!(request.timeout, Duration::from_secs(20));
            assert!(!format!("{:?}", request.headers).contains("Canary"));
            assert!(!request.url.as_str().contains("Canary"));
        });
    }
}

#[tokio::test]
async fn what_no_header_can_carry_is_not_sent() {
    let transport = Recorder::new(|| ok("[]"));
    let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (result, _) = client
        .poll(&key_of(Route::Jobs, Some("1\r\nx: y")), None)
        .await;
    assert!(matches!(result, Err(ApiError::Unsendable(_))));
    for key in ["", "two\nlines"] {
        client.set_key(key.into());
        let error = client.automation_ping().await.0.unwrap_err();
        assert_eq!(
            (&error, error.class()),
            (&ApiError::UnusableKey, Class::KeyRefused)
        );
        assert!(!error.to_string().contains("lines"));
    }
    assert!(transport.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_answer_tells_its_rate_and_only_200_tells_a_page() {
    let limits = [
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "0"),
        ("retry-after", "17"),
        ("date", "Sun, 01 Mar 2026 12:00:00 GMT"),
    ];
    let transport = Recorder::new(move || response(429, &limits, "{}"));
    let asked = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (result, rate) = asked.poll(&key_of(Route::Jobs, None), None).await;
    assert_eq!(result.unwrap_err().class(), Class::Busy);
    assert_eq!(
        (rate.limit, rate.remaining, rate.refused),
        (Some(60), Some(0), true)
    );
    assert_eq!(rate.retry_after, Some(Duration::from_secs(17)));
    assert_eq!(
        rate.server_time,
        Some("2026-03-01T12:00:00Z".parse().unwrap())
    );

    // That of a proxy says nothing about the key.
    let transport = Recorder::new(move || response(429, &limits, "Too many requests"));
    let asked = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (_, rate) = asked.poll(&key_of(Route::Jobs, None), None).await;
    assert_eq!((rate.limit, rate.refused), (None, false));
    assert_eq!(rate.retry_after, Some(Duration::from_secs(17)));

    let transport = Recorder::new(|| ok(r#"[{"name":"Canary Smith"}]"#));
    let asked = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let error = asked
        .poll(&key_of(Route::Leads, None), None)
        .await
        .0
        .unwrap_err();
    assert_eq!(error, ApiError::page(PageError::NoId(1)));
    assert!(
        !format!("{error} {error:?}").contains("Canary"),
        "nothing of the body is in it"
    );

    for status in [201, 204, 206, 302, 500] {
        let transport = Recorder::new(move || response(status, &[], "[]"));
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        assert!(
            client
                .poll(&key_of(Route::Jobs, None), None)
                .await
                .0
                .is_err(),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_page_of_another_branch_than_the_one_asked_for_is_refused() {
    for (asked, answered, right) in [
        (Some("7"), "7", true),
        (Some("7"), " 07 ", true),
        (Some("7"), "1", false),
        // Not the id that was asked with: it says nothing.
        (Some("7"), "north", true),
        (None, "1", true),
    ] {
        let transport = Recorder::new(move || response(200, &[("x-business", answered)], "[]"));
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        let (page, _) = client.poll(&key_of(Route::Leads, asked), None).await;
        assert_eq!(page.is_ok(), right, "{asked:?} {answered}");
        let (page, _) = client.search_customers("Ann", asked).await;
        assert_eq!(page.is_ok(), right, "{asked:?} {answered}");
    }
}

#[tokio::test]
async fn a_page_that_a_cache_kept_for_more_than_ten_seconds_is_refused() {
    for (age, right) in [
        ("0", true),
        ("10", true),
        ("11", false),
        ("999999999999999999999", false),
    ] {
        let transport = Recorder::new(move || response(200, &[("age", age)], "[]"));
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        let (page, _) = client.poll(&key_of(Route::Leads, None), None).await;
        assert_eq!(page.is_ok(), right, "{age}: {page:?}");
    }
}

#[tokio::test]
async fn of_an_answer_in_place_of_the_workspace_only_the_wait_counts() {
    let headers = [
        ("date", "Sun, 01 Mar 2020 08:00:00 GMT"),
        ("retry-after", "17"),
        ("x-ratelimit-limit", "7"),
        ("x-ratelimit-remaining", "0"),
        ("x-business", "5"),
    ];
    let age = ("age", "99");
    for (more, body) in [(None, "<html>"), (None, "welcome"), (Some(age), "[]")] {
        let headers: Vec<_> = headers.into_iter().chain(more).collect();
        let transport = Recorder::new(move || response(200, &headers, body));
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        client.set_key("another".to_owned().into());
        let (result, rate) = client.poll(&key_of(Route::Jobs, None), None).await;
        assert!(result.is_err(), "{body}");
        let expected = RateHeaders {
            retry_after: Some(Duration::from_secs(17)),
            key: 1,
            ..RateHeaders::default()
        };
        assert_eq!(rate, expected, "{body}");
    }
}
