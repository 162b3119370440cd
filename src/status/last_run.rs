//! The last run before the daemon or `shopmirror once` ended: when it was, and what it did.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::stored::age_s;
use crate::record::poller_name;
use crate::store::{PollerRow, Reader, StoreError};

/// The last poll of every poller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastRun {
    /// When the last poll ended.
    pub at: String,
    /// How long ago the last poll ended, in seconds.
    pub age_s: f64,
    /// How long ago the poller that was polled longest ago had its last success, in seconds; `None` if one
    /// has never succeeded.
    pub oldest_success_age_s: Option<f64>,
    /// How many pollers were polled.
    pub polled: usize,
    /// Records that were new in the last poll of each poller.
    pub created: i64,
    /// Records that had changed in the last poll of each poller.
    pub updated: i64,
    /// The pollers whose last poll failed.
    pub failed: Vec<FailedPoll>,
}

/// A poller whose last poll failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedPoll {
    /// The poller, for example `leads` or `leads@12`.
    pub poller: String,
    /// The error in one word, for example `http_503`.
    pub error: String,
}

impl LastRun {
    /// Reads the last polls; `None` if there was none.
    pub(super) fn read(reader: &Reader, now: Timestamp) -> Result<Option<Self>, StoreError> {
        let polls = reader.last_polls()?;
        let Some(at) = polls.values().map(|poll| poll.at.clone()).max() else {
            return Ok(None);
        };
        let failed = polls.iter().filter_map(|(poller, poll)| {
            Some(FailedPoll { poller: poller.clone(), error: poll.error.clone()? })
        });
        let pollers = reader.pollers()?;
        let successes = polls.keys().map(|poller| {
            let is_it =
                |row: &&PollerRow| poller_name(&row.route, row.business.as_deref()) == *poller;
            age_s(&pollers.iter().find(is_it)?.last_success_at, now)
        });
        let oldest = successes.collect::<Option<Vec<f64>>>();
        Ok(Some(Self {
            age_s: age_s(&at, now).unwrap_or_default(),
            at,
            oldest_success_age_s: oldest.map(|ages| ages.into_iter().fold(0.0, f64::max)),
            polled: polls.len(),
            created: polls.values().map(|poll| poll.created).sum(),
            updated: polls.values().map(|poll| poll.updated).sum(),
            failed: failed.collect(),
        }))
    }
}
