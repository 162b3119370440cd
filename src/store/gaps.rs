//! The life of a gap: recorded with its bounds as `open`, then `partly_repaired` and `repaired` as
//! its records are found, or `accepted` by the operator.
//!
//! A gap is repaired only when as many records were found in it as it can hold at most.

use jiff::Timestamp;
use rusqlite::Connection;

use super::error::StoreError;
use super::known::KnownPoller;
use super::ledger::{self, Certainty, Gap, GapState};
use super::log::{self, NewChange};
use super::pollers;
use crate::contiguity::{Contiguity, Proof};
use crate::record::{CLOCK_SKEW, Kind, Page, PollerId, Record, Route};

/// Ids before a gap that the density is reckoned from.
const HISTORY: i64 = 5_000;
/// Standard deviations of the error that is shown with an estimate.
const SIGMAS: f64 = 2.0;

impl Gap {
    /// Whether it is neither repaired nor accepted.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        matches!(self.state, GapState::Open | GapState::PartlyRepaired)
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
pub(super) enum GapPlace {
    Inside,
    Outside,
    /// There is a gap, and nothing says whether the record lies in it.
    Unknown,
}

/// The unsettled gaps of one poller, into which found records are counted.
pub(super) struct OpenGaps(Vec<OpenGap>);

struct OpenGap {
    gap: Gap,
    found: i64,
}

impl OpenGaps {
    pub(super) fn read(
        connection: &Connection,
        route: Route,
        business: Option<&str>,
    ) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(&open_gaps_sql())?;
        let rows = statement.query_map((route.as_str(), business.unwrap_or("")), |row| {
            Ok(OpenGap { gap: Gap::read(row)?, found: 0 })
        })?;
        rows.collect::<rusqlite::Result<_>>().map(Self)
    }

    /// Counts a record in the gap it lies in.
    pub(super) fn credit(&mut self, record: &Record) -> GapPlace {
        let (id, created_at) = (record.id.as_integer(), record.created_at);
        let mut place = GapPlace::Outside;
        for open in &mut self.0 {
            match lies_in(&open.gap, id, created_at) {
                Some(true) => {
                    open.found += 1;
                    return GapPlace::Inside;
                }
                Some(false) => {}
                None => place = GapPlace::Unknown,
            }
        }
        place
    }

    pub(super) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        for OpenGap { gap, found } in self.0.iter().filter(|open| open.found > 0) {
            let repaired = gap.repaired + found;
            let whole = gap.most().is_some_and(|most| repaired >= most);
            let state = if whole { GapState::Repaired } else { GapState::PartlyRepaired };
            connection
                .prepare_cached("UPDATE gaps SET repaired = ?2, state = ?3 WHERE id = ?1")?
                .execute((gap.id, repaired, state.as_str()))?;
        }
        Ok(())
    }
}

pub(super) fn open_gaps_sql() -> String {
    format!(
        "SELECT {} FROM gaps WHERE state IN ('open', 'partly_repaired') AND route = ?1 AND business = ?2 \
         ORDER BY id LIMIT 1000",
        ledger::COLUMNS
    )
}

/// By its id while ids are integers, else by when it was made, if that is shown.
fn lies_in(gap: &Gap, id: Option<i64>, created_at: Option<Timestamp>) -> Option<bool> {
    let bound = |text: &Option<String>| text.as_ref()?.parse::<i64>().ok();
    // Where ids do not grow, the bounds are no bounds.
    if let (Some(id), Some(after), Some(before)) = (id, bound(&gap.after_id), bound(&gap.before_id))
        && after < before
    {
        return Some(after < id && id < before);
    }
    let at = created_at?;
    let (from, to): (Timestamp, Timestamp) = (gap.from_at.parse().ok()?, gap.to_at.parse().ok()?);
    Some(at.duration_since(from) >= -CLOCK_SKEW && to.duration_since(at) >= -CLOCK_SKEW)
}

/// The gap between what the poller knew and a page that proves nothing.
pub(super) fn found(
    connection: &Connection,
    poller: &PollerId,
    known: Option<&KnownPoller>,
    proof: &Proof,
    page: &Page,
    stamp: &str,
) -> rusqlite::Result<Gap> {
    let high_id = known.and_then(|known| known.row.high_id);
    let bounds = proof.bounds;
    let estimate = match (bounds.after, bounds.before, high_id) {
        (Some(after), Some(before), Some(high_id)) => {
            let (seen, span) = history(connection, poller, high_id)?;
            let regular = bounds.regular_from.map_or((0, 0), |from| ids_of(page, from, i64::MAX));
            // The usual holes above the last wide one are the example, not what is reckoned.
            let end = bounds.regular_from.unwrap_or(before);
            let (shown, _) = ids_of(page, after.saturating_add(1), end.saturating_sub(1));
            let between = end.saturating_sub(after).saturating_sub(1);
            Some(estimate(between, shown, seen + regular.0, span.saturating_add(regular.1)))
        }
        _ => None,
    };
    let last = known.map_or(stamp, |k| k.row.last_success_at.as_str());
    let (from, to) = in_order(last, stamp);
    Ok(Gap {
        id: 0,
        route: poller.route.as_str().to_owned(),
        business: poller.business.clone(),
        certainty: match proof.contiguity {
            Contiguity::Suspect => Certainty::Suspect,
            _ => Certainty::Gap,
        },
        found_at: stamp.to_owned(),
        from_at: from.to_owned(),
        to_at: to.to_owned(),
        after_id: bounds.after.map(|id| id.to_string()),
        before_id: bounds.before.map(|id| id.to_string()),
        estimate: estimate.map(|(records, _)| records),
        estimate_error: estimate.map(|(_, error)| error),
        state: GapState::Open,
        repaired: 0,
        note: None,
    })
}

