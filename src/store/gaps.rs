//! The gaps: intervals in which a poller may have missed records. Each is recorded with its bounds
//! as `open`, then `partly_repaired` and `repaired` as its records are found, or `accepted` by the
//! operator.
//!
//! A gap is repaired only when as many records were found in it as it can hold at most.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;
use shopmirror_core::contiguity::{Contiguity, Proof};
use shopmirror_core::record::{CLOCK_SKEW, Kind, LeftOut, Page, PollerId, Record};

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
    /// Since when its records were created: the last time the poller was known to be complete.
    pub from_at: String,
    /// Until when they were created: when the page after the gap was read, or when the oldest record
    /// of that page was created.
    pub to_at: String,
    /// The highest id known before the gap, while ids are integers.
    pub after_id: Option<String>,
    /// The lowest id above the gap, while ids are integers; `None` until it is shown.
    pub before_id: Option<String>,
    /// About how many records it holds, while ids are integers.
    pub estimate: Option<i64>,
    /// What became of it.
    pub state: GapState,
    /// Records that lie in it and were found since.
    pub repaired: i64,
    /// What the operator wrote when accepting it.
    pub note: Option<String>,
    /// The oldest date of an import that the page after the gap shows a part of.
    pub imported_from: Option<String>,
    /// Whether missed records of that import may be older still.
    pub import_may_be_older: bool,
    /// The JSON text of the id of the one record that the gap is about: it is shown, and cannot be
    /// stored, because its id holds a NUL.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out_id: Option<String>,
    /// Ids between the bounds that the page after the gap shows.
    #[serde(skip_serializing, default)]
    pub shown: i64,
    /// The highest of these.
    #[serde(skip_serializing, default)]
    pub shown_to: Option<i64>,
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

    /// When the page after it was read.
    #[must_use]
    pub fn read_at(&self) -> &str {
        // A suspect may have been extended since it was found.
        self.found_at.as_str().max(self.to_at.as_str())
    }

    /// The most records it can hold, while ids are integers.
    #[must_use]
    pub fn most(&self) -> Option<i64> {
        if self.left_out_id.is_some() {
            return Some(1);
        }
        let after = bound(&self.after_id)?;
        let before = bound(&self.before_id)?;
        before
            .checked_sub(after)?
            .checked_sub(1)?
            .checked_sub(self.shown)
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
        self.run(
            "UPDATE gaps
             SET state = 'accepted', note = coalesce(:note, note)
             WHERE state IN ('open', 'partly_repaired') AND (:id IS NULL OR id = :id)",
            named_params! { ":id": id, ":note": note },
        )
    }
}

/// The unsettled gaps of one poller, into which found records are counted. None is found that was
/// left out.
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

    /// How many records were found so far.
    pub(super) fn found(&self) -> i64 {
        self.0.iter().map(|(_, found)| found).sum()
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
            AND left_out_id IS NULL
        ORDER BY id
        LIMIT 1000"
    )
}

/// Whether a record lies in a gap: by its id while ids are integers, else by when it was created;
/// `None` if that is not shown.
fn lies_in(gap: &Gap, id: Option<i64>, created_at: Option<Timestamp>) -> Option<bool> {
    if let (Some(id), Some(after)) = (id, bound(&gap.after_id)) {
        if id <= after {
            return Some(false);
        }
        match bound(&gap.before_id) {
            Some(before) if after < before => return Some(id < before),
            // Where ids do not grow, the bounds are no bounds.
            Some(_) => {}
            None if gap.shown_to.is_some_and(|highest| id < highest) => return Some(true),
            // Of an import, all that was created before the page.
            None if gap.imported_from.is_some() => return was_created_by(&gap.to_at, created_at),
            None => {}
        }
    }
    let from: Timestamp = gap.from_at.parse().ok()?;
    let is_after = created_at?.duration_since(from) >= -CLOCK_SKEW;
    Some(is_after && was_created_by(&gap.to_at, created_at)?)
}

/// Whether a record was created before this time; `None` if that is not shown.
fn was_created_by(time: &str, created_at: Option<Timestamp>) -> Option<bool> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.duration_since(created_at?) >= -CLOCK_SKEW)
}

/// A bound as an integer, if it is one.
pub(super) fn bound(text: &Option<String>) -> Option<i64> {
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
        route, business, certainty, found_at, from_at, to_at, after_id, before_id, estimate, shown,
        shown_to, imported_from, import_may_be_older
    ) VALUES (
        :route, :business, :certainty, :found_at, :from_at, :to_at, :after_id, :before_id, :estimate,
        :shown, :shown_to, :imported_from, :import_may_be_older
    )
    RETURNING *, nullif(business, '') AS business";

