//! The portal's intake settings: custom fields, forms, the delivery log and its retries.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Problem, Sent};
use crate::envelope;
use crate::handle::Sandbox;
use crate::intake::field::Destination;
use crate::intake::form::{Duplicates, Form};
use crate::intake::ledger::Delivery;
use crate::intake::{Definition, FIRST_CHECKIN};
use crate::state::Inner;

/// Forms, and form types with custom fields, at most.
const MAX_FORMS: usize = 1_000;

fn refused(message: impl Into<String>) -> Problem {
    Problem(StatusCode::UNPROCESSABLE_ENTITY, message.into())
}

pub(super) async fn custom_fields(State(sandbox): State<Sandbox>) -> Json<Value> {
    Json(json!(sandbox.lock().intake.definitions))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defined {
    form_type: String,
    fields: Vec<Definition>,
}

pub(super) async fn define(
    State(sandbox): State<Sandbox>,
    Sent(defined): Sent<Defined>,
) -> Result<Json<Value>, Problem> {
    let mut inner = sandbox.lock();
    if inner.intake.definitions.len() >= MAX_FORMS {
        return Err(refused("there are too many form types"));
    }
    if defined.fields.is_empty() {
        inner.intake.definitions.remove(&defined.form_type);
    } else {
        inner
            .intake
            .definitions
            .insert(defined.form_type, defined.fields);
    }
    inner.changed();
    Ok(Json(json!(inner.intake.definitions)))
}

pub(super) async fn forms(State(sandbox): State<Sandbox>) -> Json<Value> {
    Json(Value::Array(listed_forms(&sandbox.lock())))
}

/// Every configured form.
pub(super) fn listed_forms(inner: &Inner) -> Vec<Value> {
    let row = |((integration, form_id), form): (&(u32, String), &Form)| {
        json!({
            "integration": integration,
            "form_id": form_id,
            "map": form.map,
            "destination": form.destination,
            "active": form.active,
            "duplicates": form.duplicates,
        })
    };
    inner.intake.forms.iter().map(row).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Configured {
    integration: u32,
    form_id: String,
    #[serde(default)]
    map: Option<BTreeMap<String, String>>,
    #[serde(default)]
    destination: Option<Destination>,
    #[serde(default)]
    active: bool,
    #[serde(default)]
    duplicates: Duplicates,
}

/// Configures a form. An active one retries what was parked for it (contract, receivers 2).
pub(super) async fn configure(
    State(sandbox): State<Sandbox>,
    Sent(sent): Sent<Configured>,
) -> Result<Json<Value>, Problem> {
    let mut inner = sandbox.grown();
    if inner.keys.of_integration(sent.integration).is_none() {
        return Err(Problem(
            StatusCode::NOT_FOUND,
            "there is no such integration".to_owned(),
        ));
    }
    if inner.intake.forms.len() >= MAX_FORMS {
        return Err(refused("there are too many forms"));
    }
    let Configured {
        map,
        destination,
        active,
        duplicates,
        ..
    } = sent;
    let form = Form {
        map,
        destination,
        active,
        duplicates,
    };
    let place = (sent.integration, sent.form_id.clone());
    inner.intake.forms.insert(place, form);
    if active {
        inner.retry_parked(sent.integration, &sent.form_id);
    }
    inner.changed();
    Ok(Json(Value::Array(listed_forms(&inner))))
}

/// The delivery log, oldest first.
pub(super) async fn deliveries(State(sandbox): State<Sandbox>) -> Json<Value> {
    Json(
        sandbox
            .lock()
            .intake
            .ledger
            .deliveries()
            .map(listed_delivery)
            .collect(),
    )
}

/// A delivery without what was submitted.
pub(super) fn listed_delivery(delivery: &Delivery) -> Value {
    let submission = delivery.submission.as_ref();
    json!({
        "id": delivery.id,
        "request_id": delivery.request_id,
        "at": format!("{:.6}", delivery.at),
        "key": delivery.key,
        "route": delivery.route,
        "form_id": submission.and_then(|sent| sent.form_id.as_deref()),
        "status": delivery.http,
        "outcome": delivery.outcome,
        "record": delivery.made,
        "can_be_retried": submission.is_some(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    id: u64,
    destination: Option<Destination>,
}

/// Answers as the route would, with the delivery's own request id.
pub(super) async fn retry(
    State(sandbox): State<Sandbox>,
    Sent(retry): Sent<Retry>,
) -> Result<Response, Problem> {
    let mut inner = sandbox.grown();
    let known = inner
        .intake
        .ledger
        .deliveries()
        .find(|delivery| delivery.id == retry.id);
    let request_id = known.map(|delivery| delivery.request_id.clone());
    match (request_id, inner.retry(retry.id, retry.destination)) {
        (Some(_), Some(Ok(outcome))) => Ok(outcome.into_response()),
        (Some(id), Some(Err(refusal))) => Ok(envelope::finish(&refusal, &id)),
        (Some(_), None) => {
            let message = "the delivery could not be read, so there is nothing to submit again";
            Err(Problem(StatusCode::CONFLICT, message.to_owned()))
        }
        (None, _) => {
            let message = "there is no such delivery; GET /_sandbox/deliveries lists them";
            Err(Problem(StatusCode::NOT_FOUND, message.to_owned()))
        }
    }
}

/// Self check-ins as staff see them, the device password included.
pub(super) async fn checkins(State(sandbox): State<Sandbox>) -> Json<Value> {
    let inner = sandbox.grown();
    let shown = inner
        .intake
        .checkins
        .iter()
        .enumerate()
        .map(|(index, checkin)| {
            let mut shown = inner.shown_checkin(FIRST_CHECKIN + index as u64);
            shown["device_password"] = json!(checkin.device_password);
            shown["business_id"] = checkin.business.into();
            shown["open"] = checkin.open.into();
            shown
        });
    Json(shown.collect())
}
