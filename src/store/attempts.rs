//! What a later process has to know of the requests of each poller: the table `_attempts`.
//!
//! The first request of a process is noted before it is sent, so that a process that ends early, or
//! whose page ends it, leaves the first place to another route. What the workspace asked a route to
//! wait is noted when it does.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::named_params;
use serde::Deserialize;
use shopmirror_core::budget::Spending;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{PollerId, Route};

use super::error::StoreError;
use super::handle::Store;
use super::meta::{self, MetaKey};
use super::open::write_tx;
use super::pollers::business_text;
use super::reader::Reader;
use super::sql::Sql;

/// The last request of a poller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The poller.
    pub poller: PollerId,
    /// When it was sent; `None` if no process noted it.
    pub at: Option<Timestamp>,
    /// Whether its process lived on until the response was handled.
    pub is_handled: bool,
    /// What the workspace asked the route to wait, if it did.
    pub rest: Option<RouteRest>,
}

/// What the workspace asked one route to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRest {
    /// The address and the key it was asked with.
    pub account: String,
    /// Until when.
    pub until: Timestamp,
    /// The status of the response.
    pub status: u16,
}

#[derive(Deserialize)]
struct AttemptRow {
    route: String,
    business: Option<String>,
    attempted_at: Option<String>,
    is_handled: bool,
    account: Option<String>,
    retry_at: Option<String>,
    retry_status: Option<u16>,
}

/// Notes that a request is sent. What the workspace asked the route to wait is over then.
const NOTE_ATTEMPT: &str = "
    INSERT OR REPLACE INTO _attempts (route, business, attempted_at)
    VALUES (:route, :business, :at)";

/// Notes what the workspace asked a route to wait.
const NOTE_REST: &str = "
    INSERT OR REPLACE INTO _attempts (
        route, business, attempted_at, is_handled, account, retry_at, retry_status
    ) VALUES (
        :route, :business, :at, 1, :account, :until, :status
    )";

/// Notes that the response to a poller's last request was handled.
const NOTE_HANDLED: &str = "
    UPDATE _attempts
    SET is_handled = 1
    WHERE route = :route AND business = :business";

/// The pollers that a process had, each with its last request: the noted one, or that of the last
/// page that was stored.
const ALL: &str = "
    SELECT route, nullif(business, '') AS business, max(attempted_at) AS attempted_at,
        min(is_handled) AS is_handled, max(account) AS account, max(retry_at) AS retry_at,
        max(retry_status) AS retry_status
    FROM (
        SELECT route, business, attempted_at, is_handled, account, retry_at, retry_status
        FROM _attempts
        UNION ALL
        SELECT route, business, last_success_at, 1, NULL, NULL, NULL
        FROM _pollers
    )
    GROUP BY route, business
    LIMIT 10000";

impl Store {
    /// Notes that a poller's request is about to be sent, and what was sent on the key with it.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_attempt(
        &self,
        poller: PollerId,
        at: Timestamp,
        spending: &Spending,
    ) -> Result<(), StoreError> {
        let spending = meta::text_of(spending);
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            meta::set_changed(&tx, MetaKey::SPENDING, &spending)?;
            let values = named_params! {
                ":route": poller.route.as_str(),
                ":business": business_text(&poller),
                ":at": stamp(at),
            };
            tx.run(NOTE_ATTEMPT, values)?;
            Ok(tx.commit()?)
        })
        .await
    }

    /// Notes that the response to a poller's last request was handled.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_handled(&self, poller: PollerId) -> Result<(), StoreError> {
        self.write(move |writer| {
            let values = named_params! {
                ":route": poller.route.as_str(),
                ":business": business_text(&poller),
            };
            writer.connection.run(NOTE_HANDLED, values)?;
            Ok(())
        })
        .await
    }

    /// Notes that the workspace asked a poller's route to wait, in its response of `at`.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_rest(
        &self,
        poller: PollerId,
        at: Timestamp,
        rest: RouteRest,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            let values = named_params! {
                ":route": poller.route.as_str(),
                ":business": business_text(&poller),
                ":at": stamp(at),
                ":account": rest.account,
                ":until": stamp(rest.until),
                ":status": rest.status,
            };
            writer.connection.run(NOTE_REST, values)?;
            Ok(())
        })
        .await
    }
}

impl RouteRest {
    /// How long the route still has to wait, unless it is another account's wait. It is never longer
    /// than the workspace can have asked for, whatever the clock did.
    #[must_use]
    pub fn remaining(&self, account: &str, now: Timestamp, longest: Duration) -> Option<Duration> {
        if self.account != account {
            return None;
        }
        let remaining = Duration::try_from(self.until.duration_since(now)).ok()?;
        if remaining.is_zero() || remaining > longest {
            return None;
        }
        Some(remaining)
    }
}

impl Reader {
    /// The last request of each poller.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn attempts(&self) -> Result<Vec<Attempt>, StoreError> {
        let mut attempts = Vec::new();
        for row in self.connection.rows::<AttemptRow>(ALL, [])? {
            let Ok(route) = row.route.parse::<Route>() else {
                continue;
            };
            let rest = match (row.account, row.retry_at, row.retry_status) {
                (Some(account), Some(until), Some(status)) => {
                    until.parse().ok().map(|until| RouteRest {
                        account,
                        until,
                        status,
                    })
                }
                _ => None,
            };
            attempts.push(Attempt {
                poller: PollerId {
                    route,
                    business: row.business,
                },
                is_handled: row.is_handled,
                at: row.attempted_at.and_then(|at| at.parse().ok()),
                rest,
            });
        }
        Ok(attempts)
    }
}
