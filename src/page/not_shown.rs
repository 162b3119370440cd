//! Why an address shows nothing, in a sentence. How that looks is in `respond`.

use axum::http::StatusCode;

use crate::store::QueryError;

/// The reason that an address shows nothing.
#[derive(Debug)]
pub(super) struct NotShown {
    pub(super) code: StatusCode,
    /// A sentence with what to do.
    pub(super) text: String,
}

impl NotShown {
    pub(super) fn new(code: StatusCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl<E: Into<QueryError>> From<E> for NotShown {
    fn from(error: E) -> Self {
        let text = format!("The mirror cannot be read: {}.", error.into());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}
