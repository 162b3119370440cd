//! Why an address shows nothing, in a sentence. The guard makes it a page for people, and text or JSON for
//! programs.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::text::shown;
use crate::store::{QueryError, StoreError};

/// The answer of an address that shows nothing.
#[derive(Debug, Clone)]
pub(super) struct NotShown {
    pub(super) code: StatusCode,
    pub(super) text: String,
}

impl NotShown {
    pub(super) fn new(code: StatusCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(super) fn absent(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    pub(super) fn busy() -> Self {
        let text = "Too many requests are being answered: try again in a few seconds.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

/// What is wrong with what was asked.
impl From<String> for NotShown {
    fn from(text: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<QueryError> for NotShown {
    fn from(error: QueryError) -> Self {
        let text = format!("The records cannot be listed: {error}.");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<StoreError> for NotShown {
    fn from(error: StoreError) -> Self {
        QueryError::from(error).into()
    }
}

/// The sentence as text, which the guard may replace.
impl IntoResponse for NotShown {
    fn into_response(self) -> Response {
        let mut response = (self.code, format!("{}\n", shown(&self.text))).into_response();
        response.extensions_mut().insert(self);
        response
    }
}
