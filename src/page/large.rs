//! Large answers: as many as fit into a fixed part of the memory, however slowly they are read.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An answer of this size or less is not counted.
const SMALL_KIB: u64 = 1024;
/// What all large answers may take that are being read.
const ALL_KIB: u32 = 64 * 1024;
/// Seconds after which a reader that found no room may try again.
const RETRY_S: &str = "15";

/// The room of all large answers.
#[derive(Clone)]
pub(super) struct Large(Arc<Semaphore>);

impl Default for Large {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL_KIB as usize)))
    }
}

/// The room that the answer of one connection takes. It is given back when the connection ends.
#[derive(Clone, Default)]
pub(super) struct Taken(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// Lets an answer pass if there is room for it.
pub(super) async fn bounded(large: Large, taken: Taken, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let kib = response.body().size_hint().exact().unwrap_or_default() / 1024;
    if kib <= SMALL_KIB {
        return response;
    }
    let wanted = u32::try_from(kib).unwrap_or(ALL_KIB).min(ALL_KIB);
    match large.0.try_acquire_many_owned(wanted) {
        Ok(permit) => {
            *taken.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
            response
        }
        Err(_) => {
            let text = "too many large pages are being read; try again in a moment\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_S)], text)
                .into_response()
        }
    }
}
