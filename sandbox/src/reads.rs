//! The routes that read: six triggers, customer search, both pings and the custom fields.
//!
//! Where the contract is silent: `limit` outside 1 to 100 is brought into the
//! range, anything but an integer is a 422; a form without custom fields has `[]`.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::Refusal;
use super::gate::Caller;
use super::handle::Sandbox;
use super::keys::Provider;
use super::route::Route;
use super::write::any_but_marketplaces;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 100;
const MAX_FOUND: usize = 25;
const MAX_TERM: usize = 100;

fn automation_only(caller: &Caller) -> Result<(), Refusal> {
    if caller.provider == Provider::Automation {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "The automation routes need an automation key.",
    ))
}

fn array(page: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], page).into_response()
}

#[derive(Deserialize)]
pub(super) struct Limit {
    limit: Option<String>,
}

pub(super) async fn trigger(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    Query(query): Query<Limit>,
) -> Result<Response, Refusal> {
    automation_only(&caller)?;
    let segment = uri.path().rsplit('/').next();
    let route = Route::ALL
        .into_iter()
        .find(|known| Some(known.segment()) == segment);
    let route = route.ok_or_else(|| not_found(&uri))?;
    let limit = match query.limit.as_deref() {
        None | Some("") => DEFAULT_LIMIT,
        Some(text) => {
            let number: i64 = text
                .parse()
                .map_err(|_| Refusal::field("limit", "The limit must be an integer."))?;
            number.clamp(1, MAX_LIMIT)
        }
    };
    let limit = usize::try_from(limit).expect("a limit between 1 and 100");
    Ok(array(sandbox.grown().records.page(
        route,
        caller.business,
        limit,
    )))
}

#[derive(Deserialize)]
pub(super) struct Term {
    search_term: Option<String>,
}

pub(super) async fn search(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<Term>,
) -> Result<Response, Refusal> {
    automation_only(&caller)?;
    let term = query.search_term.unwrap_or_default();
    let term = term.trim();
    if term.is_empty() {
        return Err(Refusal::field(
            "search_term",
            "The search term is required.",
        ));
    }
    if term.chars().count() > MAX_TERM {
        let message = "The search term may not be longer than 100 characters.";
        return Err(Refusal::field("search_term", message));
    }
    let names = ["name", "email", "mobile_number"];
    let mut inner = sandbox.grown();
    Ok(array(inner.records.search(
        Route::Customers,
        caller.business,
        &names,
        term,
        MAX_FOUND,
    )))
}

pub(super) async fn automation_ping(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Refusal> {
    automation_only(&caller)?;
    Ok(connected(&sandbox, &caller))
}

pub(super) async fn ping(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Refusal> {
    any_but_marketplaces(&caller)?;
    Ok(connected(&sandbox, &caller))
}

fn connected(sandbox: &Sandbox, caller: &Caller) -> Json<Value> {
    Json(json!({
        "status": "connected",
        "workspace": sandbox.lock().workspace_name,
        "provider": caller.provider,
    }))
}

#[derive(Deserialize)]
pub(super) struct FormType {
    form_type: Option<String>,
}

pub(super) async fn custom_fields(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<FormType>,
) -> Result<Json<Value>, Refusal> {
    any_but_marketplaces(&caller)?;
    let definitions = &sandbox.lock().intake.definitions;
    Ok(Json(match query.form_type.as_deref() {
        None | Some("") => json!({"form_types": definitions.keys().collect::<Vec<_>>()}),
        Some(form) => json!({"fields": definitions.get(form).map_or(&[][..], Vec::as_slice)}),
    }))
}

/// The answer to a path that is not in the contract.
pub(super) fn not_found(uri: &Uri) -> Refusal {
    let path = uri.path();
    let path = path.strip_prefix("/api").unwrap_or(path);
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let (first, second) = (segments.next(), segments.next());
    if (first, second) == (Some("integrations"), Some("ingest")) {
        return Refusal::unsupported_adapter();
    }
    let (code, message) = match second {
        Some("integrations" | "automation") => (
            "legacy_path_not_supported",
            "Paths that repeat the workspace are for existing deployments; leave it out.",
        ),
        _ => ("not_found", "There is no such route."),
    };
    Refusal::new(StatusCode::NOT_FOUND, code, message)
}

/// The answer to a method the route does not take.
pub(super) fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "The route does not take this method.",
    )
}
