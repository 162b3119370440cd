//! The mirror as it stood at an earlier time, made from the log.
//!
//! The tables and views of the mirror are made again as temporary ones under the same names, which
//! hide the stored ones for this connection. Every read of the mirror then sees the earlier state.

use super::error::StoreError;
use super::job_states;
use super::log;
use super::mirror::{Fields, Mirror, RowFacts};
use super::reader::Reader;
use super::views;
use crate::record::Route;

/// The newest version of each record up to a number of the log.
pub(super) const VERSIONS_AT: &str = "SELECT c.record_id, c.body, c.business, c.seq, c.observed_at, \
     (SELECT f.observed_at FROM changes f WHERE f.route = c.route AND f.record_id = c.record_id \
      ORDER BY f.version LIMIT 1) \
     FROM changes c WHERE c.route = ?1 AND c.seq <= ?2 AND c.kind NOT IN ('gap', 'forgotten') \
     AND NOT EXISTS (SELECT 1 FROM changes n WHERE n.route = c.route AND n.record_id = c.record_id \
     AND n.version > c.version AND n.seq <= ?2)";

/// When the oldest version of each record that still has a version before it gone was observed: at
/// that time and later, the log knows every record.
const COMPLETE_SINCE: &str = "SELECT max(observed_at) FROM (SELECT min(version) AS version, observed_at \
     FROM changes WHERE kind <> 'gap' GROUP BY route, record_id) WHERE version > 1";

/// How far back the log can answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LogReach {
    /// The first change in the log; `None` if it is empty.
    pub first_at: Option<String>,
    /// From this time on the log knows every version of every record that was seen.
    pub complete_since: Option<String>,
}

impl LogReach {
    /// Whether the log knows everything that was mirrored at a time.
    #[must_use]
    pub fn covers(&self, at: &str) -> bool {
        self.complete_since.as_deref().is_some_and(|since| since <= at)
    }
}

impl Reader {
    /// How far back the log can answer.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn log_reach(&self) -> Result<LogReach, StoreError> {
        let first_at: Option<String> = self.connection.query_row(
            "SELECT (SELECT observed_at FROM changes ORDER BY seq LIMIT 1)",
            [],
            |row| row.get(0),
        )?;
        let pruned: Option<String> =
            self.connection.query_row(COMPLETE_SINCE, [], |row| row.get(0))?;
        Ok(LogReach { complete_since: pruned.or_else(|| first_at.clone()), first_at })
    }

    /// From now on, this connection sees the routes as they stood at `stamp`.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn travel_to(&self, stamp: &str, routes: &[Route]) -> Result<(), StoreError> {
        // Rows observed exactly then belong to that time.
        let next = format!("{stamp}\u{7f}");
        let last = log::position_at(&self.connection, &next)?;
        self.connection.execute_batch("BEGIN")?;
        for route in routes {
            self.make_past(*route, last)?;
        }
        views::make_temporary(&self.connection, routes)?;
        // Its sources must be of one time.
        if routes == Route::ALL {
            job_states::make_temporary(&self.connection)?;
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn make_past(&self, route: Route, last: i64) -> Result<(), StoreError> {
        let mirror = Mirror::load(&self.connection, route)?;
        mirror.create_temporary(&self.connection)?;
        let mut statement = self.connection.prepare_cached(VERSIONS_AT)?;
        let mut rows = statement.query((route.as_str(), last))?;
        while let Some(row) = rows.next()? {
            let (id, body): (String, String) = (row.get(0)?, row.get(1)?);
            let business: Option<String> = row.get(2)?;
            let (at, first_seen_at): (String, String) = (row.get(4)?, row.get(5)?);
            let facts = RowFacts {
                id: &id,
                business: business.as_deref(),
                first_seen_at: &first_seen_at,
                at: &at,
                // The log does not know until when the page showed it.
                last_seen_at: Some(&at),
                seq: row.get(3)?,
                via: None,
            };
            mirror.put(&self.connection, &facts, &Fields::of(&body))?;
        }
        Ok(())
    }
}
