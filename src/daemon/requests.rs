//! The searches that commands send through the daemon, so that they share its budget.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::api::{ApiError, Class, Retry};
use crate::control::{self, Refusal, SearchRequest, SearchResult};
use crate::poll::BackgroundError;
use crate::store::{Store, StoreError};
use crate::sysexits::{CONFIG, DATA, PERMISSION, TRY_AGAIN, UNAVAILABLE};

/// How long to wait after a failure without a `Retry-After`.
const WAIT: Duration = Duration::from_secs(10);

/// Answers commands on the control socket until stopped.
pub(super) async fn serve(
    watch: Watch,
    store: Store,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let served =
        control::serve(store.path(), move |request| watch.reply_to(request), stop.clone()).await;
    if let Err(error) = served {
        // Only a warning: polling and delivery do not need the socket.
        tracing::warn!(%error, "could not open the control socket next to the store; `shopmirror status` shows only what is stored");
        stop.cancelled().await;
    }
    Ok(())
}

impl Watch {
    pub(super) async fn search(&self, request: SearchRequest) -> Result<SearchResult, Refusal> {
        let searched_after = self.store.seq();
        let page = self.background.search(&request.term, request.business.as_deref()).await;
        let page = page.map_err(|error| not_sent(&error))?;
        let at = self.clock.now().wall;
        let kept = request.keep(page, Some(&self.store), searched_after, at).await;
        kept.map_err(|error| not_stored(&error))
    }
}

fn not_sent(error: &BackgroundError) -> Refusal {
    match error {
        BackgroundError::Stopped => failed(TRY_AGAIN, error.to_string(), Some(WAIT)),
        BackgroundError::Paused(_) => failed(UNAVAILABLE, error.to_string(), Some(WAIT)),
        BackgroundError::Api(error) => refused(error),
    }
}

/// The reply to a request that the workspace has refused.
#[must_use]
pub fn refused(error: &ApiError) -> Refusal {
    let wait = match error.retry() {
        Retry::After(wait) => Some(wait),
        Retry::Backoff => Some(WAIT),
        Retry::Never => None,
    };
    failed(exit_code(error), error.to_string(), wait)
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

/// The reply to a search whose records could not be stored.
#[must_use]
pub fn not_stored(error: &StoreError) -> Refusal {
    failed(TRY_AGAIN, error.to_string(), error.is_transient().then_some(WAIT))
}

fn failed(code: u8, text: String, retry_after: Option<Duration>) -> Refusal {
    Refusal { code, text, retry_after }
}
