//! The gate in front of every route under `/api`: host, key, rate, business, faults, headers.
//!
//! Invariant: every answer carries the request id, both rate headers, the business
//! and the mark of the sandbox; every refusal has the contract's error body.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::envelope::{self, Refusal};
use super::fault::{FaultKind, NotOfWorkspace};
use super::handle::Sandbox;
use super::keys::{self, KeyFault, Provider};
use super::requests::Received;
use super::state::Inner;

/// The largest answer that a fault changes; pages are far smaller.
const MAX_SPOILT: usize = 16 * 1024 * 1024;

/// The client of a request, for the handlers.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) provider: Provider,
    pub(super) integration: u32,
    /// The business of the header, or the default one.
    pub(super) business: i64,
    pub(super) request_id: String,
}

/// The business of an answer whose body named another than its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Business(pub(super) i64);

struct Admission {
    request_id: String,
    key: Option<String>,
    limit: u32,
    remaining: u32,
    business: i64,
    outcome: Result<(Caller, Option<FaultKind>), Refusal>,
}

/// Passes a request to its handler, or answers it here.
pub(super) async fn pass(
    State(sandbox): State<Sandbox>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = label(request.uri().path()).to_owned();
    let now = Instant::now();
    let path = request.uri().path();
    let path = path.strip_prefix("/api").unwrap_or(path);
    let carried = keys::carried(path, request.uri().query(), request.headers());
    let admission = admit(
        &mut sandbox.lock(),
        request.headers(),
        carried.as_deref(),
        &route,
        now,
    );
    let Admission {
        request_id,
        key,
        limit,
        remaining,
        business,
        outcome,
    } = admission;
    let (mut response, fault) = match outcome {
        Err(refusal) => (refusal.into_response(), false),
        Ok((caller, fault)) => {
            request.extensions_mut().insert(caller);
            let faulty = fault.is_some();
            (answer(fault, request, next).await, faulty)
        }
    };
    let refusal = response.extensions().get::<Refusal>().cloned();
    let named = response.extensions().get().map(|Business(id)| *id);
    let named = named.or_else(|| refusal.as_ref()?.business);
    let business = named.unwrap_or(business);
    let is_of_workspace = response.extensions().get::<NotOfWorkspace>().is_none();
    let unreadable = if is_of_workspace {
        unreadable(response.status())
    } else {
        None
    };
    let mut response = match refusal.or(unreadable) {
        Some(refusal) => {
            let mut finished = envelope::finish(&refusal, &request_id);
            if let Some(allowed) = response.headers_mut().remove(header::ALLOW) {
                finished.headers_mut().insert(header::ALLOW, allowed);
            }
            finished
        }
        None => response,
    };
    if is_of_workspace {
        let headers = response.headers_mut();
        headers.insert("x-ratelimit-limit", limit.into());
        headers.insert("x-ratelimit-remaining", remaining.into());
        headers.insert("x-business", business.into());
        headers.insert("x-sandbox", HeaderValue::from_static("true"));
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            headers.insert("x-request-id", id);
        }
    }
    let status = response.status().as_u16();
    let mut inner = sandbox.lock();
    let elapsed_s = inner.elapsed(now).as_secs_f64();
    inner.log.answered(Received {
        elapsed_s,
        route,
        key,
        business,
        status,
        request_id,
        fault,
    });
    response
}

async fn answer(fault: Option<FaultKind>, request: Request, next: Next) -> Response {
    let Some(fault) = fault else {
        return next.run(request).await;
    };
    let delay = fault.delay();
    if delay > Duration::ZERO {
        tokio::time::sleep(delay).await;
    }
    if let Some(response) = fault.instead() {
        return response;
    }
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (head, body) = response.into_parts();
    let page = to_bytes(body, MAX_SPOILT).await.unwrap_or_default();
    fault.spoil(Response::from_parts(head, axum::body::Body::empty()), &page)
}

fn admit(
    inner: &mut Inner,
    headers: &HeaderMap,
    carried: Option<&str>,
    route: &str,
    now: Instant,
) -> Admission {
    let limit = inner.requests_per_minute;
    let request_id = inner.next_request_id();
    let business = business(inner.businesses, headers);
    let mut admission = Admission {
        request_id,
        key: None,
        limit,
        remaining: limit,
        business: business.as_ref().map_or(inner.businesses[0], |id| *id),
        outcome: Err(Refusal::scripted(StatusCode::PRECONDITION_FAILED, None)),
    };
    if on_standard_host(inner.standard_host.as_deref(), headers) {
        inner.log.arrived(None, now);
        return admission;
    }
    let clock = inner.now();
    let key = match inner.keys.of(carried, clock) {
        Ok(key) => key,
        Err(fault) => {
            inner.log.arrived(None, now);
            admission.outcome = Err(unauthorised(fault));
            return admission;
        }
    };
    let verdict = key.window.admit(now, limit);
    let (provider, integration) = (key.provider, key.integration);
    inner.log.arrived(Some(&key.name), now);
    admission.key = Some(key.name.clone());
    admission.remaining = verdict.remaining;
    admission.outcome = match (verdict.refused, business) {
        (Some(wait), _) => {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let retry_after = Some(seconds.max(1).to_string());
            Err(Refusal::scripted(
                StatusCode::TOO_MANY_REQUESTS,
                retry_after,
            ))
        }
        (None, Err(refusal)) => Err(refusal),
        (None, Ok(business)) => {
            let request_id = admission.request_id.clone();
            let caller = Caller {
                provider,
                integration,
                business,
                request_id,
            };
            Ok((caller, inner.script.take(route)))
        }
    };
    admission
}

/// The refusal for a request whose path or query could not be read at all.
fn unreadable(status: StatusCode) -> Option<Refusal> {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let message = "The body may not be larger than 1 MiB.";
        return Some(Refusal::new(status, "payload_too_large", message));
    }
    let message = "The path or the query cannot be read, or names a parameter twice.";
    status
        .is_client_error()
        .then(|| Refusal::field("query", message))
}

fn on_standard_host(standard: Option<&str>, headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|value| value.to_str().ok());
    let name = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
    match (standard, name) {
        (Some(standard), Some(name)) => standard.eq_ignore_ascii_case(name),
        _ => false,
    }
}

fn unauthorised(fault: KeyFault) -> Refusal {
    let (code, message) = match fault {
        KeyFault::Missing => ("missing_api_key", "Send the API key as a bearer token."),
        KeyFault::Unknown => ("invalid_api_key", "The API key is not valid."),
        KeyFault::Disabled => ("api_key_disabled", "The API key is disabled."),
        KeyFault::Expired => ("api_key_expired", "The API key has expired."),
    };
    Refusal::new(StatusCode::UNAUTHORIZED, code, message)
}

fn business(known: &[i64], headers: &HeaderMap) -> Result<i64, Refusal> {
    let Some(value) = headers.get("x-business") else {
        return Ok(known[0]);
    };
    let id = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    id.filter(|id| known.contains(id))
        .ok_or_else(Refusal::unknown_business)
}

/// The name of a path under `/api` in faults and in the log; never includes a key from the path.
fn label(path: &str) -> &str {
    let path = path.strip_prefix("/api").unwrap_or(path);
    match path {
        "/automation/ping" => "automation-ping",
        "/automation/search/customers" => "search",
        _ => {
            let mut segments = path.split('/').filter(|segment| !segment.is_empty());
            match (segments.next(), segments.next(), segments.next()) {
                (Some("automation"), Some("triggers"), Some(route)) => route,
                (Some("integrations"), Some(route), _) => route,
                _ => "unknown",
            }
        }
    }
}
