//! The control API under `/_sandbox`: scripts faults, edits records, shows every record ever made.
//!
//! A thin layer over the methods of [`Sandbox`]. It needs no key, because only loopback can reach
//! it.

mod intake;
mod keys;
mod page;

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::extract::{FromRequest, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::handle::Sandbox;
use super::openapi;
use super::records::{RecordError, Truth};
use super::requests::Requests;
use super::route::Route;

/// The most that one request moves the clock: 31 days.
const MAX_AHEAD_S: u32 = 31 * 86_400;
/// The most records one burst may add.
const MAX_BURST: usize = 100_000;

pub(super) fn routes() -> Router<Sandbox> {
    Router::new()
        .route("/", get(overview))
        .route("/truth", get(truth))
        .route("/requests", get(requests))
        .route("/records", post(add).patch(edit))
        .route("/burst", post(burst))
        .route("/faults", post(fault).delete(clear_faults))
        .route("/pause", post(pause))
        .route(
            "/keys",
            get(keys::list)
                .post(keys::make)
                .patch(keys::change)
                .delete(keys::revoke),
        )
        .route("/keys/rotate", post(keys::rotate))
        .route("/keys/reveal", post(keys::reveal))
        .route(
            "/custom-fields",
            get(intake::custom_fields).put(intake::define),
        )
        .route("/forms", get(intake::forms).put(intake::configure))
        .route("/deliveries", get(intake::deliveries))
        .route("/deliveries/retry", post(intake::retry))
        .route("/checkins", get(intake::checkins))
        .route("/clock", post(clock))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .route("/settings", axum::routing::patch(settings))
        .fallback(async || {
            Problem(
                StatusCode::NOT_FOUND,
                "no such control; see GET /_sandbox/".to_owned(),
            )
        })
}

struct Problem(StatusCode, String);

/// Refuses a host name that is not of this machine, so that no web page can reach the portal by
/// giving its own name a loopback address.
pub(super) async fn only_by_loopback_name(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    let name = host.map(|host| match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    });
    let is_local = |name: &str| {
        let address = name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
        address || name == "localhost" || name.ends_with(".localhost")
    };
    if name.is_none_or(is_local) {
        return next.run(request).await;
    }
    let message = "call the portal by 127.0.0.1, [::1] or localhost";
    Problem(StatusCode::FORBIDDEN, message.to_owned()).into_response()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

/// A JSON body; an unreadable one is refused with the portal's error body.
struct Sent<T>(T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(refused) => Err(Problem(refused.status(), refused.body_text())),
        }
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        let status = match error {
            RecordError::Taken { .. } => StatusCode::CONFLICT,
            RecordError::Unknown { .. } => StatusCode::NOT_FOUND,
            RecordError::Id => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self(status, error.to_string())
    }
}

fn route(name: &str) -> Result<Route, Problem> {
    Route::named(name).ok_or_else(|| {
        let known = Route::ALL.map(Route::segment).join(", ");
        Problem(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("no route {name:?}: one of {known}"),
        )
    })
}

/// The portal: its page if the client accepts HTML, else its state as JSON.
pub(super) async fn overview(State(sandbox): State<Sandbox>, headers: HeaderMap) -> Response {
    let accepted = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains("text/html")) {
        let page = page::render(&sandbox.grown()).into_string();
        return axum::response::Html(page).into_response();
    }
    told(&sandbox).into_response()
}

fn told(sandbox: &Sandbox) -> Json<Value> {
    let inner = sandbox.grown();
    let records: BTreeMap<&str, usize> = Route::ALL
        .into_iter()
        .map(|route| (route.segment(), inner.records.len(route)))
        .collect();
    Json(json!({
        "sandbox": true,
        "automation_key": inner.automation_key,
        "rest_key": inner.rest_key,
        "now": format!("{:.6}", inner.now()),
        "businesses": inner.businesses,
        "requests_per_minute": inner.requests_per_minute,
        "standard_host": inner.standard_host,
        "records": records,
        "requests": inner.log.total(),
        "faults": inner.script.pending(),
    }))
}

#[derive(Deserialize)]
struct Which {
    route: Option<String>,
}

