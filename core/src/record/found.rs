//! A record that a search of the mirror found, for programs.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Change, Kind};

/// A record that a search of the mirror found, in its latest state.
#[derive(Debug, Serialize)]
pub struct FoundRecord {
    /// The route of the record.
    pub route: String,
    /// The id of the record, as text.
    pub id: String,
    /// When its latest state was first seen (RFC 3339, UTC).
    pub changed_at: String,
    /// Whether it is gone from its list.
    pub is_vanished: bool,
    /// The business (branch) that it was read from; null for the default of the workspace.
    pub business: Option<String>,
    /// The record exactly as the workspace sent it.
    pub record: Box<RawValue>,
}

impl TryFrom<Change> for FoundRecord {
    type Error = serde_json::Error;

    fn try_from(change: Change) -> Result<Self, serde_json::Error> {
        Ok(Self {
            route: change.route.to_string(),
            id: change.record_id.unwrap_or_default(),
            changed_at: change.observed_at,
            is_vanished: change.kind == Kind::Vanished,
            business: change.business,
            record: serde_json::from_str(&change.body)?,
        })
    }
}
