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
const PASSED: usize = 16;
/// The part of a slot that counts as none, for rounding.
const ROUNDING: f64 = 1e-6;

#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// Requests a minute now, and the most so far: below it nothing is kept.
    pace: f64,
    full: f64,
    /// Requests kept at a time; 1 is a request that may be sent at once.
    kept: f64,
    kept_at: f64,
    /// Whether requests are evenly spaced: then none is kept for later.
    even: bool,
    /// When the last requests were sent, oldest first.
    sent: VecDeque<f64>,
}

impl Slots {
    pub(super) fn new(pace: f64, at: f64) -> Self {
        let pace = sane(pace);
        Self { pace, full: pace, kept: 1.0, kept_at: at, even: false, sent: VecDeque::new() }
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

    pub(super) fn set_even(&mut self, even: bool) {
        self.even = even;
    }

    pub(super) fn is_even(&self) -> bool {
        self.even
    }

    /// The most requests that are kept unless requests are evenly spaced.
    pub(super) fn most(&self) -> f64 {
        if self.pace < self.full { 1.0 } else { (self.pace * KEPT).floor().clamp(1.0, MOST_KEPT) }
    }

    fn kept(&self, at: f64) -> f64 {
        let most = if self.even { 1.0 } else { self.most() };
        (self.kept + (at - self.kept_at).max(0.0) / self.length()).min(most)
    }

    /// When the request in this place from now on can be sent; 1 is the next.
    pub(super) fn free_at(&self, place: usize, at: f64) -> f64 {
        self.free_from(at)(place)
    }

    /// The same for many places.
    pub(super) fn free_from(&self, at: f64) -> impl Fn(usize) -> f64 {
        let length = self.length();
        let (next, kept) = if self.even {
            let next = ((at - self.kept_at) / length - ROUNDING).ceil().max(self.first());
            ((self.kept_at + next * length).max(at), 1.0)
        } else {
            (at, self.kept(at))
        };
        let in_span = self.in_span();
        move |place| {
            let free = next + ((place as f64 - kept) * length).max(0.0);
            free.max(self.room_in(in_span, place))
        }
    }

    /// When the last minute has room for the request in this place from now on.
    pub(super) fn room_at(&self, place: usize) -> f64 {
        self.room_in(self.in_span(), place)
    }

    /// The most requests in [`SPAN_S`].
    fn in_span(&self) -> usize {
        self.full.ceil() as usize
    }

    fn room_in(&self, in_span: usize, place: usize) -> f64 {
        let freed = (self.sent.len() + place)
            .checked_sub(in_span + 1)
            .and_then(|oldest| self.sent.get(oldest));
        freed.map_or(f64::NEG_INFINITY, |sent| sent + SPAN_S)
    }

    /// The first evenly spaced slot, counted from the last request.
    fn first(&self) -> f64 {
        if self.kept < 1.0 { 1.0 } else { 0.0 }
    }

    /// When the evenly spaced slots began that passed since the last request; the last of them, the
    /// oldest first.
    pub(super) fn passed(&self, at: f64) -> impl Iterator<Item = f64> {
        let (from, length) = (self.kept_at, self.length());
        let last = ((at - from) / length + ROUNDING).floor();
        let first = self.first().max(last - PASSED as f64 + 1.0);
        let count = if last < first { 0 } else { (last - first) as usize + 1 };
        (0..count).map(move |place| from + (first + place as f64) * length)
    }

    /// Whether to wait until `ready` loses no request although one sent now would be missing then.
    pub(super) fn can_wait(&self, at: f64, ready: f64) -> bool {
        let then = self.kept(at) + (ready - at) / self.length();
        then - 1.0 < 1.0 - 1e-9 && then <= self.most() + 1e-9
    }

    /// Notes that a request was sent. If requests are evenly spaced, says by how much it was late: it
    /// took the slot that began at `slot`, or the last one that began.
    pub(super) fn take(&mut self, at: f64, slot: Option<f64>) -> f64 {
        let slot = slot.or_else(|| self.passed(at).last());
        let late = slot.map_or(0.0, |slot| (at - slot).max(0.0));
        self.kept = (self.kept(at) - 1.0).max(0.0);
        self.kept_at = at;
        let full = self.full.ceil() as usize;
        while self.sent.len() > full || self.sent.front().is_some_and(|sent| sent + SPAN_S <= at) {
            self.sent.pop_front();
        }
        self.sent.push_back(at);
        if self.even { late } else { 0.0 }
    }
}

/// No pace is so slow that nothing is polled, or so fast that a slot has no length.
fn sane(per_minute: f64) -> f64 {
    if per_minute.is_finite() { per_minute.clamp(0.1, 60_000.0) } else { 0.1 }
}
