//! The routes that read: six triggers, customer search, both pings and the custom fields.
//!
//! What the contract does not show is answered plainly: `limit` outside 1 to 100 is brought
//! inside, anything but an integer is a 422; a form without custom fields has `[]`.

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sandbox;
use super::envelope::Refusal;
use super::gate::Caller;
use super::keys::Provider;
use super::route::Route;

const DEFAULT_LIMIT: i64 = 50;
const MOST_LIMIT: i64 = 100;
const MOST_FOUND: usize = 25;
const LONGEST_TERM: usize = 100;
const WORKSPACE: &str = "Northside Device Repair (sandbox)";

pub(super) fn routes() -> Router<Sandbox> {
    Router::new()
        .route("/automation/ping", get(automation_ping))
        .route("/automation/triggers/{route}", get(trigger))
        .route("/automation/search/customers", get(search))
        .route("/integrations/ping", get(ping))
        .route("/integrations/custom-fields", get(custom_fields))
}

fn automation_only(caller: Caller) -> Result<(), Refusal> {
    if caller.provider == Provider::Automation {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "integration_not_permitted",
        "The automation routes need an automation key.",
    ))
}

fn array(page: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], page).into_response()
}

#[derive(Deserialize)]
struct Limit {
    limit: Option<String>,
}

async fn trigger(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    Path(route): Path<String>,
    Query(query): Query<Limit>,
) -> Result<Response, Refusal> {
    automation_only(caller)?;
    let route = Route::ALL.into_iter().find(|known| known.segment() == route);
    let route = route.ok_or_else(not_found)?;
    let limit = match query.limit.as_deref() {
        None | Some("") => DEFAULT_LIMIT,
        Some(text) => {
            let number: i64 = text
                .parse()
                .map_err(|_| Refusal::field("limit", "The limit must be an integer."))?;
            number.clamp(1, MOST_LIMIT)
        }
    };
    let limit = usize::try_from(limit).expect("a limit between 1 and 100");
    Ok(array(sandbox.grown().records.page(route, caller.business, limit)))
}

#[derive(Deserialize)]
struct Term {
    search_term: Option<String>,
}

async fn search(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<Term>,
) -> Result<Response, Refusal> {
    automation_only(caller)?;
    let term = query.search_term.unwrap_or_default();
    let term = term.trim();
    if term.is_empty() {
        return Err(Refusal::field("search_term", "The search term is required."));
    }
    if term.chars().count() > LONGEST_TERM {
        let message = "The search term may not be longer than 100 characters.";
        return Err(Refusal::field("search_term", message));
    }
    let names = ["name", "email", "mobile_number"];
    let mut inner = sandbox.grown();
    Ok(array(inner.records.search(Route::Customers, caller.business, &names, term, MOST_FOUND)))
}

async fn automation_ping(Extension(caller): Extension<Caller>) -> Result<Json<Value>, Refusal> {
    automation_only(caller)?;
    Ok(ping(Extension(caller)).await)
}

async fn ping(Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(json!({
        "status": "connected",
        "workspace": WORKSPACE,
        "provider": caller.provider,
    }))
}

#[derive(Deserialize)]
struct Form {
    form_type: Option<String>,
}

fn definitions(form: &str) -> Value {
    let field = |name: &str, kind: &str, options: Value| json!({"field_name": name, "type": kind, "placeholder": Value::Null, "options": options});
    match form {
        "Lead" => json!([
            field("How did you hear of us?", "select", json!(["Website", "Referral", "Other"])),
            field("Urgent", "checkbox", json!([])),
        ]),
        "Job" => json!([
            field("Backup wanted", "checkbox", json!([])),
            field("Passcode given", "text", json!([])),
        ]),
        "Customer" => json!([field("VAT", "group", json!([])), field("Tags", "tags", json!([]))]),
        _ => json!([]),
    }
}

async fn custom_fields(Query(query): Query<Form>) -> Json<Value> {
    Json(match query.form_type.as_deref() {
        None | Some("") => json!({"form_types": ["Lead", "Customer", "Job"]}),
        Some(form) => json!({"fields": definitions(form)}),
    })
}

/// The answer to a path the contract does not know.
pub(super) fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "There is no such route.")
}

/// The answer to a method the route does not take.
pub(super) fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "The route does not take this method.",
    )
}
