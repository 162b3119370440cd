//! Why an address shows nothing, in a sentence.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

use super::context::PageContext;
use super::frame::framed;
use super::text::message;
use crate::store::QueryError;

/// The answer of an address that shows nothing.
#[derive(Debug)]
pub(super) struct NotShown {
    code: StatusCode,
    text: String,
}

impl NotShown {
    pub(super) fn new(code: StatusCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// The page of the sentence, in place of what was asked for.
    pub(super) fn page(&self, context: &PageContext) -> Response {
        let body = html! {
            section {
                h1 { "Not shown" }
                p { (message(&self.text)) }
                p { a href="." { "Home" } ", " a href="reports" { "all reports" } }
            }
        };
        (self.code, framed(context, "Not shown", "", &body)).into_response()
    }
}

impl<E: Into<QueryError>> From<E> for NotShown {
    fn from(error: E) -> Self {
        let text = format!("The mirror cannot be read: {}.", error.into());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}