async fn truth(
    State(sandbox): State<Sandbox>,
    Query(which): Query<Which>,
) -> Result<Json<BTreeMap<&'static str, Vec<Truth>>>, Problem> {
    let routes = match which.route.as_deref() {
        None => Route::ALL.to_vec(),
        Some(name) => vec![route(name)?],
    };
    // One lock for all, so that the six lists show the same time.
    let mut inner = sandbox.grown();
    Ok(Json(
        routes
            .into_iter()
            .map(|one| (one.segment(), inner.records.truth(one)))
            .collect(),
    ))
}

async fn requests(State(sandbox): State<Sandbox>) -> Json<Requests> {
    Json(sandbox.requests())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addition {
    route: String,
    business: Option<i64>,
    #[serde(default)]
    record: Map<String, Value>,
}

async fn add(
    State(sandbox): State<Sandbox>,
    Sent(addition): Sent<Addition>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Addition {
        route: name,
        business,
        record,
    } = addition;
    let id = sandbox.add_record(route(&name)?, business, record)?;
    Ok((StatusCode::CREATED, Json(json!({"id": id}))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    route: String,
    id: Value,
    fields: Map<String, Value>,
}

async fn edit(
    State(sandbox): State<Sandbox>,
    Sent(edit): Sent<Edit>,
) -> Result<Json<Value>, Problem> {
    sandbox.edit(route(&edit.route)?, &edit.id, edit.fields)?;
    Ok(Json(json!({"id": edit.id})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Burst {
    route: String,
    count: usize,
    business: Option<i64>,
}

async fn burst(
    State(sandbox): State<Sandbox>,
    Sent(burst): Sent<Burst>,
) -> Result<Json<Value>, Problem> {
    if burst.count > MAX_BURST {
        let message = format!("a burst is of {MAX_BURST} records at most");
        return Err(Problem(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    sandbox.burst_in(route(&burst.route)?, burst.business, burst.count);
    Ok(Json(json!({"added": burst.count})))
}

async fn fault(State(sandbox): State<Sandbox>, Sent(fault): Sent<Fault>) -> Json<Value> {
    sandbox.fault(fault);
    Json(json!({"faults": sandbox.lock().script.pending()}))
}

async fn clear_faults(State(sandbox): State<Sandbox>) -> Json<Value> {
    sandbox.clear_faults();
    Json(json!({"faults": []}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    paused: bool,
}

async fn pause(State(sandbox): State<Sandbox>, Sent(pause): Sent<Pause>) -> Json<Value> {
    sandbox.pause_growth(pause.paused);
    Json(json!({"paused": pause.paused}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    advance_s: u32,
}

async fn clock(
    State(sandbox): State<Sandbox>,
    Sent(ahead): Sent<Move>,
) -> Result<Json<Value>, Problem> {
    if ahead.advance_s > MAX_AHEAD_S {
        let message = "the clock is moved by 31 days at most";
        return Err(Problem(
            StatusCode::UNPROCESSABLE_ENTITY,
            message.to_owned(),
        ));
    }
    sandbox.advance_clock(ahead.advance_s);
    Ok(told(&sandbox))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    requests_per_minute: Option<u32>,
    ids_as_strings: Option<bool>,
    newest_by_change: Option<bool>,
    rival_per_minute: Option<u32>,
    #[serde(default, deserialize_with = "keys::present")]
    standard_host: Option<Option<String>>,
}

async fn settings(State(sandbox): State<Sandbox>, Sent(settings): Sent<Settings>) -> Json<Value> {
    if let Some(limit) = settings.requests_per_minute {
        sandbox.set_requests_per_minute(limit);
    }
    if let Some(yes) = settings.ids_as_strings {
        sandbox.send_ids_as_strings(yes);
    }
    if let Some(yes) = settings.newest_by_change {
        sandbox.list_by_last_change(yes);
    }
    if let Some(per_minute) = settings.rival_per_minute {
        sandbox.set_rival(per_minute);
    }
    if let Some(name) = settings.standard_host {
        sandbox.set_standard_host(name);
    }
    told(&sandbox)
}
