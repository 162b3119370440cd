//! The portal's key settings: make, list, reveal, change, rotate and revoke.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Problem, Sent};
use crate::handle::Sandbox;
use crate::keys::{KEY_PREFIX, Provider};
use crate::state::Inner;

/// The most keys.
const MAX_KEYS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    key: Option<String>,
    provider: Provider,
    name: Option<String>,
}

pub(super) async fn make(
    State(sandbox): State<Sandbox>,
    Sent(new): Sent<NewKey>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let mut inner = sandbox.lock();
    if inner.keys.iter().count() >= MAX_KEYS {
        let message = format!("there are {MAX_KEYS} keys: revoke one first");
        return Err(Problem(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    let key = new.key.unwrap_or_else(|| inner.fresh_key());
    let name = new.name.unwrap_or_else(|| "added".to_owned());
    let integration = inner.keys.put(key.clone(), name, new.provider);
    inner.changed();
    Ok((
        StatusCode::CREATED,
        Json(json!({"key": key, "integration": integration})),
    ))
}

pub(super) async fn list(State(sandbox): State<Sandbox>) -> Json<Value> {
    Json(Value::Array(listed(&sandbox.lock())))
}

/// Every key with its end hidden.
pub(super) fn listed(inner: &Inner) -> Vec<Value> {
    let row = |(text, key): (&str, &crate::keys::Key)| {
        let shown: String = text.chars().take(KEY_PREFIX.len() + 4).collect();
        json!({
            "integration": key.integration,
            "name": key.name,
            "provider": key.provider,
            "key": format!("{shown}…"),
            "disabled": key.disabled,
            "expires_at": key.expires_at,
            "signing_secret": key.signing_secret.is_some(),
        })
    };
    inner.keys.iter().map(row).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    integration: u32,
}

pub(super) async fn reveal(
    State(sandbox): State<Sandbox>,
    Sent(which): Sent<Which>,
) -> Result<Json<Value>, Problem> {
    let inner = sandbox.lock();
    let key = inner.keys.text_of(which.integration).ok_or_else(unknown)?;
    Ok(Json(json!({"key": key})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    key: String,
    disabled: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    expires_at: Option<Option<Timestamp>>,
    #[serde(default, deserialize_with = "present")]
    signing_secret: Option<Option<String>>,
}

/// Distinguishes a null field from an absent one.
pub(super) fn present<'de, D, T>(input: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(input).map(Some)
}

pub(super) async fn change(
    State(sandbox): State<Sandbox>,
    Sent(change): Sent<Change>,
) -> Result<Json<Value>, Problem> {
    let mut inner = sandbox.lock();
    let key = inner.keys.get_mut(&change.key).ok_or_else(unknown)?;
    if let Some(disabled) = change.disabled {
        key.disabled = disabled;
    }
    if let Some(moment) = change.expires_at {
        key.expires_at = moment;
    }
    if let Some(secret) = change.signing_secret {
        key.signing_secret = secret;
    }
    let told = json!({"disabled": key.disabled, "expires_at": key.expires_at});
    inner.changed();
    Ok(Json(told))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rotation {
    key: String,
}

pub(super) async fn rotate(
    State(sandbox): State<Sandbox>,
    Sent(old): Sent<Rotation>,
) -> Result<Json<Value>, Problem> {
    let mut inner = sandbox.lock();
    let new = inner.fresh_key();
    if !inner.keys.rotate(&old.key, new.clone()) {
        return Err(unknown());
    }
    inner.renamed(&old.key, &new);
    Ok(Json(json!({"key": new})))
}

pub(super) async fn revoke(
    State(sandbox): State<Sandbox>,
    Sent(old): Sent<Rotation>,
) -> Result<Json<Value>, Problem> {
    let mut inner = sandbox.lock();
    if !inner.keys.revoke(&old.key) {
        return Err(unknown());
    }
    inner.changed();
    Ok(Json(json!({"revoked": true})))
}

fn unknown() -> Problem {
    Problem(
        StatusCode::NOT_FOUND,
        "the sandbox has no such key".to_owned(),
    )
}
