//! The life of a gap: `open`, then `partly_repaired` and `repaired` as its records are found, or
//! `accepted` by the operator.
//!
//! A gap is repaired only when as many records were found in it as it can hold at most.

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::error::StoreError;
use super::ledger::Gap;
use crate::record::{Record, Route};

/// How far the workspace's clock may be from ours.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// Ids before a gap that the density is reckoned from.
const HISTORY: i64 = 5_000;
/// Standard deviations of the error that is told with an estimate.
const SIGMAS: f64 = 2.0;

impl Gap {
    /// Whether its records are still missing as far as anybody knows.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        matches!(self.state.as_str(), "open" | "partly_repaired")
    }

    /// The most records it can hold, while ids are integers.
    #[must_use]
    pub fn most(&self) -> Option<i64> {
        let (after, before): (i64, i64) =
            (self.after_id.as_ref()?.parse().ok()?, self.before_id.as_ref()?.parse().ok()?);
        let ids = before.checked_sub(after)?.checked_sub(1)?;
        Some(ids.min(self.estimate?.saturating_add(self.estimate_error?)))
    }
}

/// A gap whose records may be found by search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repairable {
    /// The gap.
    pub gap: Gap,
    /// The log is searched for terms up to here; 0 when it has not been begun.
    pub searched_seq: i64,
    /// Searches made for it so far.
    pub searches: i64,
}

pub(super) fn repairable(
    connection: &Connection,
    route: Route,
    since: &str,
) -> rusqlite::Result<Vec<Repairable>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {}, searched_seq, searches FROM gaps WHERE state IN ('open', 'partly_repaired') \
         AND route = ?1 AND found_at >= ?2 ORDER BY id LIMIT 1000",
        super::ledger::COLUMNS
    ))?;
    let rows = statement.query_map((route.as_str(), since), |row| {
        Ok(Repairable { gap: Gap::read(row)?, searched_seq: row.get(14)?, searches: row.get(15)? })
    })?;
    rows.collect()
}

/// Remembers how far a gap was searched for.
pub(super) fn searched(
    connection: &Connection,
    id: i64,
    seq: i64,
    searches: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE gaps SET searched_seq = ?2, searches = ?3 WHERE id = ?1")?
        .execute((id, seq, searches))?;
    Ok(())
}

/// Accepts unsettled gaps, one or all; returns how many.
pub(super) fn accept(
    connection: &Connection,
    id: Option<i64>,
    note: Option<&str>,
) -> Result<usize, StoreError> {
    Ok(connection.execute(
        "UPDATE gaps SET state = 'accepted', note = coalesce(?2, note) \
         WHERE state IN ('open', 'partly_repaired') AND (?1 IS NULL OR id = ?1)",
        (id, note),
    )?)
}

/// Where a record lies beside the unsettled gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Inside,
    Outside,
    /// There is a gap, and nothing says whether the record lies in it.
    Unknown,
}

/// The unsettled gaps of one poller, into which found records are counted.
pub(super) struct Holes(Vec<Hole>);

struct Hole {
    gap: Gap,
    found: i64,
}

impl Holes {
    pub(super) fn open(
        connection: &Connection,
        route: Route,
        business: Option<&str>,
    ) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM gaps WHERE state IN ('open', 'partly_repaired') AND route = ?1 AND business = ?2 \
             ORDER BY id LIMIT 1000",
            super::ledger::COLUMNS
        ))?;
        let rows = statement.query_map((route.as_str(), business.unwrap_or("")), |row| {
            Ok(Hole { gap: Gap::read(row)?, found: 0 })
        })?;
        rows.collect::<rusqlite::Result<_>>().map(Self)
    }

    /// Counts a record in the gap it lies in.
    pub(super) fn credit(&mut self, record: &Record, created_at: Option<Timestamp>) -> Place {
        let id = record.id.as_integer();
        let mut place = Place::Outside;
        for hole in &mut self.0 {
            match lies_in(&hole.gap, id, created_at) {
                Some(true) => {
                    hole.found += 1;
                    return Place::Inside;
                }
                Some(false) => {}
                None => place = Place::Unknown,
            }
        }
        place
    }

    pub(super) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        for Hole { gap, found } in self.0.iter().filter(|hole| hole.found > 0) {
            let repaired = gap.repaired + found;
            let whole = gap.most().is_some_and(|most| repaired >= most);
            let state = if whole { "repaired" } else { "partly_repaired" };
            connection
                .prepare_cached("UPDATE gaps SET repaired = ?2, state = ?3 WHERE id = ?1")?
                .execute((gap.id, repaired, state))?;
        }
        Ok(())
    }
}

