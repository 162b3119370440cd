//! What each address returns, and the headers of every response.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Json, Router, body};
use maud::html;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::asked::Asked;
use super::context::PageContext;
use super::frame::framed;
use super::live::Live;
use super::not_shown::NotShown;
use super::rights::Rights;
use super::server::ClientAddress;
use super::sign_in::{Denied, SignIn};
use super::text::{message, shown};
use super::viewer::{Viewer, asks_for_data};
use super::{access, find, metrics, person, record, records, reports, wall};
use crate::config::Role;
use crate::report::{HomeDocument, Range};
use crate::status::WorkspaceStatus;
use crate::store::Reader;

/// Makes a response from the store. It also draws the page there, because drawing takes as long as
/// reading.
type FromStore<Q> = fn(&mut Reader, &PageContext, &Viewer, &Q) -> Result<Response, NotShown>;

/// The headers of every response. Only our own style, script and picture are loaded, no other page
/// may frame or read this one, and nothing is stored by the browser.
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
    let mut router = Router::new()
        .route("/", get(home))
        .route("/system", get(system))
        .route("/wall", get(wall::respond))
        .route("/metrics", from_status(metrics::respond))
        .route("/healthz", from_status(|_| "alive\n".into_response()))
        .route("/readyz", from_status(readiness))
        .route(
            "/api/status",
            from_status(|status| Json(status).into_response()),
        )
        .route("/reports", from_store(reports::list))
        .route("/report", from_report(reports::one))
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
    if context.page.settings.show_records {
        router = router
            .route("/find", from_store(find::found))
            .route("/records", get(list_of_records))
            .route("/records.csv", from_report(records::csv))
            .route("/records.xlsx", from_report(records::excel))
            .route("/record", from_store(record::one))
            .route("/person", from_report(person::one));
    }
    router.with_state(context).layer(guard)
}

/// What a page waits for before it reads the store.
#[derive(Clone, Copy)]
enum Turn {
    /// A turn to read.
    Read,
    /// The one turn of reports as well.
    Report,
}

fn from_store<Q>(make: FromStore<Q>) -> MethodRouter<Arc<PageContext>>
where
    Q: DeserializeOwned + Send + 'static,
{
    in_turn(Turn::Read, make)
}

/// As [`from_store`], for what reads a report.
fn from_report<Q>(make: FromStore<Q>) -> MethodRouter<Arc<PageContext>>
where
    Q: DeserializeOwned + Send + 'static,
{
    in_turn(Turn::Report, make)
}

fn in_turn<Q>(turn: Turn, make: FromStore<Q>) -> MethodRouter<Arc<PageContext>>
where
    Q: DeserializeOwned + Send + 'static,
{
    get(
        async move |State(context): State<Arc<PageContext>>,
                    viewer: Viewer,
                    Asked(query): Asked<Q>| {
            let shown_to = viewer.clone();
            let read = move |reader: &mut Reader, context: &PageContext| {
                make(reader, context, &viewer, &query)
            };
            let response = match turn {
                Turn::Read => context.read(read).await,
                Turn::Report => context.read_report(read).await,
            };
            response.unwrap_or_else(|why| not_shown(&context, &shown_to, &why))
        },
    )
}

async fn list_of_records(
    State(context): State<Arc<PageContext>>,
    viewer: Viewer,
    Asked(query): Asked<records::RecordsQuery>,
) -> Response {
    let response = if query.format == Some(DataFormat::Json) {
        records::data(&context, &viewer, query).await
    } else {
        records::page(&context, &viewer, query).await
    };
    response.unwrap_or_else(|why| not_shown(&context, &viewer, &why))
}

/// A response that is made from the newest status.
fn from_status(make: fn(&WorkspaceStatus) -> Response) -> MethodRouter<Arc<PageContext>> {
    get(
        async move |State(context): State<Arc<PageContext>>, uri: Uri| match context.status().await
        {
            Some(status) => make(&status),
            None => {
                let text = "the daemon's tasks do not answer: look at its log, restart it";
                if asks_for_data(&uri) {
                    return error_as_data(StatusCode::SERVICE_UNAVAILABLE, text);
                }
                (StatusCode::SERVICE_UNAVAILABLE, format!("{text}\n")).into_response()
            }
        },
    )
}

/// A page with the reason, in place of the page that was requested; data for who asks for data.
pub(super) fn not_shown(context: &PageContext, viewer: &Viewer, why: &NotShown) -> Response {
    if viewer.wants_data {
        return error_as_data(why.code, &why.text);
    }
    let body = html! {
        section {
            h1 { "Not shown" }
            p { (message(&why.text)) }
            p { a href="." { "Home" } ", " a href="reports" { "all reports" } }
        }
    };
    let page = framed(context, viewer, "Not shown", "", &body);
    (why.code, page).into_response()
}

