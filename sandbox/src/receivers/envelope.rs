//! The submit envelope, and the receivers `canonical` and `form` that carry the same as JSON and
//! as a form.
//!
//! The envelope's own members are checked strictly; the pipeline checks `data`.

use serde_json::{Map, Value};

use super::{Decoded, Payload, destination, object, pairs};
use crate::envelope::Refusal;
use crate::intake::field::Destination;

const MAX_FORM_ID: usize = 191;

/// Reads a submit envelope.
pub(crate) fn read(mut envelope: Map<String, Value>) -> Result<Decoded, Refusal> {
    let data = match envelope.remove("data") {
        Some(Value::Object(data)) => data,
        None | Some(Value::Null) => {
            return Err(Refusal::field("data", "The data field is required."));
        }
        Some(_) => return Err(Refusal::field("data", "The data field must be an object.")),
    };
    let business_id = match envelope.remove("business_id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(id.as_i64().ok_or_else(|| {
            Refusal::field("business_id", "The business_id field must be an integer.")
        })?),
    };
    Ok(Decoded {
        data,
        form_id: form_id(envelope.remove("form_id"))?,
        destination: wanted(envelope.remove("destination"))?,
        business_id,
        derived_key: None,
    })
}

pub(super) fn canonical(payload: &Payload) -> Result<Decoded, Refusal> {
    let envelope = object(&payload.body)?;
    let key = payload.of_the_day(&Value::Object(envelope.clone()).to_string());
    Ok(Decoded {
        derived_key: Some(key),
        ..read(envelope)?
    })
}

pub(super) async fn form(payload: &Payload) -> Result<Decoded, Refusal> {
    let mut data = pairs::of_body(payload).await?;
    let key = payload.of_the_day(&Value::Object(data.clone()).to_string());
    let form_id = form_id(data.remove("form_id"))?;
    let destination = wanted(data.remove("destination"))?;
    Ok(Decoded {
        data,
        form_id,
        destination,
        business_id: None,
        derived_key: Some(key),
    })
}

fn form_id(value: Option<Value>) -> Result<Option<String>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if id.chars().count() <= MAX_FORM_ID => {
            Ok(Some(id).filter(|id| !id.is_empty()))
        }
        Some(Value::String(_)) => {
            let message = "The form_id field may not be longer than 191 characters.";
            Err(Refusal::field("form_id", message))
        }
        Some(_) => Err(Refusal::field(
            "form_id",
            "The form_id field must be a string.",
        )),
    }
}

fn wanted(value: Option<Value>) -> Result<Option<Destination>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name.is_empty() => Ok(None),
        Some(value) => destination(value.as_str().unwrap_or_default()).map(Some),
    }
}
