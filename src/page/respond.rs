//! What each address returns, and the headers of every response.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::context::PageContext;
use super::live::Live;
use super::not_shown::NotShown;
use super::text::shown;
use super::{access, find, metrics, record, records, reports};
use crate::report::Range;
use crate::status::WorkspaceStatus;
use crate::store::Reader;

/// A response that is made from the store. It is also drawn and written where the store is read,
/// because that takes as long.
type FromStore<Q> = fn(&mut Reader, &PageContext, &Q) -> Result<Response, NotShown>;

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
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

/// Every address of the page.
pub(super) fn router(context: Arc<PageContext>) -> Router {
    let guard = middleware::from_fn_with_state(Arc::clone(&context), guard);
    let router = Router::new()
        .route("/", get(home))
        .route("/system", get(system))
        .route("/metrics", from_status(metrics::respond))
        .route("/healthz", from_status(|_| "alive\n".into_response()))
        .route("/readyz", from_status(readiness))
        .route(
            "/api/status",
            from_status(|status| Json(status).into_response()),
        )
        .route("/reports", from_store(reports::list))
        .route("/report", from_store(reports::one))
        .route(
            "/page.css",
            asset("text/css", include_str!("assets/page.css")),
        )
        .route(
            "/page.js",
            asset("text/javascript", include_str!("assets/page.js")),
        )
        .route(
            "/icon.svg",
            asset("image/svg+xml", include_str!("assets/icon.svg")),
        )
        .fallback(absent);
    let router = match context.shows_records() {
        true => router
            .route("/find", from_store(find::found))
            .route("/records", from_store(records::list))
            .route("/records.csv", from_store(records::csv))
            .route("/record", from_store(record::one)),
        false => router,
    };
    router.with_state(context).layer(guard)
}

fn from_store<Q>(make: FromStore<Q>) -> MethodRouter<Arc<PageContext>>
where
    Q: DeserializeOwned + Send + 'static,
{
    get(
        async move |State(context): State<Arc<PageContext>>, Query(query): Query<Q>| {
            let made = context
                .read(move |reader, shared| make(reader, shared, &query))
                .await;
            made.unwrap_or_else(|not_shown| not_shown.page(&context))
        },
    )
}

/// A response that is made from the newest status.
fn from_status(make: fn(&WorkspaceStatus) -> Response) -> MethodRouter<Arc<PageContext>> {
    get(async move |State(context): State<Arc<PageContext>>| {
        let stuck = "the daemon's tasks do not answer: look at its log, restart it\n";
        let stuck = || (StatusCode::SERVICE_UNAVAILABLE, stuck).into_response();
        context
            .status()
            .await
            .map_or_else(stuck, |status| make(&status))
    })
}

/// `fresh`, or 503 with the reasons.
fn readiness(status: &WorkspaceStatus) -> Response {
    let hindrances = status.hindrances();
    if hindrances.is_empty() {
        return "fresh\n".into_response();
    }
    let lines: String = hindrances
        .iter()
        .map(|why| format!("{}\n", shown(why)))
        .collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

/// Refuses what may not be read, and adds the headers.
async fn guard(
    State(context): State<Arc<PageContext>>,
    request: Request,
    next: Next,
) -> impl IntoResponse {
    let response = match access::refusal(&context.page.settings, request.headers()) {
        None => next.run(request).await,
        Some(refusal) => refusal,
    };
    (HEADERS, response)
}

/// What is asked of Home.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedHome {
    range: Option<Range>,
}

async fn home(
    State(context): State<Arc<PageContext>>,
    headers: HeaderMap,
    Query(AskedHome { range }): Query<AskedHome>,
) -> Response {
    let range = range
        .filter(|range| Range::HOME.contains(range))
        .unwrap_or(Range::Today);
    Live::Home(range).respond(context, &headers).await
}

async fn system(State(context): State<Arc<PageContext>>, headers: HeaderMap) -> Response {
    Live::System.respond(context, &headers).await
}

async fn absent(State(context): State<Arc<PageContext>>) -> Response {
    let text = "There is nothing at this address. Records are shown only with `show_records = true` \
                in `[status]` of the configuration.";
    NotShown::new(StatusCode::NOT_FOUND, text).page(&context)
}

fn asset(kind: &'static str, text: &'static str) -> MethodRouter<Arc<PageContext>> {
    get(([(header::CONTENT_TYPE, kind)], text))
}
