//! The control socket: how a command reaches the daemon that serves the same store.
//!
//! The socket lies next to the store. One request per connection, as one line of JSON; the daemon
//! writes one reply and closes. A user who may read the store may request the status; only root and
//! the daemon's own user may send requests that write or spend the budget.

mod client;
pub mod exit_codes;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use shopmirror_core::record::{Kind, Page};

use crate::store::{Search, SearchOutcome, Store, StoreError};
pub use client::send;
pub use server::serve;

/// How long the daemon may take to reply from memory.
const QUICK: Duration = Duration::from_secs(5);
/// How long the daemon may take when it has to wait for a free request in the budget.
const SLOW: Duration = Duration::from_secs(90);

/// The socket of the daemon that serves the store at `store`.
fn socket_of(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-sock");
    name.into()
}

/// A request of a command to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    /// Send the status as JSON.
    Status,
    /// Read the configuration and the key again, and reply with what was decided.
    Reload,
    /// Check the deliveries now, because an operator changed some.
    Wake,
    /// Search customers within the daemon's budget.
    Search(SearchRequest),
}

impl ControlRequest {
    /// How long to wait for the reply.
    fn time_limit(&self) -> Duration {
        if matches!(self, Self::Search(_)) {
            SLOW
        } else {
            QUICK
        }
    }
}

/// One search for customers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// The term, 1 to 100 characters.
    pub term: String,
    /// The business to search; `None` is the workspace's default.
    pub business: Option<String>,
    /// The kind of change stored for a new customer; `None` stores nothing.
    pub store: Option<Kind>,
    /// True if the term belongs to a backfill, which remembers the terms it has searched.
    pub backfill: bool,
}

impl SearchRequest {
    /// Stores the customers that the search found, if the request asks for that, and returns the
    /// records as received.
    ///
    /// `searched_after` is the last row of the log when the search was sent: records stored since
    /// then are newer than the page.
    ///
    /// # Errors
    /// [`StoreError`] if the records cannot be stored.
    pub async fn store_result(
        self,
        page: Page,
        store: &Store,
        searched_after: i64,
        at: Timestamp,
    ) -> Result<SearchResult, StoreError> {
        let mut records = Vec::new();
        for record in page.records() {
            records.extend(RawValue::from_string(page.text(record).to_owned()));
        }
        let mut found = None;
        if let Some(kind) = self.store {
            let search = Search {
                business: self.business,
                page,
                kind,
                at,
                asked_after: searched_after,
                backfill_term: self.backfill.then_some(self.term),
            };
            found = Some(store.store_found(search).await?);
        }
        Ok(SearchResult { records, found })
    }
}

/// What a search found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SearchResult {
    /// The customers, as received.
    pub records: Vec<Box<RawValue>>,
    /// How many of them were stored; `None` if nothing was to be stored.
    pub found: Option<SearchOutcome>,
}

/// Why a command failed. The daemon's reply to [`ControlRequest::Search`] and to
/// [`ControlRequest::Reload`] is a result with this error.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The exit code for the command.
    pub code: u8,
    /// The cause, and what to do.
    pub text: String,
    /// How long to wait before a retry; `None` if a retry cannot help.
    pub retry_after: Option<Duration>,
}

/// Why the daemon gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// This user may not open the socket.
    #[error(
        "this user may not send requests to the daemon: use sudo, or run this as the user of the \
         service"
    )]
    NotPermitted,
    /// No process holds the store.
    #[error("no daemon is running on this store")]
    NotRunning,
    /// A process holds the store, but does not listen on the socket.
    #[error(
        "process {0} holds the store but does not listen: a daemon is starting or stopping, or \
         another command is running; try again in a few seconds"
    )]
    NotListening(String),
    /// The daemon accepted the request and did not reply in time, or ended the connection.
    #[error(
        "the daemon gave no reply: it was reloaded, it is paused, or its polls use the whole \
         budget; see `shopmirror status`, then run the command again if you still need it"
    )]
    NoReply(#[source] io::Error),
}
