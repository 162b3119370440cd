//! The rows of the table `gaps`: intervals in which a poller may have missed records.

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use crate::record::PollerId;

/// How sure it is that a gap hides records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Records may have been missed.
    Gap,
    /// There is reason to think that nothing was missed.
    Suspect,
}

impl Certainty {
    /// The word in tables and listings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Suspect => "suspect",
        }
    }
}

/// What became of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
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
    /// The word in tables and listings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::PartlyRepaired => "partly_repaired",
            Self::Repaired => "repaired",
            Self::Accepted => "accepted",
        }
    }
}

/// An interval in which records of one poller may have been missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// The columns [`Gap::read`] reads.
pub(super) const COLUMNS: &str = "id, route, nullif(business, ''), certainty, found_at, from_at, to_at, \
     after_id, before_id, estimate, state, repaired, note";

impl Gap {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            route: row.get(1)?,
            business: row.get(2)?,
            certainty: match row.get_ref(3)?.as_str()? {
                "suspect" => Certainty::Suspect,
                _ => Certainty::Gap,
            },
            found_at: row.get(4)?,
            from_at: row.get(5)?,
            to_at: row.get(6)?,
            after_id: row.get(7)?,
            before_id: row.get(8)?,
            estimate: row.get(9)?,
            state: match row.get_ref(10)?.as_str()? {
                "partly_repaired" => GapState::PartlyRepaired,
                "repaired" => GapState::Repaired,
                "accepted" => GapState::Accepted,
                _ => GapState::Open,
            },
            repaired: row.get(11)?,
            note: row.get(12)?,
        })
    }
}

/// Adds a gap; the number in `gap.id` is ignored and the new one returned.
pub(super) fn insert(
    connection: &Connection,
    poller: &PollerId,
    gap: &Gap,
) -> rusqlite::Result<i64> {
    connection.prepare_cached(
        "INSERT INTO gaps (route, business, certainty, found_at, from_at, to_at, after_id, before_id, estimate) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .insert((
        poller.route.as_str(),
        super::pollers::business_text(poller),
        gap.certainty.as_str(),
        &gap.found_at,
        &gap.from_at,
        &gap.to_at,
        &gap.after_id,
        &gap.before_id,
        gap.estimate,
    ))
}

/// Extends the poller's last gap to `gap.to_at` if it is a suspect without bounds, as `gap` is, and ends
/// after `gap` begins. A list whose every record changes between two polls, because of a field
/// that always changes, would otherwise fill the table with one suspect per poll.
pub(super) fn extend_suspect(
    connection: &Connection,
    poller: &PollerId,
    gap: &Gap,
) -> rusqlite::Result<bool> {
    let extended = connection
        .prepare_cached(
            "UPDATE gaps SET to_at = ?3 WHERE id = (SELECT max(id) FROM gaps WHERE route = ?1 AND business = ?2) \
             AND certainty = 'suspect' AND state = 'open' AND ?4 BETWEEN from_at AND to_at AND after_id IS NULL AND ?5",
        )?
        .execute((
            poller.route.as_str(),
            super::pollers::business_text(poller),
            &gap.to_at,
            &gap.from_at,
            gap.after_id.is_none(),
        ))?;
    Ok(extended > 0)
}

/// The gaps, newest first.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Gap>> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM gaps ORDER BY id DESC LIMIT 10000"))?;
    let rows = statement.query_map([], Gap::read)?;
    rows.collect()
}
