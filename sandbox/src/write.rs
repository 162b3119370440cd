//! The routes that create: leads, self check-ins, submit and the receivers.
//!
//! Each turns its request into a submission for the pipeline; none of the rules for a
//! record are here.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use super::envelope::Refusal;
use super::gate::{Business, Caller};
use super::handle::Sandbox;
use super::intake::field::Destination;
use super::intake::{How, Submission};
use super::pipeline::Outcome;
use super::receivers::{self, Adapter, Decoded, Payload, object};

const MAX_KEY: usize = 191;

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        let business = Business(self.business);
        let mut response = (self.status, Json(self.envelope())).into_response();
        response.extensions_mut().insert(business);
        response
    }
}

pub(super) async fn leads(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    strict(
        &sandbox,
        &caller,
        &headers,
        &body,
        Destination::Lead,
        "leads",
    )
}

pub(super) async fn self_checkin(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    strict(
        &sandbox,
        &caller,
        &headers,
        &body,
        Destination::SelfCheckin,
        "self-checkin",
    )
}

fn strict(
    sandbox: &Sandbox,
    caller: &Caller,
    headers: &HeaderMap,
    body: &[u8],
    destination: Destination,
    route: &str,
) -> Result<Outcome, Refusal> {
    any_but_marketplaces(caller)?;
    let key = sent_key(headers)?;
    let read = |data: Map<String, Value>| Decoded {
        form_id: data
            .get("form_id")
            .and_then(Value::as_str)
            .map(str::to_owned),
        data,
        destination: Some(destination),
        ..Decoded::default()
    };
    finish(
        sandbox,
        caller,
        How::Strict,
        route,
        key,
        object(body).map(read),
    )
}

pub(super) async fn submit(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    any_but_marketplaces(&caller)?;
    let key = sent_key(&headers)?;
    let pinned = receivers::pinned(query.as_deref().unwrap_or_default());
    let decoded = object(&body)
        .and_then(receivers::read_envelope)
        .and_then(|decoded| {
            Ok(Decoded {
                destination: decoded.destination.or(pinned?),
                ..decoded
            })
        });
    finish(&sandbox, &caller, How::Lenient, "submit", key, decoded)
}

pub(super) async fn ingest(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    Path(adapter): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    receive(
        &sandbox,
        &caller,
        Adapter::named(&adapter)?,
        query,
        headers,
        body,
    )
    .await
}

pub(super) async fn marketplace(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    receive(
        &sandbox,
        &caller,
        Adapter::MarketplaceB2b,
        query,
        headers,
        body,
    )
    .await
}

pub(super) async fn directory(
    State(sandbox): State<Sandbox>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    receive(
        &sandbox,
        &caller,
        Adapter::ListingDirectory,
        query,
        headers,
        body,
    )
    .await
}

async fn receive(
    sandbox: &Sandbox,
    caller: &Caller,
    adapter: Adapter,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Outcome, Refusal> {
    adapter.admit(caller.provider)?;
    let sent = sent_key(&headers)?;
    let (secret, today) = {
        let inner = sandbox.lock();
        let key = inner.keys.of_integration(caller.integration);
        let today = inner.now().strftime("%Y-%m-%d").to_string();
        (key.and_then(|key| key.signing_secret.clone()), today)
    };
    let payload = Payload {
        headers,
        query: query.unwrap_or_default(),
        body,
        today,
    };
    let route = format!("ingest/{}", adapter.name());
    if let Err(refusal) = adapter.verify(secret.as_deref(), &payload) {
        // Without a valid signature, not even a replay is answered.
        return finish(sandbox, caller, adapter.how(), &route, None, Err(refusal));
    }
    let decoded = adapter.decode(&payload).await;
    let derived = decoded
        .as_ref()
        .ok()
        .and_then(|decoded| decoded.derived_key.clone());
    finish(
        sandbox,
        caller,
        adapter.how(),
        &route,
        sent.or(derived),
        decoded,
    )
}

/// Submits what was read, or logs that it could not be read.
fn finish(
    sandbox: &Sandbox,
    caller: &Caller,
    how: How,
    route: &str,
    idempotency_key: Option<String>,
    decoded: Result<Decoded, Refusal>,
) -> Result<Outcome, Refusal> {
    let mut inner = sandbox.grown();
    let known = |id: i64| {
        if inner.businesses.contains(&id) {
            Some(id)
        } else {
            None
        }
    };
    let key = idempotency_key.clone();
    let decoded = decoded.and_then(|decoded| {
        let business = match decoded.business_id {
            None => caller.business,
            Some(id) => known(id).ok_or_else(Refusal::unknown_business)?,
        };
        Ok(Submission {
            integration: caller.integration,
            provider: caller.provider,
            route: route.to_owned(),
            how,
            data: decoded.data,
            form_id: decoded.form_id,
            destination: decoded.destination,
            business,
            idempotency_key,
        })
    });
    match decoded {
        Ok(submission) => inner.submit(submission, &caller.request_id),
        Err(refusal) => {
            let replayed = inner.replay(caller.integration, key.as_deref(), caller.business);
            let outcome = replayed.ok_or(refusal);
            let route = route.to_owned();
            inner.log_delivery(
                &caller.request_id,
                caller.integration,
                route,
                None,
                &outcome,
            );
            outcome
        }
    }
}

/// Refuses keys that work on their own receiver only.
pub(super) fn any_but_marketplaces(caller: &Caller) -> Result<(), Refusal> {
    if caller.provider.is_marketplace() {
        return Err(Refusal::forbidden(
            "A marketplace key works on its own receiver only.",
        ));
    }
    Ok(())
}

/// The idempotency key that the client sent, if any.
fn sent_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
    if text.chars().count() > MAX_KEY {
        let message = "The Idempotency-Key may not be longer than 191 characters.";
        return Err(Refusal::field("Idempotency-Key", message));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}
