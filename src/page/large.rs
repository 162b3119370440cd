//! Large answers: as many as fit into a fixed part of the memory, however slowly they are read.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

/// Makes a page of a sentence, for a reader whose page was refused.
pub(super) type Explain = Arc<dyn Fn(StatusCode, &str) -> Response + Send + Sync>;

/// Lets an answer pass if there is room for it.
pub(super) async fn bounded(
    State(explain): State<Explain>,
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
            let code = StatusCode::SERVICE_UNAVAILABLE;
            let text =
                "Too many large pages are being sent: try again in a moment, or ask for less.";
            if is_page(&response) {
                (wait, explain(code, text)).into_response()
            } else {
                (code, wait, format!("{text}\n")).into_response()
            }
        }
    }
}

/// Whether a person reads it: a table or JSON goes to a program.
fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}
