//! What commands ask of the daemon on the control socket: its status, and searches that share its
//! budget.

use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::api::{ApiError, Class, Client, Retry};
use crate::control::exit_codes::{CONFIG, DATA, PERMISSION, TRY_AGAIN, UNAVAILABLE};
use crate::control::{self, ControlRequest, Refusal, SearchRequest, SearchResult};
use crate::poll::BackgroundError;

/// How long to wait after a failure without a `Retry-After`.
const WAIT: Duration = Duration::from_secs(10);

/// Answers commands on the control socket until stopped.
pub(super) async fn serve(watch: Watch, stop: CancellationToken) -> anyhow::Result<()> {
    let store = watch.store.clone();
    let answer = move |request| watch.clone().answer(request);
    if let Err(error) = control::serve(store.path(), answer, stop.clone()).await {
        // Only a warning: polling and delivery do not need the socket.
        tracing::warn!(%error, "could not open the control socket next to the store; `shopmirror status` shows only what is stored");
        stop.cancelled().await;
    }
    Ok(())
}

impl Watch {
    /// The reply to a command; nothing if the tasks do not answer.
    async fn answer(self, request: ControlRequest) -> Vec<u8> {
        match request {
            ControlRequest::Status => self
                .snapshot()
                .await
                .map_or_else(Vec::new, |snapshot| reply(&snapshot)),
            ControlRequest::Search(request) => reply(&self.search(request).await),
            ControlRequest::Wake => {
                for handle in self.state.borrow().sinks.values() {
                    handle.wake();
                }
                reply(&())
            }
        }
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchResult, Refusal> {
        let searched_after = self.store.seq();
        let (term, business) = (&request.term, request.business.as_deref());
        let search = async |client: &Client| client.search_customers(term, business).await;
        let page = self
            .background
            .request(search)
            .await
            .map_err(|error| not_sent(&error))?;
        let at = self.clock.now().wall;
        let kept = request.keep(page, &self.store, searched_after, at).await;
        kept.map_err(|error| {
            failed(
                TRY_AGAIN,
                error.to_string(),
                error.is_transient().then_some(WAIT),
            )
        })
    }
}

fn reply(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a reply holds plain values and valid JSON texts")
}

/// The reply to a search that was not sent, or that the workspace has refused.
fn not_sent(error: &BackgroundError) -> Refusal {
    let (code, wait) = match error {
        BackgroundError::Stopped => (TRY_AGAIN, Some(WAIT)),
        BackgroundError::Paused(_) => (UNAVAILABLE, Some(WAIT)),
        BackgroundError::Api(error) => match error.retry() {
            Retry::After(wait) => (exit_code(error), Some(wait)),
            Retry::Backoff => (exit_code(error), Some(WAIT)),
            Retry::Never => (exit_code(error), None),
        },
    };
    failed(code, error.to_string(), wait)
}

/// The exit code for an error of the workspace.
#[must_use]
pub fn exit_code(error: &ApiError) -> u8 {
    match error.class() {
        Class::KeyRefused | Class::KeyForbidden => PERMISSION,
        Class::WrongHost | Class::RouteBroken => CONFIG,
        Class::Busy => TRY_AGAIN,
        Class::BadPage => DATA,
    }
}

fn failed(code: u8, text: String, retry_after: Option<Duration>) -> Refusal {
    Refusal {
        code,
        text,
        retry_after,
    }
}
