use bytes::Bytes;
use std::sync::Mutex;

use proptest::prelude::*;

use super::super::error::Class;
use super::super::transport::{ApiResponse, ResponseFuture, TransportError};
use super::*;
use crate::config::KeySource;

const KEY: &str = "svc_CanaryKey0123456789";

/// Keeps what it is given, and answers the same each time.
struct Recorder {
    seen: Mutex<Vec<ApiRequest>>,
    answer: Box<dyn Fn() -> Result<ApiResponse, TransportError> + Send + Sync>,
}

impl Transport for Recorder {
    fn send(&self, request: ApiRequest) -> ResponseFuture<'_> {
        self.seen.lock().unwrap().push(request);
        Box::pin(async { (self.answer)() })
    }
}

impl Recorder {
    fn new(
        answer: impl Fn() -> Result<ApiResponse, TransportError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { seen: Mutex::default(), answer: Box::new(answer) })
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

fn ok(body: &str) -> Result<ApiResponse, TransportError> {
    Ok(ApiResponse {
        status: 200,
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    })
}

fn client(base_url: &str, auth: Auth, transport: &Arc<Recorder>) -> Client {
    let workspace = WorkspaceSettings {
        base_url: base_url.parse().unwrap(),
        key: KeySource::Environment(KEY.into()),
        auth,
        businesses: Vec::new(),
        proxy: None,
        ca_file: None,
        time_zone: jiff::tz::TimeZone::UTC,
    };
    let poll = PollSettings { limit: 100, timeout: Duration::from_secs(20), thrift: false };
    Client::new(&workspace, &poll, Arc::<Recorder>::clone(transport), KEY.into(), Clock::system())
}

fn key_of(route: Route, business: Option<&str>) -> PollerId {
    PollerId { route, business: business.map(str::to_owned) }
}

#[tokio::test]
async fn each_route_is_asked_under_its_name_in_the_contract() {
    let transport = Recorder::new(|| ok("[]"));
    let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    for (route, name) in [
        (Route::Jobs, "jobs"),
        (Route::Customers, "customers"),
        (Route::Leads, "leads"),
        (Route::Payments, "payments"),
        (Route::JobStatusChanges, "job-status-changes"),
        (Route::OutsourcedJobs, "outsourced-jobs"),
    ] {
        let (page, _) = client.poll(&key_of(route, None)).await;
        assert!(page.unwrap().records().is_empty());
        let expected = format!("https://shop.example.com/api/automation/triggers/{name}?limit=100");
        assert_eq!(transport.last_url(), expected);
        assert_eq!(transport.last_header("x-business"), None);
    }
}

#[tokio::test]
async fn the_other_reads_are_asked_where_the_contract_has_them() {
    let transport = Recorder::new(|| ok(r#"{"status":"connected","form_types":[],"fields":[]}"#));
    // A trailing slash, a query and a fragment in the address change nothing.
    let client = client("https://shop.example.com/api/?x=1#y", Auth::Bearer, &transport);
    let base = "https://shop.example.com/api";
    client.automation_ping().await.0.unwrap();
    assert_eq!(transport.last_url(), format!("{base}/automation/ping"));
    client.integrations_ping().await.0.unwrap();
    assert_eq!(transport.last_url(), format!("{base}/integrations/ping"));
    client.form_types(None).await.0.unwrap();
    assert_eq!(transport.last_url(), format!("{base}/integrations/custom-fields"));
    client.custom_fields("Lead & more", None).await.0.unwrap();
    let expected = format!("{base}/integrations/custom-fields?form_type=Lead%20%26%20more");
    assert_eq!(transport.last_url(), expected);
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
    client.search_customers(&"ë".repeat(100), None).await.0.unwrap();
    let sent = transport.seen.lock().unwrap().len();
    for term in ["", &"ë".repeat(101)] {
        let (result, rate) = client.search_customers(term, None).await;
        assert!(matches!(result, Err(ApiError::Unsendable(_))), "{term}");
        assert_eq!(rate, RateHeaders::default());
    }
    assert_eq!(transport.seen.lock().unwrap().len(), sent, "nothing was sent");
}

#[tokio::test]
async fn the_key_travels_in_the_configured_header_and_is_marked_secret() {
    for (auth, name, value) in [
        (Auth::Bearer, "authorization", format!("Bearer {KEY}")),
        (Auth::XApiKey, "x-api-key", KEY.to_owned()),
    ] {
        let transport = Recorder::new(|| ok("[]"));
        let client = client("https://shop.example.com/api", auth, &transport);
        client.poll(&key_of(Route::Leads, Some("12"))).await.0.unwrap();
        assert_eq!(transport.last_header(name), Some(value));
        assert_eq!(transport.last_header("accept").as_deref(), Some("application/json"));
        let agent = format!("shopmirror/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(transport.last_header("user-agent"), Some(agent));
        assert_eq!(transport.last_header("x-business").as_deref(), Some("12"));
        transport.last(|request| {
            assert_eq!(request.headers.len(), 4);
            assert_eq!(request.timeout, Duration::from_secs(20));
            assert!(!format!("{:?}", request.headers).contains("Canary"));
            assert!(!request.url.as_str().contains("Canary"));
        });
    }
}

#[tokio::test]
async fn a_new_key_is_used_by_every_clone() {
    let transport = Recorder::new(|| ok("[]"));
    let client = client("https://shop.example.com/api", Auth::XApiKey, &transport);
    let clone = client.clone();
    let before = client.account();
    assert_eq!(client.account_of(0), Some(before.clone()));
    client.set_key("svc_next".into());
    assert_eq!((clone.account_of(0), clone.account_of(1)), (None, Some(clone.account())));
    assert_ne!(
        clone.account(),
        before,
        "what the key of before was answered says nothing of this one"
    );
    clone.poll(&key_of(Route::Jobs, None)).await.0.unwrap();
    assert_eq!(transport.last_header("x-api-key").as_deref(), Some("svc_next"));
}

#[tokio::test]
async fn what_no_header_can_carry_is_not_sent() {
    let transport = Recorder::new(|| ok("[]"));
    let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (result, _) = client.poll(&key_of(Route::Jobs, Some("1\r\nx: y"))).await;
    assert!(matches!(result, Err(ApiError::Unsendable(_))));
    for key in ["", "two\nlines"] {
        client.set_key(key.into());
        let error = client.automation_ping().await.0.unwrap_err();
        assert_eq!((&error, error.class()), (&ApiError::UnusableKey, Class::KeyRefused));
        assert!(!error.to_string().contains("lines"));
    }
    assert!(transport.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_answer_tells_its_rate_and_only_200_tells_a_page() {
    fn refused() -> Result<ApiResponse, TransportError> {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", "0"),
            ("retry-after", "17"),
            ("date", "Sun, 01 Mar 2026 12:00:00 GMT"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Ok(ApiResponse { status: 429, headers, body: Bytes::from_static(b"[]") })
    }
    let transport = Recorder::new(refused);
    let asked = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let (result, rate) = asked.poll(&key_of(Route::Jobs, None)).await;
    assert_eq!(result.unwrap_err().class(), Class::Busy);
    assert_eq!((rate.limit, rate.remaining, rate.refused), (Some(60), Some(0), true));
    assert_eq!(rate.retry_after, Some(Duration::from_secs(17)));
    assert_eq!(rate.server_time, Some("2026-03-01T12:00:00Z".parse().unwrap()));

    for status in [201, 204, 206, 302, 500] {
        let transport = Recorder::new(move || {
            Ok(ApiResponse { status, headers: HeaderMap::new(), body: Bytes::from_static(b"[]") })
        });
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        assert!(client.poll(&key_of(Route::Jobs, None)).await.0.is_err(), "{status}");
    }
}

#[tokio::test]
async fn a_page_of_another_branch_than_the_one_asked_for_is_refused() {
    let resolved = |business: &'static str| {
        Recorder::new(move || {
            let mut headers = HeaderMap::new();
            headers.insert("x-business", HeaderValue::from_static(business));
            Ok(ApiResponse { status: 200, headers, body: Bytes::from_static(b"[]") })
        })
    };
    for (asked, answered, right) in [
        (Some("7"), "7", true),
        (Some("7"), " 07 ", true),
        (Some("7"), "1", false),
        // Not the id that was asked with: it says nothing.
        (Some("7"), "north", true),
        (None, "1", true),
    ] {
        let transport = resolved(answered);
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        let (page, _) = client.poll(&key_of(Route::Leads, asked)).await;
        assert_eq!(page.is_ok(), right, "{asked:?} {answered}");
        let (page, _) = client.search_customers("Ann", asked).await;
        assert_eq!(page.is_ok(), right, "{asked:?} {answered}");
    }
}

#[tokio::test]
async fn a_page_that_is_refused_puts_nothing_of_its_body_into_the_error() {
    let transport = Recorder::new(|| ok(r#"[{"name":"Canary Smith"}]"#));
    let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    let error = client.poll(&key_of(Route::Leads, None)).await.0.unwrap_err();
    assert_eq!(error, ApiError::Page(PageError::NoId(1)));
    assert!(!format!("{error} {error:?}").contains("Canary"));
}

#[tokio::test(start_paused = true)]
async fn latency_is_what_the_answer_took_also_when_there_is_none() {
    struct Slow;
    impl Transport for Slow {
        fn send(&self, _: ApiRequest) -> ResponseFuture<'_> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(250)).await;
                Err(TransportError::Timeout)
            })
        }
    }
    let transport = Recorder::new(|| ok("[]"));
    let mut client = client("https://shop.example.com/api", Auth::Bearer, &transport);
    Arc::get_mut(&mut client.0).unwrap().transport = Arc::new(Slow);
    let (_, rate) = client.poll(&key_of(Route::Jobs, None)).await;
    assert_eq!(rate.latency, Duration::from_millis(250));
}

proptest! {
    #[test]
    fn any_search_term_reaches_the_server_as_it_was_typed(term in ".{1,100}") {
        let transport = Recorder::new(|| ok("[]"));
        let client = client("https://shop.example.com/api", Auth::Bearer, &transport);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(client.search_customers(&term, None)).0.unwrap();
        transport.last(|request| {
            let read: Vec<_> = request.url.query_pairs().into_owned().collect();
            assert_eq!(read, [("search_term".to_owned(), term.clone())]);
            assert!(request.url.as_str().bytes().all(|b| b.is_ascii_graphic() && b != b'+'));
        });
    }
}
