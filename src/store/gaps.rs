//! The gaps: intervals in which a poller may have missed records. Each is recorded with its bounds
//! as `open`, then `partly_repaired` and `repaired` as its records are found, or `accepted` by the
//! operator.
//!
//! A gap is repaired only when as many records were found in it as it can hold at most.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::contiguity::{Bounds, Contiguity, Proof};
use shopmirror_core::record::{CLOCK_SKEW, Kind, Page, PollerId, Record};

use super::error::StoreError;
use super::handle::Store;
use super::log::{self, NewChange};
use super::operator::Operator;
use super::pollers::{self, PollerRow};
use super::reader::Reader;
use super::sql::Sql;

/// How sure it is that a gap hides records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Certainty {
    /// Records may have been missed.
    Gap,
    /// There is reason to think that nothing was missed.
    Suspect,
}

impl Certainty {
    /// Its word in the table and in JSON: `suspect`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What became of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GapState {
    /// No record that lies in it was found.
    Open,
    /// Some were found.
    PartlyRepaired,
    /// As many were found as it can hold.
    Repaired,
    /// The operator accepted it.
    Accepted,
}

impl GapState {
    /// Its word in the table and in JSON: `partly_repaired`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An interval in which records of one poller may have been missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gap {
    /// The gap's number.
    pub id: i64,
    /// The route.
    pub route: String,
    /// The business; `None` is the workspace default.
    pub business: Option<String>,
    /// How sure it is that it hides records.
    pub certainty: Certainty,
    /// When it was found.
    pub found_at: String,
    /// The last time the poller was known to be complete.
    pub from_at: String,
    /// When the page after the gap was read.
    pub to_at: String,
    /// The highest id known before the gap, while ids are integers.
    pub after_id: Option<String>,
    /// The lowest id on the page after the gap, while ids are integers.
    pub before_id: Option<String>,
    /// About how many records it holds, while ids are integers.
    pub estimate: Option<i64>,
    /// What became of it.
    pub state: GapState,
    /// Records that lie in it and were found since.
    pub repaired: i64,
    /// What the operator wrote when accepting it.
    pub note: Option<String>,
    /// The log is searched for terms up to here; 0 when it has not been begun.
    #[serde(skip_serializing, default)]
    pub searched_seq: i64,
    /// Searches made for it so far.
    #[serde(skip_serializing, default)]
    pub searches: i64,
}

const SELECT: &str = "SELECT *, nullif(business, '') AS business FROM gaps";

impl Gap {
    /// Whether it is neither repaired nor accepted.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        matches!(self.state, GapState::Open | GapState::PartlyRepaired)
    }

    /// The most records it can hold, while ids are integers.
    #[must_use]
    pub fn most(&self) -> Option<i64> {
        let after = bound(&self.after_id)?;
        let before = bound(&self.before_id)?;
        before.checked_sub(after)?.checked_sub(1)
    }
}

impl Reader {
    /// The gaps, newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn gaps(&self) -> Result<Vec<Gap>, StoreError> {
        Ok(self
            .connection
            .rows(&format!("{SELECT} ORDER BY id DESC LIMIT 10000"), [])?)
    }
}

impl Store {
    /// Remembers up to which row of the log a gap's records were searched for, and with how many
    /// searches.
    ///
    /// # Errors
    /// Nothing is stored; the searches are repeated.
    pub async fn gap_searched(&self, id: i64, seq: i64, searches: i64) -> Result<(), StoreError> {
        self.write(move |writer| {
            writer.connection.run(
                "UPDATE gaps SET searched_seq = :seq, searches = :searches WHERE id = :id",
                named_params! { ":id": id, ":seq": seq, ":searches": searches },
            )?;
            Ok(())
        })
        .await
    }
}

impl Operator {
    /// Accepts gaps that are not repaired, one or all; returns how many.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn accept_gaps(&self, id: Option<i64>, note: Option<&str>) -> Result<usize, StoreError> {
        Ok(self.connection.execute(
            "UPDATE gaps
             SET state = 'accepted', note = coalesce(:note, note)
             WHERE state IN ('open', 'partly_repaired') AND (:id IS NULL OR id = :id)",
            named_params! { ":id": id, ":note": note },
        )?)
    }
}

/// The unsettled gaps of one poller, into which found records are counted.
#[derive(Default)]
pub(super) struct OpenGaps(Vec<(Gap, i64)>);

impl OpenGaps {
    pub(super) fn read(connection: &Connection, poller: &PollerId) -> rusqlite::Result<Self> {
        let of_poller = (poller.route.as_str(), pollers::business_text(poller));
        let gaps: Vec<Gap> = connection.rows(&open_gaps_sql(), of_poller)?;
        Ok(Self(gaps.into_iter().map(|gap| (gap, 0)).collect()))
    }