/// An error for programs: one shape for every address.
pub(super) fn error_as_data(code: StatusCode, text: &str) -> Response {
    (code, Json(json!({ "error": text }))).into_response()
}

/// `fresh`, or 503 with the reasons.
fn readiness(status: &WorkspaceStatus) -> Response {
    let hindrances = status.hindrances();
    if hindrances.is_empty() {
        return "fresh\n".into_response();
    }
    let mut text = String::new();
    for why in &hindrances {
        text += &shown(why);
        text += "\n";
    }
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// The addresses that hold nothing of this installation.
const FOR_ALL: [&str; 3] = ["/healthz", "/page.css", "/icon.svg"];
/// The most bytes of the form that asks for a token.
const FORM_MAX: usize = 4096;

/// Answers a request if its sender may see what it asks for, and adds the headers.
async fn guard(
    State(context): State<Arc<PageContext>>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    request: Request,
    next: Next,
) -> impl IntoResponse {
    let settings = &context.page.settings;
    let response = match access::refusal(settings, request.method(), request.headers()) {
        Some(refusal) => refusal,
        None => {
            let address = access::client_address(peer, request.headers());
            admit(&context, address, request, next).await
        }
    };
    (HEADERS, response)
}

async fn admit(
    context: &Arc<PageContext>,
    address: IpAddr,
    mut request: Request,
    next: Next,
) -> Response {
    let sign_in = &context.sign_in;
    let path = request.uri().path();
    if FOR_ALL.contains(&path) {
        return next.run(request).await;
    }
    if request.method() == Method::POST && sign_in.is_needed() {
        return submit(sign_in, address, request).await;
    }
    let role = match sign_in.role(request.headers(), address) {
        Ok(role) => role,
        Err(denied) => return sign_in.deny(denied, request.uri(), request.headers()),
    };
    if role == Role::Wall && path == "/" {
        return Redirect::to("./wall").into_response();
    }
    let rights = Rights::new(role, context.page.settings.show_records);
    if !rights.shows_page(path) {
        return sign_in.deny(Denied::OtherRole, request.uri(), request.headers());
    }
    request.extensions_mut().insert(rights);
    let mut response = next.run(request).await;
    *response.status_mut() = rights.code(response.status());
    response
}

/// Answers what the form of a browser sends: a token, or the wish to sign out.
async fn submit(sign_in: &SignIn, address: IpAddr, request: Request) -> Response {
    if request.uri().path() == "/sign-out" {
        return sign_in.sign_out();
    }
    let (head, body) = request.into_parts();
    match body::to_bytes(body, FORM_MAX).await {
        Ok(form) => sign_in.submit(&form, &head.uri, &head.headers, address),
        Err(_) => (StatusCode::PAYLOAD_TOO_LARGE, "send a token\n").into_response(),
    }
}

/// The query of Home.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeQuery {
    range: Option<Range>,
    format: Option<DataFormat>,
}

/// A page as data for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DataFormat {
    Json,
}

async fn home(
    State(context): State<Arc<PageContext>>,
    viewer: Viewer,
    headers: HeaderMap,
    Asked(HomeQuery { range, format }): Asked<HomeQuery>,
) -> Response {
    let range = range
        .filter(|range| Range::HOME.contains(range))
        .unwrap_or(Range::Today);
    if format == Some(DataFormat::Json) {
        return home_numbers(&context, &viewer, range).await;
    }
    Live::Home(range).respond(context, viewer, &headers).await
}

/// The numbers of Home for programs.
async fn home_numbers(context: &Arc<PageContext>, viewer: &Viewer, range: Range) -> Response {
    let Some(home) = context.numbers(range, viewer.rights).await else {
        let text = "The numbers cannot be read now: try again in a few seconds.";
        let why = NotShown::new(StatusCode::SERVICE_UNAVAILABLE, text);
        return not_shown(context, viewer, &why);
    };
    let currency = context.page.reports.currency.as_deref();
    Json(HomeDocument::new(&home, range, currency)).into_response()
}

async fn system(
    State(context): State<Arc<PageContext>>,
    viewer: Viewer,
    headers: HeaderMap,
) -> Response {
    Live::System.respond(context, viewer, &headers).await
}

async fn absent(State(context): State<Arc<PageContext>>, viewer: Viewer) -> Response {
    let text = "There is nothing at this address. Records are shown only with `show_records = \
                true` in `[status]` of the configuration.";
    let why = NotShown::new(StatusCode::NOT_FOUND, text);
    not_shown(&context, &viewer, &why)
}

fn asset(kind: &'static str, text: &'static str) -> MethodRouter<Arc<PageContext>> {
    get(([(header::CONTENT_TYPE, kind)], text))
}
