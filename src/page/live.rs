//! Live pages: a stream of server-sent events with the parts of a page that changed.
//!
//! Each viewer is sent a part only if it differs from what this viewer was sent last. A viewer that
//! reads slowly is sent fewer events: nothing is queued for it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use maud::{Markup, html};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior};

use super::context::PageContext;
use super::server::Connection;
use super::snapshot::{EVERY, SharedSnapshot};
use super::{home, system};
use crate::report::Range;

/// After how long a browser connects again.
const RETRY: Duration = Duration::from_secs(3);
/// Seconds after which a viewer that found every stream taken may try again.
const BUSY_RETRY_S: &str = "30";
/// After this time without a change a comment is sent.
const QUIET: Duration = Duration::from_secs(15);

/// The pages that stay current by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Home(Range),
    System,
}

/// A part of a live page: an element with an id and the attribute `data-part`.
#[derive(Debug)]
pub(super) struct Part {
    id: &'static str,
    html: Markup,
    digest: u64,
}

impl Part {
    pub(super) fn new(id: &'static str, html: Markup) -> Self {
        let mut hasher = DefaultHasher::new();
        html.0.hash(&mut hasher);
        Self { id, html, digest: hasher.finish() }
    }
}

/// A live page: its title and its parts.
#[derive(Debug)]
pub(super) struct LivePage {
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
}

impl LivePage {
    /// Every part in its order.
    pub(super) fn body(&self) -> Markup {
        html! { @for part in &self.parts { (part.html) } }
    }

    /// The parts that a viewer was not sent as they are now.
    fn changed(&self, seen: &mut HashMap<&'static str, u64>) -> String {
        let title = Part::new("title", html! { title #title data-part { (self.title) } });
        let mut changed = String::new();
        for part in std::iter::once(&title).chain(&self.parts) {
            if seen.insert(part.id, part.digest) != Some(part.digest) {
                changed.push_str(&part.html.0);
            }
        }
        changed
    }
}

struct Viewer {
    context: Arc<PageContext>,
    watched: Watched,
    tick: Interval,
    /// What the viewer was sent last, by the id of the part.
    seen: HashMap<&'static str, u64>,
    /// Gives the viewer's place back when it leaves.
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    /// Waits until there is something to send.
    async fn next(&mut self) -> Event {
        loop {
            self.tick.tick().await;
            let shared = self.context.snapshot().await;
            let changed = page(&self.context, self.watched, &shared).await.changed(&mut self.seen);
            if !changed.is_empty() {
                return Event::default().event("page").retry(RETRY).data(changed);
            }
        }
    }
}

/// A live page as it is now.
pub(super) async fn page(
    context: &Arc<PageContext>,
    watched: Watched,
    shared: &SharedSnapshot,
) -> LivePage {
    match watched {
        Watched::Home(range) => home::live_page(context, range, shared).await,
        Watched::System => system::live_page(context, shared),
    }
}

/// The stream, or 503 if all of them are taken.
pub(super) async fn stream(
    context: Arc<PageContext>,
    watched: Watched,
    connection: &Connection,
) -> Response {
    let Ok(place) = Arc::clone(&context.streams).try_acquire_owned() else {
        let retry = [(header::RETRY_AFTER, BUSY_RETRY_S)];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, "too many live pages are open\n")
            .into_response();
    };
    connection.is_stream.store(true, Ordering::Relaxed);
    // The first event is sent at once.
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let viewer = Viewer { context, watched, tick, seen: HashMap::new(), _place: place };
    let events = stream::unfold(viewer, async |mut viewer| {
        let event = viewer.next().await;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    // A comment in quiet times shows that a viewer has left.
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET));
    ([("x-accel-buffering", "no")], events).into_response()
}
