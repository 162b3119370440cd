//! The requests of commands on the control socket: for the status, for a reload, and for searches
//! that share the daemon's budget.
//!
//! The socket stays open over a reload, so that the command that requested it gets the reply.

use std::time::Duration;

use anyhow::anyhow;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::api::{ApiError, Class, Client, Retry};
use crate::control::exit_codes::{CONFIG, DATA, PERMISSION, TRY_AGAIN, UNAVAILABLE};
use crate::control::{self, ControlRequest, Refusal, SearchRequest, SearchResult};
use crate::poll::BackgroundError;

/// How long to wait after a failure without a `Retry-After`.
const WAIT: Duration = Duration::from_secs(10);

/// The control socket: open from the first configuration on until the daemon stops.
#[derive(Default)]
pub(super) struct ControlSocket {
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl ControlSocket {
    /// Opens the socket, unless it is open.
    pub(super) fn open(&mut self, daemon: &DaemonHandle) {
        if self.task.is_empty() {
            self.task.spawn(serve(daemon.clone(), self.stop.clone()));
        }
    }

    /// Waits for a socket that closes without a request, which is a fault.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        match self.task.join_next().await {
            None => std::future::pending().await,
            Some(Err(error)) => anyhow!(error).context("the control socket panicked"),
            Some(Ok(())) => {
                anyhow!("the control socket ended without a stop request; report this as a bug")
            }
        }
    }

    /// Closes the socket and every connection.
    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
    }
}

/// Answers commands on the control socket until stopped.
async fn serve(daemon: DaemonHandle, stop: CancellationToken) {
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
            ControlRequest::Reload => match self.reload.decision().await {
                Some(decision) => reply(&decision.map_err(|why| refused(&why))),
                None => Vec::new(),
            },
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

/// The reply to a reload that was refused.
fn refused(why: &str) -> Refusal {
    Refusal {
        code: CONFIG,
        text: format!(
            "the reload was refused; the daemon continues with the older configuration: {why}"
        ),
        retry_after: None,
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
            // It may pass, and every route waits for that as well.
            Retry::Never if error.class() == Class::Between => Some(WAIT),
            Retry::Never => None,
        },
    };
    let text = match error {
        BackgroundError::Api(error) => error.with_quotation(),
        error => error.to_string(),
    };
    Refusal {
        code,
        text,
        retry_after,
    }
}

/// The exit code for an error of the workspace.
#[must_use]
pub fn exit_code(error: &ApiError) -> u8 {
    match error.class() {
        Class::KeyRefused | Class::KeyForbidden => PERMISSION,
        Class::WrongHost | Class::RouteBroken => CONFIG,
        Class::Busy | Class::Between => TRY_AGAIN,
        Class::BadPage => DATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Between, BetweenKind, TransportError};

    #[test]
    fn what_may_pass_says_when_to_try_again() {
        let challenge = ApiError::Between(Between {
            status: 403,
            kind: BetweenKind::Html,
            is_address_proven: true,
            quotation: None,
        });
        let errors = [
            challenge,
            TransportError::Timeout.into(),
            ApiError::UnusableKey,
        ];
        let refusals = errors.map(|error| not_sent(&BackgroundError::Api(error)));
        let told = refusals.map(|refusal| (refusal.code, refusal.retry_after));
        let again = (TRY_AGAIN, Some(WAIT));
        assert_eq!(told, [again, again, (PERMISSION, None)]);
    }
}