    /// Counts a record in the gap it lies in; whether there is a gap that may have hidden it.
    pub(super) fn credit(&mut self, page: &Page, record: &Record) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let id = record.id.as_integer();
        let created_at = page.created_at(record);
        let mut may_be_hidden = false;
        for (gap, found) in &mut self.0 {
            match lies_in(gap, id, created_at) {
                Some(true) => {
                    *found += 1;
                    return true;
                }
                Some(false) => {}
                None => may_be_hidden = true,
            }
        }
        may_be_hidden
    }

    pub(super) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (gap, found) in &self.0 {
            if *found == 0 {
                continue;
            }
            let repaired = gap.repaired + found;
            let state = match gap.most() {
                Some(most) if repaired >= most => GapState::Repaired,
                _ => GapState::PartlyRepaired,
            };
            connection.run(
                "UPDATE gaps SET repaired = :repaired, state = :state WHERE id = :id",
                named_params! { ":id": gap.id, ":repaired": repaired, ":state": state.as_str() },
            )?;
        }
        Ok(())
    }
}

/// The unsettled gaps of one poller.
pub(super) fn open_gaps_sql() -> String {
    format!(
        "{SELECT}
        WHERE state IN ('open', 'partly_repaired') AND route = :route AND business = :business
        ORDER BY id
        LIMIT 1000"
    )
}

/// Whether a record lies in a gap: by its id while ids are integers, else by when it was created;
/// `None` if that is not shown.
fn lies_in(gap: &Gap, id: Option<i64>, created_at: Option<Timestamp>) -> Option<bool> {
    // Where ids do not grow, the bounds are no bounds.
    if let (Some(id), Some(after), Some(before)) = (id, bound(&gap.after_id), bound(&gap.before_id))
        && after < before
    {
        return Some(after < id && id < before);
    }
    let at = created_at?;
    let from: Timestamp = gap.from_at.parse().ok()?;
    let to: Timestamp = gap.to_at.parse().ok()?;
    Some(at.duration_since(from) >= -CLOCK_SKEW && to.duration_since(at) >= -CLOCK_SKEW)
}

/// A bound as an integer, if it is one.
fn bound(text: &Option<String>) -> Option<i64> {
    text.as_ref()?.parse().ok()
}

/// The time from one reading of the clock to a later one, between which it may have been set back.
fn in_order<'a>(last: &'a str, now: &'a str) -> (&'a str, &'a str) {
    if last <= now {
        (last, now)
    } else {
        (now, last)
    }
}

/// Records a gap and returns it.
const INSERT: &str = "
    INSERT INTO gaps (
        route, business, certainty, found_at, from_at, to_at, after_id, before_id, estimate
    ) VALUES (
        :route, :business, :certainty, :found_at, :from_at, :to_at, :after_id, :before_id, :estimate
    )
    RETURNING *, nullif(business, '') AS business";

/// Extends the poller's last gap if it is a suspect without bounds, as the new one is, and ends
/// after that one begins. A list whose every record changes between two polls, because of a field
/// that always changes, would otherwise fill the table with one suspect per poll.
const EXTEND_SUSPECT: &str = "
    UPDATE gaps
    SET to_at = :to
    WHERE id = (SELECT max(id) FROM gaps WHERE route = :route AND business = :business)
        AND certainty = 'suspect'
        AND state = 'open'
        AND :from BETWEEN from_at AND to_at
        AND after_id IS NULL";

/// Writes the gap between the last page that was read, if there was one, and a page that proves
/// nothing, with its row in the log. A suspect that goes on from the last one is added to that one,
/// and `None` is returned.
pub(super) fn record(
    connection: &Connection,
    identity: &str,
    poller: &PollerId,
    last: Option<&PollerRow>,
    proof: &Proof,
    at: &str,
) -> rusqlite::Result<Option<Gap>> {
    let last_read_at = match last {
        Some(row) => row.last_success_at.as_str(),
        None => at,
    };
    let (from, to) = in_order(last_read_at, at);
    let certainty = match proof.contiguity {
        Contiguity::Suspect => Certainty::Suspect,
        _ => Certainty::Gap,
    };
    let route = poller.route.as_str();
    let business = pollers::business_text(poller);
    let Bounds {
        after,
        before,
        missed,
    } = proof.bounds;
    if certainty == Certainty::Suspect && after.is_none() {
        let values = named_params! {
            ":route": route,
            ":business": business,
            ":to": to,
            ":from": from,
        };
        if connection.run(EXTEND_SUSPECT, values)? > 0 {
            return Ok(None);
        }
    }
    let new = named_params! {
        ":route": route,
        ":business": business,
        ":certainty": certainty.as_str(),
        ":found_at": at,
        ":from_at": from,
        ":to_at": to,
        ":after_id": after.map(|id| id.to_string()),
        ":before_id": before.map(|id| id.to_string()),
        ":estimate": missed,
    };
    let Some(gap) = connection.row::<Gap>(INSERT, new)? else {
        return Ok(None);
    };
    let body = serde_json::to_string(&gap).expect("a gap holds plain values");
    log::append(
        connection,
        identity,
        &NewChange {
            route: poller.route,
            record_id: "",
            kind: Kind::Gap,
            version: gap.id,
            observed_at: at,
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
        assert_eq!(
            in_order("2026-01-02", "2026-01-03"),
            ("2026-01-02", "2026-01-03")
        );
        assert_eq!(
            in_order("2026-01-03", "2026-01-02"),
            ("2026-01-02", "2026-01-03")
        );
    }
}
