//! When the next requests can be sent, as far as the schedule knows the budget.
//!
//! The budget spreads a minute's requests over [`SPAN_S`], keeps a few that were not used, and
//! never sends more in that span. The same is reckoned here, so that deadlines are planned for
//! slots that will come. A slot is the time between two requests at the present pace.

use std::collections::VecDeque;

/// The time over which the budget spreads a minute's requests, in seconds.
const SPAN_S: f64 = 60.5;
/// The part of a minute's requests that may be kept for later, and the most of them.
const KEPT: f64 = 1.0 / 15.0;
const MOST_KEPT: f64 = 20.0;
/// How many of the evenly spaced slots that passed are looked at, the last of them.
const PASSED: u64 = 16;
/// The part of a slot that counts as none, for rounding.
const ROUNDING: f64 = 1e-6;

#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// Requests a minute now, and the most so far: below it nothing is kept.
    pace: f64,
    full: f64,
    /// Whether requests are evenly spaced: then slots are numbered, and none is kept for later.
    pub(super) even: bool,
    /// When the last request was sent, the number of its slot, and how many were kept then.
    last_at: f64,
    last: u64,
    kept: f64,
    /// When the last requests were sent, oldest first.
    sent: VecDeque<f64>,
}

impl Slots {
    /// The first request can be sent at `at`.
    pub(super) fn new(pace: f64, at: f64) -> Self {
        let (pace, sent) = (sane(pace), VecDeque::new());
        let last_at = at - SPAN_S / pace;
        Self { pace, full: pace, even: false, last_at, last: 0, kept: 0.0, sent }
    }

    /// The time between two requests, in seconds.
    pub(super) fn length(&self) -> f64 {
        SPAN_S / self.pace
    }

    /// Changes the pace; says whether it differs by more than rounding.
    pub(super) fn set_pace(&mut self, pace: f64) -> bool {
        let pace = sane(pace);
        let differs = (pace - self.pace).abs() > 1e-9 * self.pace;
        self.pace = pace;
        self.full = self.full.max(pace);
        differs
    }

    /// The most requests that are kept unless requests are evenly spaced.
    pub(super) fn most(&self) -> f64 {
        if self.pace < self.full { 1.0 } else { (self.pace * KEPT).floor().clamp(1.0, MOST_KEPT) }
    }

    fn kept(&self, at: f64) -> f64 {
        (self.kept + (at - self.last_at).max(0.0) / self.length()).min(self.most())
    }

    /// The slots in which the next requests can be sent from `at` on, and when.
    pub(super) fn from(&self, at: f64) -> impl Iterator<Item = (u64, f64)> {
        let first = ((at - self.last_at) / self.length() - ROUNDING).ceil().max(1.0) as u64;
        let kept = self.kept(at);
        (self.last + first..).zip(1_u32..).map(move |(slot, place)| {
            let spaced = if self.even {
                self.start(slot)
            } else {
                at + (f64::from(place) - kept) * self.length()
            };
            (slot, spaced.max(at).max(self.room_at(place)))
        })
    }

    /// When the last minute has room for the request in this place from now on.
    pub(super) fn room_at(&self, place: u32) -> f64 {
        let in_span = self.full.ceil() as usize;
        let freed = (self.sent.len() + place as usize)
            .checked_sub(in_span + 1)
            .and_then(|oldest| self.sent.get(oldest));
        freed.map_or(f64::NEG_INFINITY, |sent| sent + SPAN_S)
    }

    /// When an evenly spaced slot begins.
    pub(super) fn start(&self, slot: u64) -> f64 {
        self.last_at + (slot as f64 - self.last as f64) * self.length()
    }

    /// The last evenly spaced slot that has begun at `at`.
    pub(super) fn begun(&self, at: f64) -> u64 {
        self.last + ((at - self.last_at) / self.length() + ROUNDING) as u64
    }

    /// The last of the evenly spaced slots that began without a request, in their order.
    pub(super) fn passed(&self, at: f64) -> impl Iterator<Item = u64> {
        let begun = if self.even { self.begun(at) } else { self.last };
        (self.last + 1).max((begun + 1).saturating_sub(PASSED))..=begun
    }

    /// Whether to wait until `ready` loses no request although one sent now would be missing then.
    pub(super) fn can_wait(&self, at: f64, ready: f64) -> bool {
        let then = self.kept(at) + (ready - at) / self.length();
        then - 1.0 < 1.0 - 1e-9 && then <= self.most() + 1e-9
    }

    /// Notes that a request was sent, in this slot or before one began; gives by how much all evenly
    /// spaced slots are later because it was late.
    pub(super) fn take(&mut self, at: f64, slot: Option<u64>) -> f64 {
        let late = slot.filter(|_| self.even).map_or(0.0, |slot| at - self.start(slot));
        self.kept = (self.kept(at) - 1.0).max(0.0);
        (self.last_at, self.last) = (at, slot.unwrap_or(self.last + 1));
        let full = self.full.ceil() as usize;
        while self.sent.len() > full || self.sent.front().is_some_and(|sent| sent + SPAN_S <= at) {
            self.sent.pop_front();
        }
        self.sent.push_back(at);
        late.max(0.0)
    }
}

/// No pace is so slow that nothing is polled, or so fast that a slot has no length.
fn sane(per_minute: f64) -> f64 {
    if per_minute.is_finite() { per_minute.clamp(0.1, 60_000.0) } else { 0.1 }
}
