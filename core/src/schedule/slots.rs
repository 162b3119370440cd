//! Numbers the slots: the times at which requests can be sent, as far as the schedule knows the
//! budget.
//!
//! A slot is the time between two requests at the present pace. The budget spreads a minute's
//! requests over [`KEY_MINUTE`], so that evenly spaced requests never exceed it, and none is kept
//! for later.

use std::ops::RangeInclusive;

use crate::clock::KEY_MINUTE;

/// How many of the slots that began without a request are looked at, the last of them.
const PASSED: u64 = 16;
/// The part of a slot that counts as none, for rounding.
const ROUNDING: f64 = 1e-6;

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
        let pace = sane(pace);
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

    /// Changes the pace at `at`; says whether it differs by more than rounding. Slots that would
    /// have begun meanwhile at the new pace have not.
    pub(super) fn set_pace(&mut self, pace: f64, at: f64) -> bool {
        let before = std::mem::replace(&mut self.pace, sane(pace));
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

    /// The last slot that has begun at `at`.
    pub(super) fn begun(&self, at: f64) -> u64 {
        self.last + ((at - self.last_at) / self.length() + ROUNDING) as u64
    }

    /// The last of the slots that began without a request, in their order.
    pub(super) fn passed(&self, at: f64) -> RangeInclusive<u64> {
        let begun = self.begun(at);
        (self.last + 1).max((begun + 1).saturating_sub(PASSED))..=begun
    }

    /// The slot that has begun at `at` and took no request yet, or else the next one.
    pub(super) fn open(&self, at: f64) -> u64 {
        self.begun(at).max(self.last + 1)
    }

    /// The first slot that begins at `at` or later and can take a request.
    pub(super) fn next(&self, at: f64) -> u64 {
        self.last
            + ((at - self.last_at) / self.length() - ROUNDING)
                .ceil()
                .max(1.0) as u64
    }

    /// Notes that a request was sent in this slot, or in the next one before it began; gives by how
    /// much all later slots are later because it was late.
    pub(super) fn take(&mut self, at: f64, slot: Option<u64>) -> f64 {
        let late = slot.map_or(0.0, |slot| at - self.start(slot));
        (self.last_at, self.last) = (at, slot.unwrap_or(self.last + 1));
        late.max(0.0)
    }
}

/// No pace is so slow that nothing is polled, or so fast that a slot has no length.
fn sane(per_minute: f64) -> f64 {
    if per_minute.is_finite() {
        per_minute.clamp(0.1, 60_000.0)
    } else {
        0.1
    }
}
