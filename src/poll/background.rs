//! Background requests: requests that are not polls, such as searches and lists of custom fields.
//!
//! They use what polls leave of the budget and a twentieth of it, one at a time. Callers wait for their turn in
//! [`BackgroundClient`], so the dispatcher holds at most one request that waits and one under way.
//! A caller that goes away costs no request. Nothing is retried here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Completed, Dispatcher, DispatcherRequest};
use crate::api::{ApiError, Client, RateHeaders};
use crate::budget::Purpose;
use crate::record::Page;

/// Why a background request brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackgroundError {
    /// The dispatcher has stopped.
    #[error("polling has stopped")]
    Stopped,
    /// Every poller is paused; the text says why and what to do.
    #[error("no request was sent because polling is paused: {0}")]
    Paused(&'static str),
    /// The workspace refused the request or did not respond.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Why the response to a request is not used that was sent with a newer key than intended.
const KEY_CHANGED: &str =
    "the key changed while the request was sent, and its response was not used: try again";

type Reply<T> = oneshot::Sender<Result<T, BackgroundError>>;

/// One request that waits for the budget, with the channel for its result.
pub enum BackgroundRequest {
    /// Search customers; at most 25 are returned (contract, "Limits").
    Search {
        /// 1 to 100 characters.
        term: String,
        /// The business to search; `None` is the workspace's default.
        business: Option<String>,
        /// Where the page goes.
        reply: Reply<Page>,
    },
    /// List the forms that have custom fields.
    FormTypes {
        /// The business to read; `None` is the workspace's default.
        business: Option<String>,
        /// Where the names go.
        reply: Reply<Vec<String>>,
    },
    /// List the custom fields of one form.
    CustomFields {
        /// The form.
        form_type: String,
        /// The business to read; `None` is the workspace's default.
        business: Option<String>,
        /// Where the definitions go, each its exact JSON text.
        reply: Reply<Vec<String>>,
    },
}

impl BackgroundRequest {
    /// True if the caller has gone away.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Search { reply, .. } => reply.is_closed(),
            Self::FormTypes { reply, .. } | Self::CustomFields { reply, .. } => reply.is_closed(),
        }
    }

    /// Replies with an error and sends nothing.
    fn fail(self, error: BackgroundError) {
        // Sending fails if the caller has gone away, which changes nothing here and below.
        match self {
            Self::Search { reply, .. } => drop(reply.send(Err(error))),
            Self::FormTypes { reply, .. } | Self::CustomFields { reply, .. } => {
                drop(reply.send(Err(error)));
            }
        }
    }

    /// Sends one request, replies, and returns what the response said about the rate limit. A response to
    /// another key than the one with this number is an error: its workspace may be another one.
    async fn send(self, client: &Client, key: u64) -> RateHeaders {
        match self {
            Self::Search { term, business, reply } => {
                deliver(reply, key, client.search_customers(&term, business.as_deref()).await)
            }
            Self::FormTypes { business, reply } => {
                deliver(reply, key, client.form_types(business.as_deref()).await)
            }
            Self::CustomFields { form_type, business, reply } => {
                deliver(reply, key, client.custom_fields(&form_type, business.as_deref()).await)
            }
        }
    }
}

fn deliver<T>(
    reply: Reply<T>,
    key: u64,
    (result, rate): (Result<T, ApiError>, RateHeaders),
) -> RateHeaders {
    let result = if rate.key == key {
        result
    } else {
        Err(ApiError::OtherWorkspace(KEY_CHANGED.to_owned()))
    };
    drop(reply.send(result.map_err(BackgroundError::from)));
    rate
}

/// Sends background requests through the dispatcher. Make one per dispatcher; its clones take
/// turns.
#[derive(Debug, Clone)]
pub struct BackgroundClient {
    requests: mpsc::Sender<DispatcherRequest>,
    turn: Arc<Mutex<()>>,
}

