//! The error body every refusal carries.
//!
//! A handler refuses with a [`Refusal`]; the gate alone turns it into a body, for only there the
//! request id is known. Invariant: all five members are always present, `message` twice.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A request that is not granted, with the contract's code for it.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    message: String,
    details: Vec<(String, String)>,
    pub(super) retry_after: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: Vec::new(), retry_after: None }
    }

    /// A 422 that names the field at fault.
    pub(super) fn field(field: &str, message: &str) -> Self {
        Self::invalid(vec![(field.to_owned(), message.to_owned())])
    }

    /// A 422 that names each field at fault, with what is wrong with it.
    pub(super) fn invalid(details: Vec<(String, String)>) -> Self {
        let message = "The given data was invalid.";
        Self {
            details,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", message)
        }
    }

    /// A 422 for a payload that is not in the form its receiver expects.
    pub(super) fn unreadable(message: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unreadable_submission", message)
    }

    /// A 422 for a branch that the workspace does not have.
    pub(super) fn unknown_business() -> Self {
        Self::field("business_id", "The business does not exist in this workspace.")
    }

    /// A 404 for a receiver that there is not.
    pub(super) fn unsupported_adapter() -> Self {
        let message = "There is no receiver of that name.";
        Self::new(StatusCode::NOT_FOUND, "unsupported_adapter", message)
    }

    /// A 403 for a key of the wrong kind.
    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "integration_not_permitted", message)
    }

    /// The code's plain meaning for a status that a test asks for.
    pub(super) fn scripted(status: StatusCode, retry_after: Option<String>) -> Self {
        let (code, message) = match status.as_u16() {
            401 => ("invalid_api_key", "The API key is not valid."),
            403 => ("integration_not_permitted", "This key may not be used here."),
            412 => ("use_custom_domain", "Call this workspace on its own domain."),
            423 => ("workspace_locked", "The workspace is locked for the moment."),
            429 => ("too_many_requests", "Too many requests."),
            503 => ("service_unavailable", "The service is not available."),
            _ => ("server_error", "Something went wrong."),
        };
        Self { retry_after, ..Self::new(status, code, message) }
    }

    /// The body, with the id of the request it answers.
    pub(super) fn body(&self, request_id: &str) -> Value {
        let details: Vec<Value> = self
            .details
            .iter()
            .map(|(field, message)| json!({"field": field, "message": message}))
            .collect();
        json!({
            "error": {
                "code": self.code,
                "message": self.message,
                "details": details,
                "request_id": request_id,
                "documentation_url": format!("https://docs.example.com/errors/{}", self.code),
            },
            "message": self.message,
        })
    }
}

impl IntoResponse for Refusal {
    /// A bodiless answer that bears the refusal, for the gate to finish.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The finished answer to a refused request.
pub(super) fn finish(refusal: &Refusal, request_id: &str) -> Response {
    let mut response = (refusal.status, Json(refusal.body(request_id))).into_response();
    if let Some(wait) = refusal.retry_after.as_deref().and_then(|text| text.parse().ok()) {
        response.headers_mut().insert("retry-after", wait);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_all_five_members_and_the_message_twice() {
        let body = Refusal::field("limit", "must be an integer").body("req_1");
        assert_eq!(body["error"]["code"], "validation_failed");
        assert_eq!(
            body["error"]["details"],
            json!([{"field": "limit", "message": "must be an integer"}])
        );
        assert_eq!(body["error"]["request_id"], "req_1");
        assert!(body["error"]["documentation_url"].is_string());
        assert_eq!(body["error"]["message"], body["message"]);
    }
}
