//! The contiguity ledger: what a page proves about the time since the page before.
//!
//! A page proves that nothing was missed when it shares an id with the page before of the same
//! poller, or when it holds fewer records than were asked for. The order of the page is never
//! trusted, and ids that came from search prove nothing.

use rusqlite::{Connection, Row};
use serde::Serialize;

use crate::contiguity::Contiguity;
use crate::record::PollerId;

/// What the classification rests on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// Whether the poller had a page before.
    pub(super) polled_before: bool,
    /// Whether that page held records.
    pub(super) knew_records: bool,
    /// Records on this page.
    pub(super) records: usize,
    /// Records asked for.
    pub(super) limit: usize,
    /// Ids on this page that were on the poller's page before.
    pub(super) overlap: usize,
    /// The highest integer id known, and the lowest above it and the highest on the page, while all
    /// are integers.
    pub(super) high_id: Option<i64>,
    pub(super) page_ids: Option<(i64, i64)>,
}

impl Evidence {
    pub(super) fn classify(&self) -> Contiguity {
        if !self.polled_before {
            return Contiguity::Baseline;
        }
        if self.overlap > 0 {
            return if self.records < self.limit {
                Contiguity::Complete
            } else {
                Contiguity::Contiguous
            };
        }
        if self.records < self.limit {
            // A whole list would still show what was on the page before: nothing on this API
            // deletes. A server that holds pages shorter than asked for looks just like this.
            return if self.knew_records { Contiguity::Suspect } else { Contiguity::Complete };
        }
        if self.ids_between() == Some(0) { Contiguity::Suspect } else { Contiguity::Gap }
    }

    /// How many ids lie in the hole; only while ids are integers that grow.
    pub(super) fn ids_between(&self) -> Option<i64> {
        let (lowest, _) = self.page_ids?;
        let between = lowest.checked_sub(self.high_id?)?.checked_sub(1)?;
        (between >= 0).then_some(between)
    }
}

/// An interval in which records of one poller may have been missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The gap's number.
    pub id: i64,
    /// The route.
    pub route: String,
    /// The branch; `None` is the workspace default.
    pub business: Option<String>,
    /// `gap`, or `suspect` when there is reason to think that nothing is missing.
    pub certainty: String,
    /// When it was found.
    pub found_at: String,
    /// The last time the poller was known to be complete.
    pub from_at: String,
    /// When the page after it was read.
    pub to_at: String,
    /// The highest id known before it, while ids are integers.
    pub after_id: Option<String>,
    /// The lowest id on the page after it, while ids are integers.
    pub before_id: Option<String>,
    /// How many records it may hold, while ids are integers.
    pub estimate: Option<i64>,
    /// How far off that may be, either way; two standard deviations.
    pub estimate_error: Option<i64>,
    /// `open`, `partly_repaired`, `repaired` or `accepted`.
    pub state: String,
    /// Records found since that lie in it.
    pub repaired: i64,
    /// What the operator wrote when accepting it.
    pub note: Option<String>,
}

/// The columns [`Gap::read`] reads.
pub(super) const COLUMNS: &str = "id, route, nullif(business, ''), certainty, found_at, from_at, to_at, \
     after_id, before_id, estimate, estimate_error, state, repaired, note";

impl Gap {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            route: row.get(1)?,
            business: row.get(2)?,
            certainty: row.get(3)?,
            found_at: row.get(4)?,
            from_at: row.get(5)?,
            to_at: row.get(6)?,
            after_id: row.get(7)?,
            before_id: row.get(8)?,
            estimate: row.get(9)?,
            estimate_error: row.get(10)?,
            state: row.get(11)?,
            repaired: row.get(12)?,
            note: row.get(13)?,
        })
    }
}

/// Adds a gap; the number in `gap.id` is ignored and the new one returned.
pub(super) fn insert(connection: &Connection, key: &PollerId, gap: &Gap) -> rusqlite::Result<i64> {
    connection.prepare_cached(
        "INSERT INTO gaps (route, business, certainty, found_at, from_at, to_at, after_id, before_id, estimate, estimate_error) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .insert((
        key.route.as_str(),
        super::pollers::business_text(key),
        &gap.certainty,
        &gap.found_at,
        &gap.from_at,
        &gap.to_at,
        &gap.after_id,
        &gap.before_id,
        gap.estimate,
        gap.estimate_error,
    ))
}

/// The gaps, newest first.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Gap>> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM gaps ORDER BY id DESC LIMIT 10000"))?;
    let rows = statement.query_map([], Gap::read)?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Evidence = Evidence {
        polled_before: true,
        knew_records: true,
        records: 100,
        limit: 100,
        overlap: 0,
        high_id: Some(1000),
        page_ids: Some((1008, 1107)),
    };

    #[test]
    fn one_shared_id_proves_a_full_page() {
        assert_eq!(Evidence { overlap: 1, ..FULL }.classify(), Contiguity::Contiguous);
        assert_eq!(FULL.classify(), Contiguity::Gap);
        assert_eq!(FULL.ids_between(), Some(7));
    }

    #[test]
    fn a_short_page_is_the_whole_list_unless_it_forgot_what_was_there() {
        let short = Evidence { records: 99, ..FULL };
        assert_eq!(Evidence { overlap: 30, ..short }.classify(), Contiguity::Complete);
        assert_eq!(short.classify(), Contiguity::Suspect);
        assert_eq!(Evidence { knew_records: false, ..short }.classify(), Contiguity::Complete);
        let empty = Evidence { records: 0, ..short };
        assert_eq!(empty.classify(), Contiguity::Suspect);
        assert_eq!(Evidence { knew_records: false, ..empty }.classify(), Contiguity::Complete);
    }

    #[test]
    fn ids_that_follow_on_make_a_gap_only_suspect() {
        let adjoining = Evidence { page_ids: Some((1001, 1100)), ..FULL };
        assert_eq!(adjoining.classify(), Contiguity::Suspect);
        let text_ids = Evidence { page_ids: None, ..FULL };
        assert_eq!(text_ids.classify(), Contiguity::Gap);
        assert_eq!(text_ids.ids_between(), None);
    }

    #[test]
    fn the_first_page_is_a_baseline() {
        assert_eq!(Evidence { polled_before: false, ..FULL }.classify(), Contiguity::Baseline);
    }
}
