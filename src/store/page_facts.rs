//! What goes into storing a page beside its records, and what comes out of it.

use std::time::Duration;

use super::ledger::Gap;
use crate::clock::stamp;
use crate::contiguity::Contiguity;
use crate::record::RecordId;

/// What is known of a poll beside its page.
#[derive(Debug, Clone)]
pub struct PollFacts {
    /// When the page was read.
    pub at: jiff::Timestamp,
    /// The last row of the log when the page was requested; later rows are newer than the page.
    pub asked_after: i64,
    /// Records requested.
    pub limit: u32,
    /// How long ago the page was requested: what happened since then may be missing from it.
    pub latency: Duration,
    /// `X-RateLimit-Remaining` of the response.
    pub remaining: Option<i64>,
    /// `X-Business` of the response: the business it is of, whether it was requested or is the
    /// workspace default.
    pub served_business: Option<String>,
}

impl PollFacts {
    /// When the page was requested. The poller is known to be complete up to then, not up to the time
    /// at which the page was read.
    pub(super) fn asked_at(&self) -> String {
        stamp(self.at.checked_sub(self.latency).unwrap_or(self.at))
    }
}

/// What storing a page changed and proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOutcome {
    /// Whether the page showed nothing new.
    pub unchanged: bool,
    /// What the page proved.
    pub contiguity: Contiguity,
    /// Records on the page.
    pub records: usize,
    /// Records stored for the first time.
    pub created: usize,
    /// Records whose meaning changed.
    pub updated: usize,
    /// Records that were on the poller's previous page.
    pub overlap: usize,
    /// The gap that was recorded.
    pub gap: Option<Gap>,
    /// The id of each updated record, and its fields that changed and are not ignored.
    pub changed_fields: Vec<(String, Vec<String>)>,
    /// The id of a record that the page shows twice with two texts.
    pub two_texts: Option<RecordId>,
}
