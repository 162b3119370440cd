//! Numbers the slots: the times at which requests can be sent, as far as the schedule knows the
//! budget.
//!
//! A slot is the time between two requests at the present pace. The budget spreads a minute's
//! requests over [`KEY_MINUTE`], so that evenly spaced requests never exceed it, and none is saved
//! for later.

use std::ops::RangeInclusive;

use crate::clock::KEY_MINUTE;

/// Times closer together than this count as equal.
pub(super) const INSTANT_S: f64 = 1e-6;
/// By how much a deadline may be missed, so that rounding does not cost a slot, in seconds.
pub(super) const LATE_S: f64 = 0.005;
/// How many of the slots that began without a request are considered, the last of them.
const MAX_UNUSED: u64 = 16;
/// The part of a slot that counts as none, for rounding.
const ROUNDING: f64 = 1e-6;

/// The numbering of slots, and the last one that took a request.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// Requests a minute.
    pace: f64,
    /// When the last request was sent, and the number of its slot.
    last_at: f64,
    last: u64,
}

impl Slots {
    /// The first slot begins at `at`.
    pub(super) fn new(pace: f64, at: f64) -> Self {
        let pace = within_limits(pace);
        Self {
            pace,
            last_at: at - KEY_MINUTE.as_secs_f64() / pace,
            last: 0,
        }
    }

    /// The time between two requests, in seconds.
    pub(super) fn length(&self) -> f64 {
        KEY_MINUTE.as_secs_f64() / self.pace
    }

    /// Changes the pace at `at`; true if it differs by more than rounding. Slots that would have
    /// begun already at the new pace have not.
    pub(super) fn set_pace(&mut self, pace: f64, at: f64) -> bool {
        let before = self.pace;
        self.pace = within_limits(pace);
        let differs = (self.pace - before).abs() > 1e-9 * before;
        if differs {
            self.last_at = self.last_at.max(at - self.length());
        }
        differs
    }

    /// When a slot begins.
    pub(super) fn start(&self, slot: u64) -> f64 {
        self.last_at + (slot as f64 - self.last as f64) * self.length()
    }

    /// The slot that `at` lies in.
    pub(super) fn current(&self, at: f64) -> u64 {
        self.last + ((at - self.last_at) / self.length() + ROUNDING) as u64
    }

    /// The slots that have begun at `at` without a request, in their order; the last few of them.
    pub(super) fn unused(&self, at: f64) -> RangeInclusive<u64> {
        let current = self.current(at);
        let oldest = (current + 1).saturating_sub(MAX_UNUSED);
        (self.last + 1).max(oldest)..=current
    }

    /// The slot that `at` lies in if it took no request yet, or else the next one.
    pub(super) fn open(&self, at: f64) -> u64 {
        self.current(at).max(self.last + 1)
    }

    /// The first slot that begins at `at` or later and can take a request.
    pub(super) fn first_from(&self, at: f64) -> u64 {
        let slots = ((at - self.last_at) / self.length() - ROUNDING).ceil();
        self.last + slots.max(1.0) as u64
    }

    /// Notes that a request was sent at `at` in this slot, or in the next one before it began.
    /// Returns by how many seconds all later slots are later because the request was late.
    pub(super) fn take(&mut self, at: f64, slot: Option<u64>) -> f64 {
        let late = match slot {
            Some(slot) => (at - self.start(slot)).max(0.0),
            None => 0.0,
        };
        self.last = slot.unwrap_or(self.last + 1);
        self.last_at = at;
        late
    }
}

/// No pace is so slow that nothing is polled, or so fast that a slot has no length.
fn within_limits(per_minute: f64) -> f64 {
    if per_minute.is_finite() {
        per_minute.clamp(0.1, 60_000.0)
    } else {
        0.1
    }
}
