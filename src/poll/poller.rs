//! One poller's standing between two polls, and what is told of it in the log.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{ApiError, Class};
use crate::clock::Moment;
use crate::record::PollerId;
use crate::schedule::{Observation, Outcome};
use crate::store::{Contiguity, PageOutcome};

/// One poller's standing.
pub(super) struct Poller {
    pub(super) key: PollerId,
    pub(super) failures: u32,
    pub(super) last_error: Option<ApiError>,
    pub(super) last_success: Option<Moment>,
    /// Times in a row that the route itself refused; the route is broken while there are any.
    pub(super) refusals: usize,
    /// Whether it was refused although the key itself is good.
    pub(super) refused_alone: bool,
    pub(super) refused_pages: u64,
    /// Whether the route shows nothing although it showed records before.
    emptied: bool,
}

/// How far this machine's clock may be from the workspace's before it is told of.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// Compares the two clocks: receivers refuse webhooks whose time is minutes off.
#[derive(Default)]
pub(super) struct Clocks {
    apart: bool,
}

impl Clocks {
    pub(super) fn compare(&mut self, server: Option<Timestamp>, now: Moment) {
        let Some(server) = server else { return };
        let difference = now.wall.duration_since(server).unsigned_abs();
        let apart = difference > CLOCK_TOLERANCE;
        if apart && !self.apart {
            tracing::warn!(
                seconds = difference.as_secs(),
                "this machine's clock and the workspace's differ: check time synchronisation"
            );
        }
        self.apart = apart;
    }
}

pub(super) fn outcome_of(stored: &PageOutcome) -> Outcome {
    if stored.unchanged {
        return Outcome::Unchanged;
    }
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Outcome::Page(Observation {
        records: count(stored.records),
        new: count(stored.created),
        overlap: count(stored.overlap),
        contiguous: stored.contiguity.is_proven(),
        window: stored.window,
    })
}

/// One short word for the table `polls`.
pub(super) fn word(error: &ApiError) -> String {
    match error {
        ApiError::Status { status, .. } => format!("http_{status}"),
        ApiError::Page(page) => page.word().to_owned(),
        ApiError::Redirect { .. } => "redirect".to_owned(),
        ApiError::Transport(transport) => transport.word().to_owned(),
        ApiError::UnusableKey | ApiError::Unsendable(_) => "not_sent".to_owned(),
    }
}

impl Poller {
    pub(super) fn new(key: PollerId) -> Self {
        Self {
            key,
            failures: 0,
            last_error: None,
            last_success: None,
            refusals: 0,
            refused_alone: false,
            refused_pages: 0,
            emptied: false,
        }
    }

    pub(super) fn succeeded(&mut self, now: Moment, stored: &PageOutcome) {
        if self.failures > 1 {
            tracing::info!(poller = %self.key, "the route answers again");
        }
        if let Some(gap) = &stored.gap {
            tracing::warn!(poller = %self.key, gap = gap.id, certainty = gap.certainty.as_str(), from = gap.from_at,
                to = gap.to_at, estimate = gap.estimate,
                "a page shares nothing with the one before: records may have been missed; see `shopmirror gaps`");
        }
        let emptied = stored.records == 0 && stored.contiguity == Contiguity::Suspect;
        if emptied && !std::mem::replace(&mut self.emptied, emptied) {
            tracing::warn!(poller = %self.key, "the workspace shows no record where it showed some, although nothing on it \
                is ever deleted: what is stored stays; check what the key may read and which branch is asked");
        }
        self.emptied = emptied;
        self.failures = 0;
        self.last_error = None;
        self.refusals = 0;
        self.refused_alone = false;
        self.last_success = Some(now);
    }

    pub(super) fn failed(&mut self, error: &ApiError, class: Class) {
        self.failures = self.failures.saturating_add(1);
        self.refusals = if class == Class::RouteBroken { self.refusals + 1 } else { 0 };
        if class == Class::BadPage {
            self.refused_pages += 1;
        }
        let said_before = self.last_error.as_ref().is_some_and(|last| word(last) == word(error));
        // One network error is ignored; a page that is none, or a route that refuses, is told at once.
        let worth_telling = match class {
            Class::Busy => self.failures == 2,
            Class::RouteBroken | Class::BadPage => !said_before,
            // Told once for all pollers.
            Class::KeyRefused | Class::KeyForbidden | Class::WrongHost => false,
        };
        if worth_telling {
            tracing::warn!(poller = %self.key, failures = self.failures, %error, "a poll failed; nothing of it is stored");
        }
        self.last_error = Some(error.clone());
    }
}
