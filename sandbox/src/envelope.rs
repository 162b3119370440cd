//! The error body every refusal carries.
//!
//! A handler refuses with a [`Refusal`]; the gate turns it into a body, because only the gate
//! knows the request id. Invariant: all five members are always present, `message` twice.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A refused request, with the contract's error code.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    message: String,
    details: Vec<(String, String)>,
    pub(super) retry_after: Option<String>,
    /// The business that the refused body names, if it exists.
    pub(super) business: Option<i64>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (details, retry_after, business) = (Vec::new(), None, None);
        Self {
            status,
            code,
            message: message.into(),
            details,
            retry_after,
            business,
        }
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
            ..Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "validation_failed",
                message,
            )
        }
    }

    /// A 422 for a payload that is not in the form its receiver expects.
    pub(super) fn unreadable(message: &str) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unreadable_submission",
            message,
        )
    }

    /// A 422 for a business that the workspace does not have.
    pub(super) fn unknown_business() -> Self {
        Self::field(
            "business_id",
            "The business does not exist in this workspace.",
        )
    }

    /// A 404 for an unknown receiver.
    pub(super) fn unsupported_adapter() -> Self {
        let message = "There is no receiver with this name.";
        Self::new(StatusCode::NOT_FOUND, "unsupported_adapter", message)
    }

    /// A 403 for a key of the wrong kind.
    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "integration_not_permitted", message)
    }

    /// The refusal with this status, for statuses that no rule of a route produces or a test asks
    /// for. A 429 without a wait asks for one second; an empty wait sends no header.
    pub(super) fn scripted(status: StatusCode, retry_after: Option<String>) -> Self {
        let retry_after = match retry_after {
            None if status == StatusCode::TOO_MANY_REQUESTS => Some("1".to_owned()),
            wait => wait.filter(|wait| !wait.is_empty()),
        };
        let (code, message) = match status.as_u16() {
            400 => ("bad_request", "The request cannot be read."),
            401 => ("invalid_api_key", "The API key is not valid."),
            403 => (
                "integration_not_permitted",
                "This key may not be used here.",
            ),
            404 => ("not_found", "There is no such route."),
            405 => ("method_not_allowed", "The route does not take this method."),
            409 => (
                "idempotency_conflict",
                "The Idempotency-Key was used with another body.",
            ),
            412 => (
                "use_custom_domain",
                "Call this workspace on its own domain.",
            ),
            413 => ("payload_too_large", "The body is too large."),
            422 => ("validation_failed", "The given data was invalid."),
            423 => ("workspace_locked", "The workspace is temporarily locked."),
            429 => ("too_many_requests", "Too many requests."),
            503 => ("service_unavailable", "The service is not available."),
            _ => ("server_error", "Something went wrong."),
        };
        Self {
            retry_after,
            ..Self::new(status, code, message)
        }
    }

    /// The same refusal with the business that its answer names.
    pub(super) fn for_business(self, business: i64) -> Self {
        Self {
            business: Some(business),
            ..self
        }
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
    /// An answer without a body that carries the refusal, for the gate to finish.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The finished answer to a refused request.
pub(super) fn finish(refusal: &Refusal, request_id: &str) -> Response {
    let mut response = (refusal.status, Json(refusal.body(request_id))).into_response();
    if let Some(wait) = refusal
        .retry_after
        .as_deref()
        .and_then(|text| text.parse().ok())
    {
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
