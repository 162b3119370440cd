//! The requests of commands on the control socket: for the status, and for searches that share the
//! daemon's budget.

use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::api::{ApiError, Class, Client, Retry};
use crate::control::exit_codes::{CONFIG, DATA, PERMISSION, TRY_AGAIN, UNAVAILABLE};
use crate::control::{self, ControlRequest, Refusal, SearchRequest, SearchResult};
use crate::poll::BackgroundError;

/// How long to wait after a failure without a `Retry-After`.
const WAIT: Duration = Duration::from_secs(10);

/// Answers commands on the control socket until stopped.
pub(super) async fn serve(daemon: DaemonHandle, stop: CancellationToken) -> anyhow::Result<()> {
    let store = daemon.store.clone();
    let respond = move |request| daemon.clone().respond(request);
    if let Err(error) = control::serve(store.path(), respond, stop.clone()).await {
        // Only a warning: polling and delivery do not need the socket.
        tracing::warn!(
            %error,
            "could not open the control socket next to the store; `shopmirror status` shows only \
             what is stored"
        );
        stop.cancelled().await;
    }
    Ok(())
}

impl DaemonHandle {
    /// The reply to a command; nothing if the tasks do not answer.
    async fn respond(self, request: ControlRequest) -> Vec<u8> {
        match request {
            ControlRequest::Status => match self.snapshot().await {
                Some(snapshot) => reply(&snapshot),
                None => Vec::new(),
            },
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
        let term = &request.term;
        let business = request.business.as_deref();
        let found = self
            .background
            .request(async |client: &Client| client.search_customers(term, business).await)
            .await;
        let page = found.map_err(|error| not_sent(&error))?;
        let at = self.clock.now().wall;
        let stored = request
            .store_result(page, &self.store, searched_after, at)
            .await;
        stored.map_err(|error| Refusal {
            code: TRY_AGAIN,
            text: error.to_string(),
            retry_after: if error.is_transient() {
                Some(WAIT)
            } else {
                None
            },
        })
    }
}

fn reply(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a reply holds plain values and valid JSON texts")
}

/// The reply to a search that was not sent, or that the workspace has refused.
fn not_sent(error: &BackgroundError) -> Refusal {
    let code = match error {
        BackgroundError::Stopped => TRY_AGAIN,
        BackgroundError::Paused(_) => UNAVAILABLE,
        BackgroundError::Api(error) => exit_code(error),
    };
    let retry_after = match error {
        BackgroundError::Stopped | BackgroundError::Paused(_) => Some(WAIT),
        BackgroundError::Api(error) => match error.retry() {
            Retry::After(wait) => Some(wait),
            Retry::Backoff => Some(WAIT),
            Retry::Never => None,
        },
    };
    Refusal {
        code,
        text: error.to_string(),
        retry_after,
    }
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
