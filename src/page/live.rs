//! The live page: a stream of server-sent events, one per snapshot.
//!
//! Every viewer is sent the same bytes. A viewer that reads slowly is sent fewer events: nothing
//! is queued for it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;

use super::context::PageContext;
use super::parts;
use super::server::IsStream;
use super::snapshot::{Follower, SharedSnapshot};

/// Milliseconds after which a browser connects again.
const RETRY_MS: u32 = 3000;
/// Seconds after which a viewer that found every stream taken may try again.
const BUSY_RETRY_S: &str = "30";

struct Viewer {
    context: Arc<PageContext>,
    follower: Follower,
    first: Option<SharedSnapshot>,
    /// Gives the viewer's place back when it leaves.
    _place: OwnedSemaphorePermit,
}

/// The stream, or 503 if all of them are taken.
pub(super) async fn stream(context: Arc<PageContext>, is_stream: IsStream) -> Response {
    let Ok(place) = Arc::clone(&context.streams).try_acquire_owned() else {
        let retry = [(header::RETRY_AFTER, BUSY_RETRY_S)];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, "too many live pages are open\n")
            .into_response();
    };
    is_stream.set();
    let first = context.snapshots.newest().await;
    let follower = context.snapshots.follow();
    let viewer = Viewer { context, follower, first: Some(first), _place: place };
    let events = stream::unfold(viewer, async |mut viewer| {
        let shared = match viewer.first.take() {
            Some(first) => first,
            None => viewer.context.snapshots.after(&mut viewer.follower).await,
        };
        Some((Ok::<_, Infallible>(event(&viewer.context, &shared)), viewer))
    });
    let headers =
        [(header::CONTENT_TYPE.as_str(), "text/event-stream"), ("x-accel-buffering", "no")];
    (headers, Body::from_stream(events)).into_response()
}

/// One event: all parts of the page, which the browser compares with what it shows.
fn event(context: &PageContext, shared: &SharedSnapshot) -> Bytes {
    let PageContext { shop, shows_records, .. } = context;
    match shared {
        Some(snapshot) => snapshot
            .event
            .get_or_init(|| framed(&parts::live(shop, snapshot, *shows_records).into_string()))
            .clone(),
        None => framed(&parts::stuck_live(shop).into_string()),
    }
}

fn framed(html: &str) -> Bytes {
    let mut text = format!("retry: {RETRY_MS}\nevent: page\n");
    for line in html.lines() {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}
