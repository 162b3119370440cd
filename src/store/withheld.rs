//! Records that are gone from their list: those that the mirror marks, and those that still count,
//! in the table `_withheld`.
//!
//! More than ten of a list in a day are rather a filter, or a key that may read less. The operator
//! answers: they are gone, or the list hides records, and nothing of its route is marked any more.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::{second, stamp};
use shopmirror_core::record::{Kind, PollerId, Route};
use shopmirror_core::vanishing::Candidate;

use super::error::StoreError;
use super::identity::Identities;
use super::log::{self, NewChange};
use super::operator::Operator;
use super::pollers;
use super::reader::Reader;
use super::sql::Sql;
use crate::store::mirror::{Mirror, job_states};

/// The records of one list that are gone from it and still count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Withheld {
    /// The route.
    pub route: String,
    /// The business; `None` is the workspace default.
    pub business: Option<String>,
    /// How many they are.
    pub records: i64,
    /// When the first page was read that lacked one of them.
    pub since: String,
}

/// Whether records of a route are withheld.
pub(super) fn exist(connection: &Connection, route: Route) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM _withheld WHERE route = :route)";
    connection.value(sql, named_params! { ":route": route.as_str() })
}

/// Whether the operator said that the lists of a route hide records.
pub(super) fn is_hiding(connection: &Connection, route: Route) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM _hiding_routes WHERE route = :route)";
    connection.value(sql, named_params! { ":route": route.as_str() })
}

/// Adds a record.
pub(super) fn add(
    connection: &Connection,
    poller: &PollerId,
    candidate: &Candidate,
) -> rusqlite::Result<()> {
    connection.run(
        "INSERT OR IGNORE INTO _withheld (route, record_id, business, since)
         VALUES (:route, :id, :business, :since)",
        named_params! {
            ":route": poller.route.as_str(),
            ":id": candidate.id,
            ":business": pollers::business_text(poller),
            ":since": stamp(candidate.since),
        },
    )?;
    Ok(())
}

/// Removes a record, which was shown.
pub(super) fn remove(connection: &Connection, route: Route, id: &str) -> rusqlite::Result<()> {
    connection.run(
        REMOVE,
        named_params! { ":route": route.as_str(), ":id": id },
    )?;
    Ok(())
}

pub(super) const REMOVE: &str = "DELETE FROM _withheld WHERE route = :route AND record_id = :id";

/// Counts the records of a route that are gone from its list, of one business and created between
/// two times if they are given.
pub(super) fn count_vanished_sql(route: Route) -> String {
    format!(
        "SELECT count(*)
        FROM main.\"{route}\"
        WHERE _vanished_at > ''
            AND (:business IS NULL OR coalesce(_business, :default) = :business)
            AND (:from IS NULL OR _created_at IS NULL OR _created_at BETWEEN :from AND :to)"
    )
}

/// Writes that a record has vanished, after its latest version: a row of the log with its last text,
/// and the mark in the mirror. Returns the jobs whose states may be others now.
pub(super) fn mark(
    connection: &Connection,
    identities: &Identities,
    change: &NewChange<'_>,
    after: i64,
) -> rusqlite::Result<Vec<String>> {
    let seq = log::append(connection, identities.for_next(Some(after)), change)?;
    let mirror = Mirror::load(connection, change.route)?;
    mirror.mark_vanished(connection, change.record_id, change.observed_at, seq)?;
    mirror.jobs_of(connection, change.record_id)
}

impl Reader {
    /// How many records of a route are gone from its list, of one business and created between two
    /// times if they are given.
    pub fn vanished(
        &self,
        route: Route,
        business: Option<(&str, Option<&str>)>,
        times: Option<(Timestamp, Timestamp)>,
    ) -> Result<i64, StoreError> {
        let sql = count_vanished_sql(route);
        let values = named_params! {
            ":business": business.map(|(asked, _)| asked),
            ":default": business.and_then(|(_, default)| default),
            ":from": times.map(|(from, _)| second(from)),
            ":to": times.map(|(_, to)| second(to)),
        };
        Ok(self.connection.value(&sql, values)?)
    }

    /// The lists with records that are gone from them and still count.
    pub fn withheld(&self) -> Result<Vec<Withheld>, StoreError> {
        let sql = "
            SELECT route, nullif(business, '') AS business, count(*) AS records, min(since) AS since
            FROM _withheld
            GROUP BY route, business
            ORDER BY route, business
            LIMIT 1000";
        Ok(self.connection.rows(sql, [])?)
    }
}

impl Operator {
    /// Marks the withheld records of a route as vanished, and lets its lists be watched again;
    /// returns how many.
    pub fn accept_vanished(&mut self, route: Route, at: &str) -> Result<usize, StoreError> {
        let tx = self.write_tx()?;
        let identities = Identities::read(&tx)?;
        let of_route = "
            SELECT record_id
            FROM _withheld
            WHERE route = :route
            ORDER BY record_id";
        let ids: Vec<String> = tx.values(of_route, named_params! { ":route": route.as_str() })?;
        let mut jobs = Vec::new();
        let mut marked = 0;
        for id in &ids {
            let Some(latest) = log::latest_version(&tx, route, id)? else {
                continue;
            };
            if matches!(latest.kind, Kind::Vanished | Kind::Forgotten) {
                continue;
            }
            let change = NewChange {
                route,
                record_id: id,
                kind: Kind::Vanished,
                version: latest.version + 1,
                observed_at: at,
                business: latest.business.as_deref(),
                body: &latest.body,
            };
            jobs.extend(mark(&tx, &identities, &change, latest.seq)?);
            marked += 1;
        }
        forget_withheld(&tx, route)?;
        tx.run(
            "DELETE FROM _hiding_routes WHERE route = :route",
            named_params! { ":route": route.as_str() },
        )?;
        job_states::refresh(&tx, &jobs)?;
        tx.commit()?;
        Ok(marked)
    }

    /// Notes that the lists of a route hide records: those that are withheld count on, and nothing
    /// is marked any more. Returns how many were withheld.
    pub fn accept_hidden(&mut self, route: Route) -> Result<usize, StoreError> {
        let tx = self.write_tx()?;
        let records = forget_withheld(&tx, route)?;
        tx.run(
            "INSERT OR IGNORE INTO _hiding_routes (route) VALUES (:route)",
            named_params! { ":route": route.as_str() },
        )?;
        tx.commit()?;
        Ok(records)
    }
}

fn forget_withheld(connection: &Connection, route: Route) -> rusqlite::Result<usize> {
    connection.run(
        "DELETE FROM _withheld WHERE route = :route",
        named_params! { ":route": route.as_str() },
    )
}
