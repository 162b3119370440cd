//! Background requests: requests that are not polls, such as searches and lists of custom fields.
//!
//! They use what polls leave of the budget and a twentieth of it, one at a time. A caller requests
//! a [`Grant`] and sends its request with it. Callers take turns in [`BackgroundClient`], until the
//! response, so at most one waits at the dispatcher or has its request in flight. A caller that
//! goes away before costs no request. Nothing is retried here.

use std::sync::Arc;
use std::time::Duration;

use shopmirror_core::budget::Purpose;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Completed, Dispatcher, DispatcherRequest};
use crate::api::{ApiError, Client, RateHeaders};

/// Why a background request brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackgroundError {
    /// The dispatcher has stopped.
    #[error("polling has stopped")]
    Stopped,
    /// Every poller is paused; the text says why and what to do.
    #[error("no request was sent because polling is paused: {0}")]
    Paused(String),
    /// The workspace refused the request or did not respond.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Why the response to a request is not used that was sent with a newer key than intended.
const KEY_CHANGED: &str =
    "the key changed while the request was sent, and its response was not used: try again";

/// Where the grant for one request goes.
pub type GrantReply = oneshot::Sender<Result<Grant, BackgroundError>>;

/// One request of the budget, to be sent now.
pub struct Grant {
    client: Client,
    /// The number of the key that it was granted for: another key may lead to another workspace.
    key: u64,
    /// Takes the rate limit that the response shows.
    ended: oneshot::Sender<RateHeaders>,
}

/// Sends background requests when the dispatcher grants them. Create one; its clones take turns.
#[derive(Debug, Clone)]
pub struct BackgroundClient {
    requests: mpsc::Sender<DispatcherRequest>,
    turn: Arc<Mutex<()>>,
}

impl BackgroundClient {
    /// A client of the dispatcher that receives `requests`.
    #[must_use]
    pub fn new(requests: mpsc::Sender<DispatcherRequest>) -> Self {
        Self {
            requests,
            turn: Arc::default(),
        }
    }

    /// Sends one request when it is granted.
    ///
    /// # Errors
    /// [`BackgroundError`]; nothing was stored.
    pub async fn request<T>(
        &self,
        request: impl AsyncFnOnce(&Client) -> (Result<T, ApiError>, RateHeaders),
    ) -> Result<T, BackgroundError> {
        let (grant, _turn) = self.grant().await?;
        let (result, rate) = request(&grant.client).await;
        // Sending fails if the dispatcher has stopped, which changes nothing here.
        let _ = grant.ended.send(rate);
        if rate.key != grant.key {
            return Err(ApiError::OtherWorkspace(KEY_CHANGED.to_owned()).into());
        }
        Ok(result?)
    }

    /// Waits until one request may be sent; the next caller waits until the turn is dropped.
    async fn grant(&self) -> Result<(Grant, OwnedMutexGuard<()>), BackgroundError> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let (reply, grant) = oneshot::channel();
        let request = DispatcherRequest::Background(reply);
        self.requests
            .send(request)
            .await
            .map_err(|_| BackgroundError::Stopped)?;
        let grant = grant.await.map_err(|_| BackgroundError::Stopped)??;
        Ok((grant, turn))
    }
}

/// After this long a request that waits is sent although a guarantee may be missed by one slot.
const MAX_WAIT: Duration = Duration::from_secs(300);

impl Dispatcher {
    /// Starts the background request that waits, if the budget allows it and every guarantee can
    /// do without the slot; returns when to try again. Polls that are started try again as well.
    pub(super) fn start_background(
        &mut self,
        in_flight: &mut JoinSet<Completed>,
    ) -> Option<Duration> {
        // A caller that has gone away wants no request.
        if let Some((reply, _)) = &self.waiting
            && reply.is_closed()
        {
            self.waiting = None;
        }
        self.schedule.set_background(self.waiting.is_some());
        let (_, since) = self.waiting.as_ref()?;
        let now = self.clock.now();
        let is_overdue = now.elapsed.saturating_sub(*since) >= MAX_WAIT;
        if !is_overdue && !self.schedule.can_spare(now) {
            return None;
        }
        if let Err(at) = self.budget.try_take(Purpose::Background, now) {
            return Some(at);
        }
        self.schedule.spent(now);
        let (reply, _) = self.waiting.take()?;
        let (ended, response) = oneshot::channel();
        let grant = Grant {
            client: self.client.clone(),
            key: self.client.key_number(),
            ended,
        };
        // If the caller has gone away, nothing is sent, and `ended` goes with the grant.
        let _ = reply.send(Ok(grant));
        in_flight.spawn(async move {
            Completed::Background {
                rate: response.await.ok(),
            }
        });
        None
    }
}
