//! What each address returns, and the headers of every response.

use std::sync::Arc;

use super::context::PageContext;
use super::frame::explained;
use super::live::Live;
use super::not_shown::NotShown;
use super::request::Query;
use super::snapshot::Snapshot;
use super::text::shown;
use super::{access, find, metrics, record, records, reports};
use crate::report::Range;
use crate::store::Reader;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get};

/// A response that is made from the store. It is also drawn and written where the store is read, because that
/// takes as long.
type FromStore = fn(&mut Reader, &PageContext, &Query) -> Result<Response, NotShown>;

/// Sent with every response. Nothing but our own style, script and picture is loaded, no other page
/// may frame or read this one, and nothing is kept.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Every address of the page.
pub(super) fn router(context: Arc<PageContext>) -> Router {
    let records = Router::new()
        .route("/find", from_store(find::found))
        .route("/records", from_store(records::list))
        .route("/record", from_store(record::one))
        .route("/api/records", from_store(records::list_json))
        .route("/api/record", from_store(record::one_json))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&context), only_with_records));
    let guard = middleware::from_fn_with_state(Arc::clone(&context), guard);
    Router::new()
        .route("/", get(home))
        .route("/system", get(system))
        .route("/metrics", from_snapshot(metrics::respond))
        .route("/healthz", from_snapshot(|_| "alive\n".into_response()))
        .route("/readyz", from_snapshot(readiness))
        .route("/api/status", from_snapshot(|snapshot| reports::json(&snapshot.status)))
        .route("/reports", from_store(reports::list))
        .route("/report", from_store(reports::one))
        .route("/api/reports", from_store(reports::list_json))
        .route("/api/report", from_store(reports::one_json))
        .merge(records)
        .route("/page.css", get(|| asset("text/css", include_str!("assets/page.css"))))
        .route("/page.js", get(|| asset("text/javascript", include_str!("assets/page.js"))))
        .route("/icon.svg", get(|| asset("image/svg+xml", include_str!("assets/icon.svg"))))
        .fallback(|| async { NotShown::absent("there is nothing at this address") })
        .with_state(context)
        .layer(guard)
}

fn from_store(make: FromStore) -> MethodRouter<Arc<PageContext>> {
    get(async move |State(context): State<Arc<PageContext>>, uri: Uri| {
        let query = Query::of(&uri);
        context.read(move |reader, shared| make(reader, shared, &query)).await
    })
}

/// A response that is made from the newest snapshot.
fn from_snapshot(make: fn(&Snapshot) -> Response) -> MethodRouter<Arc<PageContext>> {
    get(async move |State(context): State<Arc<PageContext>>| {
        let text = "the daemon's tasks do not answer: look at its log, restart it";
        let stuck = || NotShown::new(StatusCode::SERVICE_UNAVAILABLE, text);
        context.snapshot().await.map(|snapshot| make(&snapshot)).ok_or_else(stuck)
    })
}

/// `fresh`, or 503 with the reasons.
fn readiness(snapshot: &Snapshot) -> Response {
    let hindrances = snapshot.status.hindrances();
    if hindrances.is_empty() {
        return "fresh\n".into_response();
    }
    let lines: String = hindrances.iter().map(|why| format!("{}\n", shown(why))).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

async fn only_with_records(
    State(context): State<Arc<PageContext>>,
    request: Request,
    next: Next,
) -> Response {
    if context.shows_records() {
        return next.run(request).await;
    }
    let text =
        "Records are not shown here: set `show_records = true` in `[status]` of the configuration.";
    NotShown::new(StatusCode::FORBIDDEN, text).into_response()
}

/// Refuses what may not be read, gives a refusal the form that its reader expects, and adds the headers.
async fn guard(State(context): State<Arc<PageContext>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let is_browser = accepts(request.headers(), "text/html");
    let refusal = access::refusal(&context.page.settings, request.headers());
    // Who may not read the page is not told the shop's name.
    let may_see_page = refusal.is_none();
    let mut response = match refusal {
        None => next.run(request).await,
        Some(refusal) => refusal,
    };
    if let Some(NotShown { text, .. }) = response.extensions_mut().remove() {
        if is_api {
            let json = serde_json::json!({ "error": shown(&text) });
            response = with_body(response, "application/json", format!("{json}\n"));
        } else if may_see_page && is_browser {
            let Html(page) = explained(&context, &text);
            response = with_body(response, "text/html; charset=utf-8", page);
        }
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn with_body(response: Response, kind: &'static str, text: String) -> Response {
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    (head, text).into_response()
}

async fn home(
    State(context): State<Arc<PageContext>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, NotShown> {
    let query = Query::of(&uri);
    query.allow(&["range"])?;
    let range = query.choice("range", &Range::HOME, Range::as_str)?.unwrap_or(Range::Today);
    Ok(Live::Home(range).respond(context, &headers).await)
}

async fn system(State(context): State<Arc<PageContext>>, headers: HeaderMap) -> Response {
    Live::System.respond(context, &headers).await
}

pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains(kind))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
