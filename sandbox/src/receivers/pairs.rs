//! Form bodies as pairs of name and value: urlencoded, multipart, or a query string.
//!
//! A name that occurs more than once has its values joined by commas, as choices are.

use axum::body::Body;
use axum::extract::{FromRequest, Multipart};
use axum::http::{Request, header};
use serde_json::{Map, Value};

use super::Payload;
use crate::envelope::Refusal;

/// The fields of a form-encoded or multipart body.
pub(super) async fn of_body(payload: &Payload) -> Result<Map<String, Value>, Refusal> {
    let kind = payload.content_type().to_ascii_lowercase();
    if kind.starts_with("application/x-www-form-urlencoded") {
        return Ok(of_text(&payload.body));
    }
    if kind.starts_with("multipart/form-data") {
        return multipart(payload).await;
    }
    Err(Refusal::unreadable(
        "The body must be form-encoded or multipart.",
    ))
}

/// The fields of a urlencoded text.
pub(super) fn of_text(text: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in url::form_urlencoded::parse(text) {
        add(&mut fields, &name, &value);
    }
    fields
}

async fn multipart(payload: &Payload) -> Result<Map<String, Value>, Refusal> {
    let broken = || Refusal::unreadable("The multipart body cannot be read.");
    let request = Request::builder()
        .header(header::CONTENT_TYPE, payload.content_type())
        .body(Body::from(payload.body.clone()))
        .map_err(|_| broken())?;
    let mut parts = Multipart::from_request(request, &())
        .await
        .map_err(|_| broken())?;
    let mut fields = Map::new();
    while let Some(part) = parts.next_field().await.map_err(|_| broken())? {
        let name = part.name().unwrap_or_default().to_owned();
        let file = part.file_name().map(str::to_owned);
        let bytes = part.bytes().await.map_err(|_| broken())?;
        // A file is not kept, only its name.
        let value = file.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned());
        add(&mut fields, &name, &value);
    }
    Ok(fields)
}

fn add(fields: &mut Map<String, Value>, name: &str, value: &str) {
    let name = name.strip_suffix("[]").unwrap_or(name);
    if name.is_empty() {
        return;
    }
    match fields.get_mut(name) {
        Some(Value::String(present)) => {
            present.push(',');
            present.push_str(value);
        }
        _ => {
            fields.insert(name.to_owned(), value.into());
        }
    }
}
