//! Large answers: as many as fit into a fixed part of the memory, however slowly they are read.

use axum::Extension;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::not_shown::NotShown;
use super::server::{Connection, REQUEST_LIMIT};

/// An answer of this size or less is not counted.
const SMALL_KIB: u64 = 1024;
/// What all large answers may take that are being sent.
pub(super) const ALL_KIB: u32 = 64 * 1024;

/// Lets an answer pass if there is room for it.
pub(super) async fn bounded(
    Extension(connection): Extension<Connection>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let kib = response.body().size_hint().exact().unwrap_or_default() / 1024;
    if kib <= SMALL_KIB {
        return response;
    }
    let wanted = u32::try_from(kib).unwrap_or(ALL_KIB).min(ALL_KIB);
    match connection.large.try_acquire_many_owned(wanted) {
        Ok(permit) => {
            // Given back when the connection ends, which has one answer.
            let _ = connection.taken.set(permit);
            response
        }
        Err(_) => {
            // By then each of the others is cut off.
            let wait = [(header::RETRY_AFTER, REQUEST_LIMIT.as_secs().to_string())];
            let text =
                "Too many large pages are being sent: try again in a moment, or ask for less.";
            (wait, NotShown::new(StatusCode::SERVICE_UNAVAILABLE, text)).into_response()
        }
    }
}