/// By its id while ids are integers, else by when it was made, if that is shown.
fn lies_in(gap: &Gap, id: Option<i64>, created_at: Option<Timestamp>) -> Option<bool> {
    let bound = |text: &Option<String>| text.as_ref()?.parse::<i64>().ok();
    if let (Some(id), Some(after), Some(before)) = (id, bound(&gap.after_id), bound(&gap.before_id))
    {
        return Some(after < id && id < before);
    }
    let at = created_at?;
    let (from, to): (Timestamp, Timestamp) = (gap.from_at.parse().ok()?, gap.to_at.parse().ok()?);
    Some(at.duration_since(from) >= -SKEW && to.duration_since(at) >= -SKEW)
}

/// How many of the `between` ids of a gap are records, and the error of that, from `seen` ids of
/// records among `span` ids in stretches without a gap.
pub(super) fn estimate(between: i64, seen: i64, span: i64) -> (i64, i64) {
    if between <= 0 || seen <= 0 || span <= 0 {
        return (between.max(0), between.max(0));
    }
    let (between_f, span_f) = (between as f64, span as f64);
    let density = (seen as f64 / span_f).min(1.0);
    // Chance in this gap, and what the density itself is unsure of: at the least one id of its span.
    let spread = density * (1.0 - density);
    let unsure = (spread / span_f).sqrt().max(1.0 / span_f);
    let deviation = (between_f * spread + (between_f * unsure).powi(2)).sqrt();
    ((between_f * density).round() as i64, ((SIGMAS * deviation).round() as i64).min(between))
}

/// Ids of records and the ids they span just before `high_id`, since the gap before this one.
pub(super) fn history(
    connection: &Connection,
    route: Route,
    business: &str,
    high_id: i64,
) -> rusqlite::Result<(i64, i64)> {
    let floor: Option<i64> = connection
        .prepare_cached(
            "SELECT max(CAST(before_id AS INTEGER)) FROM gaps WHERE route = ?1 AND business = ?2",
        )?
        .query_row((route.as_str(), business), |row| row.get(0))?;
    let from = floor.unwrap_or(i64::MIN).max(high_id.saturating_sub(HISTORY));
    let (seen, low): (i64, Option<i64>) = connection
        .prepare_cached(&format!(
            "SELECT count(*), min(CAST(id AS INTEGER)) FROM \"{route}\" WHERE _via IS NULL \
             AND coalesce(_business, '') = ?1 AND id NOT GLOB '*[^0-9]*' AND CAST(id AS INTEGER) BETWEEN ?2 AND ?3"
        ))?
        .query_row((business, from, high_id), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((seen, low.map_or(0, |low| high_id - low + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_how_densely_ids_are_used_and_tells_its_error() {
        assert_eq!(estimate(10, 200, 200), (10, 0));
        assert_eq!(estimate(400, 100, 100), (400, 8));
        // Three branches share the ids: a third of them are ours.
        let (records, error) = estimate(300, 100, 300);
        assert_eq!(records, 100);
        assert!((15..30).contains(&error), "{error}");
        // Nothing to reckon from: anything is possible.
        assert_eq!(estimate(7, 0, 0), (7, 7));
    }
}
