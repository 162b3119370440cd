//! Live pages: they stay current by a stream of server-sent events with the parts that changed.
//!
//! Each viewer is sent a part only if it differs from what this viewer was sent last. A viewer that
//! reads slowly is sent fewer events: nothing is queued for it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use maud::{Markup, PreEscaped, html};
use tokio::time::{Interval, MissedTickBehavior};

use super::context::{EVERY, PageContext};
use super::frame::Frame;
use super::respond::accepts;
use super::snapshot::SharedSnapshot;
use super::{home, system};
use crate::report::Range;

/// After how long a browser connects again.
const RETRY: Duration = Duration::from_secs(3);
/// After this time without a change a comment is sent, which shows that a viewer has left.
const QUIET: Duration = Duration::from_secs(15);

/// The pages that stay current by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    Home(Range),
    System,
}

/// A part of a live page: an id, and the element that has it and the attribute `data-part`.
pub(super) type Part = (&'static str, Markup);
/// What a viewer was sent last, by the id of the part.
type Sent = HashMap<&'static str, String>;

impl Live {
    /// The page, or the stream of what changes, for which the script of the page asks the same address.
    pub(super) async fn respond(self, context: Arc<PageContext>, headers: &HeaderMap) -> Response {
        if accepts(headers, "text/event-stream") {
            return self.stream(context);
        }
        let shared = context.snapshot().await;
        let parts = self.parts(&context, &shared).await;
        let (title, tab) = match self {
            Self::Home(_) => ("Home", "."),
            Self::System => ("System", "system"),
        };
        let frame = Frame { is_live: true, ..Frame::of(title, tab) };
        let code = if shared.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = html! { @for (_, part) in &parts { (part) } };
        (code, frame.around(&context, &body)).into_response()
    }

    /// The parts in their order, as they are now.
    async fn parts(self, context: &Arc<PageContext>, shared: &SharedSnapshot) -> Vec<Part> {
        match self {
            Self::Home(range) => home::parts(context, range, shared).await,
            Self::System => system::parts(context, shared),
        }
    }

    fn stream(self, context: Arc<PageContext>) -> Response {
        // The first event is sent at once.
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let viewer = (context, tick, Sent::new());
        let events = stream::unfold(viewer, move |mut viewer| async move {
            let (context, tick, sent) = &mut viewer;
            let changed = self.next_change(context, tick, sent).await;
            let event = Event::default().event("page").retry(RETRY).data(changed);
            Some((Ok::<_, Infallible>(event), viewer))
        });
        let events = Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET));
        ([("x-accel-buffering", "no")], events).into_response()
    }

    /// Waits until there are parts that a viewer was not sent as they are now.
    async fn next_change(
        self,
        context: &Arc<PageContext>,
        tick: &mut Interval,
        sent: &mut Sent,
    ) -> String {
        loop {
            tick.tick().await;
            let shared = context.snapshot().await;
            let mut changed = String::new();
            for (id, PreEscaped(html)) in self.parts(context, &shared).await {
                if sent.get(id) != Some(&html) {
                    changed.push_str(&html);
                    sent.insert(id, html);
                }
            }
            if !changed.is_empty() {
                return changed;
            }
        }
    }
}
