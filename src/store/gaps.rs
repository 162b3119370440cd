//! The life of a gap: recorded with its bounds as `open`, then `partly_repaired` and `repaired` as
//! its records are found, or `accepted` by the operator.
//!
//! A gap is repaired only when as many records were found in it as it can hold at most.

use jiff::Timestamp;
use rusqlite::Connection;

use super::error::StoreError;
use super::handle::Store;
use super::ledger::{self, Certainty, Gap, GapState};
use super::log::{self, NewChange};
use super::pollers::PollerRow;
use crate::contiguity::{Contiguity, Proof};
use crate::record::{CLOCK_SKEW, Kind, PollerId, Record, Route};

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
        before.checked_sub(after)?.checked_sub(1)
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
        Ok(Repairable { gap: Gap::read(row)?, searched_seq: row.get(13)?, searches: row.get(14)? })
    })?;
    rows.collect()
}

impl Store {
    /// Remembers up to which row of the log a gap's records were searched for, and with how many searches.
    ///
    /// # Errors
    /// Nothing is stored; the searches are repeated.
    pub async fn gap_searched(&self, id: i64, seq: i64, searches: i64) -> Result<(), StoreError> {
        self.write(move |writer| Ok(searched(&writer.connection, id, seq, searches)?)).await
    }
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

/// The gap between the last page that was read, if there was one, and a page that proves nothing.
pub(super) fn found(poller: &PollerId, last: Option<&PollerRow>, proof: &Proof, at: &str) -> Gap {
    let (from, to) = in_order(last.map_or(at, |row| row.last_success_at.as_str()), at);
    Gap {
        id: 0,
        route: poller.route.as_str().to_owned(),
        business: poller.business.clone(),
        certainty: match proof.contiguity {
            Contiguity::Suspect => Certainty::Suspect,
            _ => Certainty::Gap,
        },
        found_at: at.to_owned(),
        from_at: from.to_owned(),
        to_at: to.to_owned(),
        after_id: proof.bounds.after.map(|id| id.to_string()),
        before_id: proof.bounds.before.map(|id| id.to_string()),
        estimate: proof.bounds.missed,
        state: GapState::Open,
        repaired: 0,
        note: None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_turns_no_span_around() {
        assert_eq!(in_order("2026-01-02", "2026-01-03"), ("2026-01-02", "2026-01-03"));
        assert_eq!(in_order("2026-01-03", "2026-01-02"), ("2026-01-02", "2026-01-03"));
    }
}