/// Extends the poller's last gap if it is a suspect in which no new record was shown, as the new one
/// is, and ends after that one begins. A list whose every record changes between two polls, because
/// of a field that always changes, would otherwise fill the table with one suspect per poll.
const EXTEND_SUSPECT: &str = "
    UPDATE gaps
    SET to_at = :to
    WHERE id = (SELECT max(id) FROM gaps WHERE route = :route AND business = :business)
        AND certainty = 'suspect'
        AND state = 'open'
        AND shown = 0
        AND :from BETWEEN from_at AND to_at
        AND after_id IS :after_id
        AND before_id IS :before_id";

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
    let (mut from, mut to) = in_order(last_read_at, at);
    let bounds = proof.bounds;
    let created = bounds.created.map(|(from, to)| (stamp(from), stamp(to)));
    if let Some((created_from, created_to)) = &created {
        from = created_from;
        to = created_to;
    }
    let certainty = match proof.contiguity {
        Contiguity::Suspect => Certainty::Suspect,
        _ => Certainty::Gap,
    };
    let route = poller.route.as_str();
    let business = pollers::business_text(poller);
    let after_id = bounds.after.map(|id| id.to_string());
    let before_id = bounds.before.map(|id| id.to_string());
    let shows_new = bounds.shown > 0 || bounds.missed.is_some_and(|missed| missed > 0);
    if certainty == Certainty::Suspect && !shows_new {
        let values = named_params! {
            ":route": route,
            ":business": business,
            ":to": to,
            ":from": from,
            ":after_id": after_id,
            ":before_id": before_id,
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
        ":after_id": after_id,
        ":before_id": before_id,
        ":estimate": bounds.missed,
        ":shown": bounds.shown,
        ":shown_to": bounds.shown_to,
        ":imported_from": bounds.import.map(|import| stamp(import.from)),
        ":import_may_be_older": bounds.import.is_some_and(|import| import.may_be_older),
    };
    let Some(gap) = connection.row::<Gap>(INSERT, new)? else {
        return Ok(None);
    };
    log_gap(connection, identity, poller, &gap, at)?;
    Ok(Some(gap))
}

fn log_gap(
    connection: &Connection,
    identity: &str,
    poller: &PollerId,
    gap: &Gap,
    at: &str,
) -> rusqlite::Result<()> {
    let body = serde_json::to_string(gap).expect("a gap holds plain values");
    let change = NewChange {
        route: poller.route,
        record_id: "",
        kind: Kind::Gap,
        version: gap.id,
        observed_at: at,
        business: poller.business.as_deref(),
        body: &body,
    };
    log::append(connection, identity, &change)?;
    Ok(())
}

/// Records the gap of one record that cannot be stored, unless it has one: whatever became of that.
const INSERT_LEFT_OUT: &str = "
    INSERT OR IGNORE INTO gaps (
        route, business, certainty, found_at, from_at, to_at, estimate, left_out_id
    ) VALUES (:route, :business, :certainty, :found_at, :from_at, :to_at, 1, :left_out_id)
    RETURNING *, nullif(business, '') AS business";

/// Writes one gap of one for each record that was left out of a page and has none, with its row in
/// the log. Its time is that of the record, or if none is known that since the last page.
pub(super) fn record_left_out(
    connection: &Connection,
    identity: &str,
    poller: &PollerId,
    last: Option<&PollerRow>,
    left_out: &[LeftOut],
    at: &str,
) -> rusqlite::Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    for record in left_out {
        let (from, to) = match (record.created_at, last) {
            (Some(created_at), _) => (stamp(created_at), stamp(created_at)),
            (None, Some(row)) => {
                let (from, to) = in_order(&row.last_success_at, at);
                (from.to_owned(), to.to_owned())
            }
            (None, None) => (at.to_owned(), at.to_owned()),
        };
        let new = named_params! {
            ":route": poller.route.as_str(),
            ":business": pollers::business_text(poller),
            ":certainty": Certainty::Gap.as_str(),
            ":found_at": at,
            ":from_at": from,
            ":to_at": to,
            ":left_out_id": record.id_json,
        };
        if let Some(gap) = connection.row::<Gap>(INSERT_LEFT_OUT, new)? {
            log_gap(connection, identity, poller, &gap, at)?;
            gaps.push(gap);
        }
    }
    Ok(gaps)
}

/// The gaps of one poller whose upper id is still to come.
pub(super) const WITHOUT_UPPER_ID: &str = "
    SELECT *, nullif(business, '') AS business
    FROM gaps
    WHERE before_id IS NULL
        AND after_id IS NOT NULL
        AND route = :route
        AND business = :business
    ORDER BY id
    LIMIT 1000";

/// Gives a gap its upper id.
const CLOSE: &str = "
    UPDATE gaps
    SET before_id = :before_id, estimate = :estimate
    WHERE id = :id";

/// Gives each gap of a poller its upper id if a page shows one: that of the first record that was
/// created after the page which showed the gap. Ids grow, so that every missed record has a lower
/// one. `own_ids` says about how many ids between two are the list's own.
pub(super) fn close(
    connection: &Connection,
    poller: &PollerId,
    page: &Page,
    own_ids: impl Fn(i64, i64) -> i64,
) -> rusqlite::Result<()> {
    let of_poller = (poller.route.as_str(), pollers::business_text(poller));
    let gaps: Vec<Gap> = connection.rows(WITHOUT_UPPER_ID, of_poller)?;
    for gap in gaps {
        let (Some(after), Ok(read_at)) = (bound(&gap.after_id), gap.read_at().parse::<Timestamp>())
        else {
            continue;
        };
        let mut lowest: Option<i64> = None;
        for record in page.records() {
            let (Some(id), Some(created_at)) = (record.id.as_integer(), page.created_at(record))
            else {
                continue;
            };
            // The workspace's clock may be ahead of this one.
            let is_later = created_at.duration_since(read_at) > CLOCK_SKEW;
            if is_later && id > after {
                lowest = Some(lowest.map_or(id, |lowest| lowest.min(id)));
            }
        }
        let Some(before) = lowest else { continue };
        connection.run(
            CLOSE,
            named_params! {
                ":id": gap.id,
                ":before_id": before.to_string(),
                ":estimate": (own_ids(after, before) - gap.shown).max(0),
            },
        )?;
    }
    Ok(())
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
