//! What each address returns, and the headers of every response.

use std::sync::Arc;

use super::access::{Access, Refusal};
use super::context::PageContext;
use super::frame::{Frame, Tab, explained};
use super::large::bounded;
use super::live::Watched;
use super::not_shown::NotShown;
use super::request::Query;
use super::server::Connection;
use super::snapshot::Snapshot;
use super::text::shown;
use super::{find, live, metrics, ready, record, records, repairs, reports};
use crate::report::Range;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};

/// Sent with every response. Nothing but our own style, script and picture is loaded, no other page
/// may frame or read this one, and nothing is kept.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Every address of the page.
pub(super) fn router(access: Access, context: Arc<PageContext>) -> Router {
    let records = Router::new()
        .route("/repairs", get(repairs::list))
        .route("/find", get(find::found))
        .route("/records", get(records::list))
        .route("/record", get(record::one))
        .route("/api/records", get(records::list_json))
        .route("/api/record", get(record::one_json))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&context), only_with_records));
    let guards = (Arc::new(access), Arc::clone(&context));
    Router::new()
        .route("/", get(home))
        .route("/system", get(system))
        .route("/metrics", get(scrape))
        .route("/healthz", get(alive))
        .route("/readyz", get(fresh))
        .route("/api/status", get(status))
        .route("/reports", get(reports::list))
        .route("/report", get(reports::one))
        .route("/api/reports", get(reports::list_json))
        .route("/api/report", get(reports::one_json))
        .merge(records)
        .route("/page.css", get(|| asset("text/css", include_str!("assets/page.css"))))
        .route("/page.js", get(|| asset("text/javascript", include_str!("assets/page.js"))))
        .route("/icon.svg", get(|| asset("image/svg+xml", include_str!("assets/icon.svg"))))
        .fallback(|| async { NotShown::absent("there is nothing at this address") })
        .with_state(context)
        .layer(middleware::from_fn(bounded))
        .layer(middleware::from_fn_with_state(guards, guard))
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
async fn guard(
    State((access, context)): State<(Arc<Access>, Arc<PageContext>)>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    let is_browser = accepts(request.headers(), "text/html");
    let judged = access.judge(request.method(), &uri, request.headers());
    // Who may not read the page is not told the shop's name.
    let may_see_page = judged.is_ok();
    let mut response = match judged {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    };
    if let Some(NotShown { text, .. }) = response.extensions_mut().remove() {
        if uri.path().starts_with("/api/") {
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

fn refused(refusal: Refusal) -> Response {
    let answer = NotShown::new;
    match refusal {
        Refusal::Method => {
            let text = "only GET and HEAD are answered";
            let allow = [(header::ALLOW, "GET, HEAD")];
            (allow, answer(StatusCode::METHOD_NOT_ALLOWED, text)).into_response()
        }
        Refusal::Host => {
            let text = "the page is not known by this name: open it by its address, or add the name to \
                        `hosts` in [status]";
            answer(StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
        Refusal::Origin => {
            let text = "a page of another site may not read this one";
            answer(StatusCode::FORBIDDEN, text).into_response()
        }
        Refusal::Token => {
            let text = "the token is needed: send it as `Authorization: Bearer`, or as the password with \
                        any user name";
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"shopmirror\", charset=\"UTF-8\"")];
            (ask, answer(StatusCode::UNAUTHORIZED, text)).into_response()
        }
    }
}

async fn home(
    State(context): State<Arc<PageContext>>,
    connection: Extension<Connection>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, NotShown> {
    let query = Query::of(&uri);
    query.allow(&["range"])?;
    let range = query.choice("range", &Range::HOME, Range::as_str)?.unwrap_or(Range::Today);
    Ok(watched(context, Watched::Home(range), &headers, connection).await)
}

async fn system(
    State(context): State<Arc<PageContext>>,
    connection: Extension<Connection>,
    headers: HeaderMap,
) -> Response {
    watched(context, Watched::System, &headers, connection).await
}

/// A page that stays current by itself: its script asks the same address for a stream of what changes.
async fn watched(
    context: Arc<PageContext>,
    watched: Watched,
    headers: &HeaderMap,
    Extension(connection): Extension<Connection>,
) -> Response {
    if accepts(headers, "text/event-stream") {
        return live::stream(context, watched, &connection).await;
    }
    let shared = context.snapshot().await;
    let page = live::page(&context, watched, &shared).await;
    let (title, tab) = match watched {
        Watched::Home(_) => ("Home", Tab::Home),
        Watched::System => ("System", Tab::System),
    };
    let frame = Frame { is_live: true, ..Frame::of(title, tab) };
    let code = if shared.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, frame.around(&context, &page.body())).into_response()
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains(kind))
}

async fn scrape(State(context): State<Arc<PageContext>>) -> Result<Response, NotShown> {
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((kind, metrics::text(&*newest(&context).await?)).into_response())
}

/// Alive means that the dispatcher and the store answer, whatever they say.
async fn alive(State(context): State<Arc<PageContext>>) -> Result<&'static str, NotShown> {
    newest(&context).await.map(|_| "alive\n")
}

/// Fresh means that every poller was read in time.
async fn fresh(State(context): State<Arc<PageContext>>) -> Result<Response, NotShown> {
    let hindrances = ready::hindrances(&newest(&context).await?.status);
    if hindrances.is_empty() {
        return Ok("fresh\n".into_response());
    }
    let lines: String = hindrances.iter().map(|why| format!("{}\n", shown(why))).collect();
    Ok((StatusCode::SERVICE_UNAVAILABLE, lines).into_response())
}

/// The same JSON as `shopmirror status --json`.
async fn status(State(context): State<Arc<PageContext>>) -> Result<Response, NotShown> {
    Ok(reports::json(&newest(&context).await?.status))
}

/// The newest snapshot, if the daemon's tasks answer.
async fn newest(context: &PageContext) -> Result<Arc<Snapshot>, NotShown> {
    let text = "the daemon's tasks do not answer: look at its log, restart it";
    let stuck = || NotShown::new(StatusCode::SERVICE_UNAVAILABLE, text);
    context.snapshot().await.ok_or_else(stuck)
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
