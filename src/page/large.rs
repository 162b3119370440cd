//! Large answers: as many as fit into a fixed part of the memory, however slowly they are read.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::not_shown::NotShown;
use super::server::REQUEST_LIMIT;

/// An answer of this size or less is not counted.
const SMALL_KIB: u64 = 1024;
/// What all large answers may take that are being sent.
const ALL_KIB: u32 = 64 * 1024;

/// The room of all large answers.
#[derive(Clone)]
pub(super) struct Large(Arc<Semaphore>);

impl Default for Large {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL_KIB as usize)))
    }
}

impl Large {
    /// For the answer of one connection, which gives back what it takes when the connection ends.
    pub(super) fn of_connection(&self) -> RoomForOne {
        RoomForOne { all: self.clone(), taken: Arc::default() }
    }
}

/// Set in a request: the room that its answer can take.
#[derive(Clone)]
pub(super) struct RoomForOne {
    all: Large,
    taken: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// Lets an answer pass if there is room for it.
pub(super) async fn bounded(
    Extension(room): Extension<RoomForOne>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let kib = response.body().size_hint().exact().unwrap_or_default() / 1024;
    if kib <= SMALL_KIB {
        return response;
    }
    let wanted = u32::try_from(kib).unwrap_or(ALL_KIB).min(ALL_KIB);
    match room.all.0.try_acquire_many_owned(wanted) {
        Ok(permit) => {
            *room.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
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
