//! The query of an address, read as the parameters of a page. One that has no meaning there gets
//! the program's own page, with what is allowed.

use std::error::Error;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde::de::DeserializeOwned;

use super::context::PageContext;
use super::not_shown::NotShown;
use super::respond::not_shown;
use super::viewer::Viewer;

/// The query of an address.
pub(super) struct Asked<Q>(pub(super) Q);

impl<Q: DeserializeOwned> FromRequestParts<Arc<PageContext>> for Asked<Q> {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<PageContext>,
    ) -> Result<Self, Response> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(query)) => Ok(Self(query)),
            Err(error) => {
                let why = match error.source() {
                    Some(source) => source.to_string(),
                    None => error.to_string(),
                };
                let text = format!("This address asks for what the page does not have: {why}.");
                let why = NotShown::new(StatusCode::BAD_REQUEST, text);
                Err(not_shown(context, &Viewer::of(parts, context), &why))
            }
        }
    }
}