/// How many ids of a page lie from `low` to `high`, and how many ids there are from `low` to the
/// highest of them.
fn ids_of(page: &Page, low: i64, high: i64) -> (i64, i64) {
    let range = low..=high;
    let ids =
        || page.records().iter().filter_map(|r| r.id.as_integer()).filter(|id| range.contains(id));
    let span = ids().max().map_or(0, |last| last.saturating_sub(low).saturating_add(1));
    (i64::try_from(ids().count()).unwrap_or(i64::MAX), span)
}

/// The time from one reading of the clock to a later one, between which it may have been set back.
fn in_order<'a>(last: &'a str, now: &'a str) -> (&'a str, &'a str) {
    if last <= now { (last, now) } else { (now, last) }
}

/// Writes a gap and its row in the log; returns it with its number. A suspect that goes on from
/// the last one is added to that one, and `None` is returned.
pub(super) fn record(
    connection: &Connection,
    identity: &str,
    poller: &PollerId,
    mut gap: Gap,
) -> rusqlite::Result<Option<Gap>> {
    if gap.certainty == Certainty::Suspect && ledger::extend_suspect(connection, poller, &gap)? {
        return Ok(None);
    }
    gap.id = ledger::insert(connection, poller, &gap)?;
    let body = serde_json::to_string(&gap).expect("a gap holds plain values");
    log::append(
        connection,
        identity,
        &NewChange {
            route: poller.route,
            record_id: "",
            kind: Kind::Gap,
            version: gap.id,
            observed_at: &gap.found_at,
            business: poller.business.as_deref(),
            body: &body,
        },
    )?;
    Ok(Some(gap))
}

/// How many records of the `between` ids of a gap are missed, given that `shown` of them are not,
/// and the error of that, from `seen` ids of records among `span` ids in stretches without a gap.
fn estimate(between: i64, shown: i64, seen: i64, span: i64) -> (i64, i64) {
    let hidden = between.saturating_sub(shown).max(0);
    if hidden == 0 || seen <= 0 || span <= 0 {
        return (hidden, hidden);
    }
    let (between_f, span_f) = (between as f64, span as f64);
    let density = (seen as f64 / span_f).min(1.0);
    // Chance in this gap, and what the density itself is unsure of: at the least one id of its span.
    let spread = density * (1.0 - density);
    let unsure = (spread / span_f).sqrt().max(1.0 / span_f);
    let deviation = (between_f * spread + (between_f * unsure).powi(2)).sqrt();
    let missed = (between_f * density).round() as i64 - shown;
    (missed.clamp(0, hidden), ((SIGMAS * deviation).round() as i64).min(hidden))
}

/// Ids of records and the ids they span just before `high_id`, since the gap before this one.
fn history(
    connection: &Connection,
    poller: &PollerId,
    high_id: i64,
) -> rusqlite::Result<(i64, i64)> {
    let (route, business) = (poller.route, pollers::business_text(poller));
    let floor: Option<i64> = connection
        .prepare_cached(
            "SELECT max(CAST(before_id AS INTEGER)) FROM gaps WHERE route = ?1 AND business = ?2",
        )?
        .query_row((route.as_str(), business), |row| row.get(0))?;
    let from = floor.unwrap_or(i64::MIN).max(high_id.saturating_sub(HISTORY));
    let (seen, low): (i64, Option<i64>) = connection
        .prepare_cached(&history_sql(route))?
        .query_row((business, from, high_id), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((seen, low.map_or(0, |low| high_id - low + 1)))
}

/// Looks up each id of the stretch: to compare every row's id as a number would read the table.
pub(super) fn history_sql(route: Route) -> String {
    format!(
        "WITH RECURSIVE ids (n) AS (SELECT ?3 WHERE ?3 >= ?2 UNION ALL SELECT ids.n - 1 FROM ids WHERE ids.n > ?2) \
         SELECT count(*), min(ids.n) FROM ids JOIN \"{route}\" m ON m.id = CAST(ids.n AS TEXT) \
         WHERE m._via IS NULL AND coalesce(m._business, '') = ?1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_turns_no_span_around() {
        assert_eq!(in_order("2026-01-02", "2026-01-03"), ("2026-01-02", "2026-01-03"));
        assert_eq!(in_order("2026-01-03", "2026-01-02"), ("2026-01-02", "2026-01-03"));
    }

    #[test]
    fn an_estimate_follows_how_densely_ids_are_used_and_tells_its_error() {
        assert_eq!(estimate(10, 0, 200, 200), (10, 0));
        assert_eq!(estimate(400, 0, 100, 100), (400, 8));
        // Three branches share the ids: a third of them are ours.
        let (records, error) = estimate(300, 0, 100, 300);
        assert_eq!(records, 100);
        assert!((15..30).contains(&error), "{error}");
        // Nothing to reckon from: anything is possible.
        assert_eq!(estimate(7, 0, 0, 0), (7, 7));
        // A third of the ids are ours, and the page shows nearly as many.
        assert_eq!(estimate(300, 95, 1_000, 3_000).0, 5);
        assert_eq!(estimate(300, 120, 1_000, 3_000).0, 0);
    }
}
