//! What else may be asked of the workspace with the requests that polls leave: searches and
//! listings, one at a time.
//!
//! Callers wait for their turn outside the dispatcher, so that it holds at most one question and
//! nothing queues up in it. A caller that goes away costs no request. No retry here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

use super::{Answer, Dispatcher, Request};
use crate::api::{ApiError, Client, Rate};
use crate::budget::Purpose;
use crate::record::Page;

/// Why a background request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpareError {
    /// Polling has ended; so has everything else.
    #[error("polling has ended")]
    Ended,
    /// Every poller is paused; the text says why, and what to do.
    #[error("nothing is asked at the moment: {0}")]
    Halted(&'static str),
    /// The workspace refused, or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// A handle to ask with what polls leave of the budget. One is made for a dispatcher; clones share
/// its turn.
#[derive(Debug, Clone)]
pub struct Spare {
    requests: mpsc::Sender<Request>,
    turn: Arc<Mutex<()>>,
}

type Reply<T> = oneshot::Sender<Result<T, SpareError>>;

/// One question that waits for the budget.
pub struct Background(Question);

enum Question {
    Search { term: String, business: Option<String>, reply: Reply<Page> },
    FormTypes { reply: Reply<Vec<String>> },
    CustomFields { form_type: String, reply: Reply<Vec<String>> },
}

impl Spare {
    /// A handle on the dispatcher that reads `requests`.
    #[must_use]
    pub fn new(requests: mpsc::Sender<Request>) -> Self {
        Self { requests, turn: Arc::default() }
    }

    /// Searches customers; at most 25 are returned (contract, "Limits").
    ///
    /// # Errors
    /// [`SpareError`]; nothing was stored.
    pub async fn search(&self, term: &str, business: Option<&str>) -> Result<Page, SpareError> {
        let (term, business) = (term.to_owned(), business.map(str::to_owned));
        self.ask(|reply| Question::Search { term, business, reply }).await
    }

    /// Asks for the names of the forms that have custom fields.
    ///
    /// # Errors
    /// [`SpareError`]
    pub async fn form_types(&self) -> Result<Vec<String>, SpareError> {
        self.ask(|reply| Question::FormTypes { reply }).await
    }

    /// Asks for the definitions of one form's custom fields, each its exact JSON text.
    ///
    /// # Errors
    /// [`SpareError`]
    pub async fn custom_fields(&self, form_type: &str) -> Result<Vec<String>, SpareError> {
        let form_type = form_type.to_owned();
        self.ask(|reply| Question::CustomFields { form_type, reply }).await
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Result<T, SpareError> {
        let _turn = self.turn.lock().await;
        let (reply, answer) = oneshot::channel();
        let request = Request::Background(Background(question(reply)));
        self.requests.send(request).await.map_err(|_| SpareError::Ended)?;
        answer.await.map_err(|_| SpareError::Ended)?
    }
}

/// The dispatcher's side: at most one question that waits and one that is under way.
#[derive(Default)]
pub(super) struct Waiting {
    asked: Option<Background>,
    under_way: bool,
}

impl Waiting {
    pub(super) fn put(&mut self, asked: Background) {
        self.asked = Some(asked);
    }

    /// While nothing may be asked, whoever waits is told why.
    pub(super) fn refuse(&mut self, why: &'static str) {
        if let Some(asked) = self.asked.take() {
            asked.refuse(&SpareError::Halted(why));
        }
    }

    pub(super) fn came_back(&mut self) {
        self.under_way = false;
    }
}

impl Dispatcher {
    /// Starts what waits for a request that polls leave; returns when to look again.
    ///
    /// Polls were given theirs before; the budget keeps what their deadlines need.
    pub(super) fn start_background(&mut self, under_way: &mut JoinSet<Answer>) -> Option<Duration> {
        let waiting = &mut self.background;
        waiting.asked.take_if(|asked| asked.is_abandoned());
        if waiting.under_way || waiting.asked.is_none() {
            return None;
        }
        if let Err(at) = self.budget.try_take(Purpose::Background, self.clock.now()) {
            return Some(at);
        }
        let asked = waiting.asked.take()?;
        waiting.under_way = true;
        let client = self.client.clone();
        under_way.spawn(async move { Answer::Background { rate: asked.run(&client).await } });
        None
    }
}

impl Background {
    /// Whether whoever asked has gone away.
    fn is_abandoned(&self) -> bool {
        match &self.0 {
            Question::Search { reply, .. } => reply.is_closed(),
            Question::FormTypes { reply } | Question::CustomFields { reply, .. } => {
                reply.is_closed()
            }
        }
    }

    /// Answers without asking the workspace.
    fn refuse(self, why: &SpareError) {
        // The one who asked may have gone away.
        match self.0 {
            Question::Search { reply, .. } => drop(reply.send(Err(why.clone()))),
            Question::FormTypes { reply } | Question::CustomFields { reply, .. } => {
                drop(reply.send(Err(why.clone())));
            }
        }
    }

    /// Asks the workspace once, answers, and says what the answer told of the rate limit.
    async fn run(self, client: &Client) -> Rate {
        match self.0 {
            Question::Search { term, business, reply } => {
                answer(reply, client.search_customers(&term, business.as_deref()).await)
            }
            Question::FormTypes { reply } => answer(reply, client.form_types().await),
            Question::CustomFields { form_type, reply } => {
                answer(reply, client.custom_fields(&form_type).await)
            }
        }
    }
}

fn answer<T>(reply: Reply<T>, (result, rate): (Result<T, ApiError>, Rate)) -> Rate {
    // The one who asked may have gone away.
    drop(reply.send(result.map_err(SpareError::from)));
    rate
}
