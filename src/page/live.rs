//! Live pages: they stay current by a stream of server-sent events with the parts that changed.
//!
//! A part is sent only if it differs from the one that this viewer was sent last. A viewer that
//! reads slowly is sent fewer events: nothing is queued for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use maud::{Markup, html};
use tokio::time::MissedTickBehavior;

use super::context::{EVERY, PageContext};
use super::frame::framed;
use super::viewer::Viewer;
use super::{home, system};
use crate::report::Range;

/// After how long a browser connects again.
const RETRY: Duration = Duration::from_secs(3);
/// After this time without a change a comment is sent, which shows that a viewer has left.
const QUIET: Duration = Duration::from_secs(15);

/// The pages that stay current automatically.
#[derive(Debug, Clone, Copy)]
pub(super) enum Live {
    Home(Range),
    System,
}

impl Live {
    /// The page, or the stream of what changes, for which the script of the page asks the same
    /// address.
    pub(super) async fn respond(
        self,
        context: Arc<PageContext>,
        viewer: Viewer,
        headers: &HeaderMap,
    ) -> Response {
        if let Some(kind) = headers.get(header::ACCEPT)
            && kind == "text/event-stream"
        {
            return self.stream(context, viewer);
        }
        let parts = self.parts(&context, &viewer).await;
        let (title, tab) = match self {
            Self::Home(_) => ("Home", "."),
            Self::System => ("System", "system"),
        };
        let body = html! { @for part in &parts { (part) } };
        framed(&context, &viewer, title, tab, &body).into_response()
    }

    /// The parts in their order, as they are now. Those that change have an id and the attribute
    /// `data-part`.
    async fn parts(self, context: &Arc<PageContext>, viewer: &Viewer) -> Vec<Markup> {
        match self {
            Self::Home(range) => home::parts(context, range, viewer).await,
            Self::System => system::parts(context).await,
        }
    }

    fn stream(self, context: Arc<PageContext>, viewer: Viewer) -> Response {
        let Ok(permit) = Arc::clone(&context.streams).try_acquire_owned() else {
            let text = "too many pages are open: reload this one for what is new\n";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        };
        // The first event is sent at once.
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let state = (context, viewer, tick, Vec::new(), permit);
        let events = stream::unfold(state, move |state| async move {
            let (context, viewer, mut tick, mut sent, permit) = state;
            loop {
                tick.tick().await;
                let parts = self.parts(&context, &viewer).await;
                let parts: Vec<String> = parts.into_iter().map(Markup::into_string).collect();
                let mut changed = String::new();
                for (index, part) in parts.iter().enumerate() {
                    if sent.get(index) != Some(part) {
                        changed += part;
                    }
                }
                sent = parts;
                if !changed.is_empty() {
                    let event = Event::default().event("page").retry(RETRY).data(changed);
                    let state = (context, viewer, tick, sent, permit);
                    return Some((Ok::<_, Infallible>(event), state));
                }
            }
        });
        let events = Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET));
        ([("x-accel-buffering", "no")], events).into_response()
    }
}