impl BackgroundClient {
    /// A client of the dispatcher that receives `requests`.
    #[must_use]
    pub fn new(requests: mpsc::Sender<DispatcherRequest>) -> Self {
        Self { requests, turn: Arc::default() }
    }

    /// Searches customers; at most 25 are returned (contract, "Limits").
    ///
    /// # Errors
    /// [`BackgroundError`]; nothing was stored.
    pub async fn search(
        &self,
        term: &str,
        business: Option<&str>,
    ) -> Result<Page, BackgroundError> {
        let (term, business) = (term.to_owned(), business.map(str::to_owned));
        self.send(|reply| BackgroundRequest::Search { term, business, reply }).await
    }

    /// Lists the forms that have custom fields.
    ///
    /// # Errors
    /// [`BackgroundError`]
    pub async fn form_types(&self, business: Option<&str>) -> Result<Vec<String>, BackgroundError> {
        let business = business.map(str::to_owned);
        self.send(|reply| BackgroundRequest::FormTypes { business, reply }).await
    }

    /// Lists the definitions of one form's custom fields, each its exact JSON text.
    ///
    /// # Errors
    /// [`BackgroundError`]
    pub async fn custom_fields(
        &self,
        form_type: &str,
        business: Option<&str>,
    ) -> Result<Vec<String>, BackgroundError> {
        let (form_type, business) = (form_type.to_owned(), business.map(str::to_owned));
        self.send(|reply| BackgroundRequest::CustomFields { form_type, business, reply }).await
    }

    async fn send<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> BackgroundRequest,
    ) -> Result<T, BackgroundError> {
        let _turn = self.turn.lock().await;
        let (reply, result) = oneshot::channel();
        let request = DispatcherRequest::Background(request(reply));
        self.requests.send(request).await.map_err(|_| BackgroundError::Stopped)?;
        result.await.map_err(|_| BackgroundError::Stopped)?
    }
}

/// After this long a request that waits is sent although a guarantee may be missed by one slot.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The dispatcher's side: at most one request that waits and one under way.
#[derive(Default)]
pub(super) struct BackgroundQueue {
    waiting: Option<BackgroundRequest>,
    waits_since: Duration,
    under_way: bool,
}

impl BackgroundQueue {
    pub(super) fn push(&mut self, request: BackgroundRequest, now: Duration) {
        self.waiting = Some(request);
        self.waits_since = now;
    }

    /// Fails the request that waits, because polling is paused.
    pub(super) fn fail_waiting(&mut self, why: &'static str) {
        if let Some(request) = self.waiting.take() {
            request.fail(BackgroundError::Paused(why));
        }
    }

    pub(super) fn completed(&mut self) {
        self.under_way = false;
    }

    /// True if a request waits that may be sent now.
    fn is_ready(&mut self) -> bool {
        if self.waiting.as_ref().is_some_and(BackgroundRequest::is_abandoned) {
            self.waiting = None;
        }
        self.waiting.is_some() && !self.under_way
    }

    fn start(&mut self) -> Option<BackgroundRequest> {
        let request = self.waiting.take()?;
        self.under_way = true;
        Some(request)
    }
}

impl Dispatcher {
    /// Starts the background request that waits, if the budget allows it and every guarantee can
    /// do without the slot; returns when to try again. Polls that are started try again as well.
    pub(super) fn start_background(
        &mut self,
        under_way: &mut JoinSet<Completed>,
    ) -> Option<Duration> {
        let ready = self.background.is_ready();
        self.schedule.set_background(ready);
        if !ready {
            return None;
        }
        let now = self.clock.now();
        let overdue = now.elapsed.saturating_sub(self.background.waits_since) >= MAX_WAIT;
        if !overdue && !self.schedule.can_spare(now) {
            return None;
        }
        if let Err(at) = self.budget.try_take(Purpose::Background, now) {
            return Some(at);
        }
        self.schedule.spent(now);
        let request = self.background.start()?;
        let (client, key) = (self.client.clone(), self.client.key_number());
        under_way
            .spawn(async move { Completed::Background { rate: request.send(&client, key).await } });
        None
    }
}
