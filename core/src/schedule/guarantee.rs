//! The guarantees: which longest interval each poller is sure of, and how the budget is shared
//! within them.
//!
//! A guarantee is set when an interval begins, and then grows only if the pace falls. It is never
//! shorter than the wait for the slot that the poller gets if every other one goes before it, so
//! that all guarantees can be kept together. A round is the interval of polling in turn.

use super::Schedule;
use super::poller::initial_guarantee;
use super::share::{self, Claim};
use super::slots::{INSTANT_S, LATE_S};

/// The time by which a poller must be polled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: f64,
    pub(super) poller: usize,
}

/// The slot that a poller gets, by the time at which it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct AssignedSlot {
    pub(super) poller: usize,
    pub(super) deadline: f64,
    pub(super) start: f64,
}

/// The slots that a poller is sure of, by the times at which they begin.
#[derive(Debug, PartialEq)]
pub(super) struct SureSlots {
    /// The one that it gets if each of the others is polled before.
    pub(super) latest: f64,
    /// The next free one after that.
    pub(super) after_that: f64,
}

impl Schedule {
    /// Sets the guarantee of the interval that began with a poller's request at `sent`.
    ///
    /// It is the interval that the poller's quiet time allows, or the wait for the latest slot that
    /// the poller can get, whichever is longer. While a background request waits, it is longer by
    /// the slot which that may take, unless this exceeds `max_interval`.
    pub(super) fn set_guarantee(&mut self, place: usize, sent: f64, at: f64) {
        let sure = self.sure_slots(place, at);
        let initial = self.initial_guarantee(place);
        let yielded = self.yielded_interval();
        let poller = &mut self.pollers[place];
        let allowed = poller.allowed_interval(self.round, initial, yielded);
        let mut guarantee = allowed.max(sure.latest - sent);
        if self.background {
            let with_background = guarantee + (sure.after_that - sure.latest);
            guarantee = guarantee.max(with_background.min(poller.max_interval));
        }
        poller.guarantee = guarantee;
    }

    /// The guarantee that a poller begins with, at first and after an overflow event: a round if the
    /// guarantees of the others have grown, else up to the guarantee of a new daemon. So as many
    /// polls are left to follow an import as in a new daemon.
    fn initial_guarantee(&self, place: usize) -> f64 {
        let polls_when_new = 1.0 / initial_guarantee(self.round);
        let mut spare = 0.0;
        for (other, poller) in self.pollers.iter().enumerate() {
            if other != place {
                spare += poller.spare_polls(self.round);
            }
        }
        let polls = (polls_when_new + spare).max(polls_when_new);
        (1.0 / polls).max(self.round)
    }

    /// The slots that a poller is sure of from `at` on.
    ///
    /// Example: slots begin every second, A was polled at 0 s, B must be polled by 3 s and C by 5 s,
    /// and none has reserved slots. B gets the slot at 1 s, C the one at 2 s; A is sure of the slot
    /// at 3 s, and the next free one begins at 4 s.
    ///
    /// A poller with reserved slots is sure of the next of these. After a slow response its last one
    /// has passed, and a free slot that comes before the next one counts as its latest.
    pub(super) fn sure_slots(&self, place: usize, at: f64) -> SureSlots {
        let slot = self.slots.open(at);
        if let Some(reserved) = self.next_reserved(&self.pollers[place], slot) {
            let alone = Deadline {
                at: 0.0,
                poller: place,
            };
            let latest = match self.assign(vec![alone], slot).first() {
                Some(free) => reserved.min(free.start),
                None => reserved,
            };
            return SureSlots {
                latest,
                after_that: reserved,
            };
        }
        let mut due = self.deadlines(slot);
        due.retain(|deadline| deadline.poller != place);
        due.push(Deadline {
            at: f64::INFINITY,
            poller: place,
        });
        let assigned = self.assign(due, slot);
        let latest = match assigned.iter().find(|slot| slot.poller == place) {
            Some(slot) => slot.start,
            None => at,
        };
        let after_that = match self.free_from(self.slots.current(latest) + 1) {
            Some(slot) => self.slots.start(slot),
            None => latest,
        };
        SureSlots { latest, after_that }
    }

    /// Deadlines of the pollers that are not in flight, the earliest first. Pollers whose reserved
    /// slot from `slot` on comes in time are left out.
    pub(super) fn deadlines(&self, slot: u64) -> Vec<Deadline> {
        let mut due = Vec::with_capacity(self.pollers.len());
        for (place, poller) in self.idle() {
            let at = poller.deadline();
            let reserved = self.next_reserved(poller, slot).unwrap_or(f64::INFINITY);
            if reserved > at + LATE_S {
                due.push(Deadline { at, poller: place });
            }
        }
        due.sort_by(|a, b| {
            let by_deadline = a.at.total_cmp(&b.at);
            by_deadline.then(self.pollers[a.poller].compare_waits(&self.pollers[b.poller]))
        });
        due
    }

    /// Gives the free slots from `slot` on to these pollers, which are sorted by their deadlines:
    /// each goes to the first of them that may be polled when it begins.
    pub(super) fn assign(&self, mut due: Vec<Deadline>, mut slot: u64) -> Vec<AssignedSlot> {
        let mut assigned = Vec::with_capacity(due.len());
        while !due.is_empty() {
            let mut soonest = f64::INFINITY;
            for deadline in &due {
                soonest = soonest.min(self.pollers[deadline.poller].ready_at());
            }
            let Some(free) = self.free_from(slot.max(self.slots.first_from(soonest))) else {
                break;
            };
            let start = self.slots.start(free);
            let Some(first) = due
                .iter()
                .position(|due| self.pollers[due.poller].ready_at() <= start + INSTANT_S)
            else {
                break;
            };
            let Deadline { at, poller } = due.remove(first);
            assigned.push(AssignedSlot {
                poller,
                deadline: at,
                start,
            });
            slot = free + 1;
        }
        assigned
    }

    /// Takes up the present pace: polling in turn means that all pollers share evenly as far as
    /// their bounds allow. Guarantees that cannot be kept at a lower pace become longer.
    pub(super) fn take_up_pace(&mut self, at: f64) {
        self.reserve(at);
        let claims: Vec<Claim> = self
            .pollers
            .iter()
            .map(|poller| poller.claim(1.0))
            .collect();
        self.round = share::in_turn(&claims, self.slots_per_second());
        let yielded = self.yielded_interval();
        for poller in &mut self.pollers {
            let is_new = poller.guarantee == 0.0;
            let initial = if is_new {
                initial_guarantee(self.round)
            } else {
                self.round
            };
            let allowed = poller.allowed_interval(self.round, initial, yielded);
            poller.guarantee = allowed.max(poller.guarantee);
        }
        self.lengthen_guarantees(at);
        self.share();
    }

    /// Makes each guarantee at least as long as the wait for the slot that its poller gets from `at`
    /// on.
    fn lengthen_guarantees(&mut self, at: f64) {
        let slot = self.slots.open(at);
        let late = self.deadlines(slot);
        let assigned = self.assign(late.clone(), slot);
        for Deadline { poller: place, .. } in late {
            let reserved = self.next_reserved(&self.pollers[place], slot);
            let mut start = reserved.unwrap_or(f64::INFINITY);
            // Where every slot is reserved, there is no free one before the poller's own.
            if let Some(free) = assigned.iter().find(|slot| slot.poller == place) {
                start = start.min(free.start);
            }
            let poller = &mut self.pollers[place];
            if poller.last_sent.is_finite() && start.is_finite() {
                poller.guarantee = poller.guarantee.max(start - poller.last_sent);
            }
        }
    }

    /// The interval that the other pollers must accept so that those that must be followed get
    /// what they need; one slot more, since polls fall on whole slots. 0 if none must be followed.
    fn yielded_interval(&self) -> f64 {
        let is_any_followed = self
            .pollers
            .iter()
            .any(|poller| poller.needed_interval(self.round).is_some());
        if !is_any_followed {
            return 0.0;
        }
        let mut claims = Vec::with_capacity(self.pollers.len());
        for poller in &self.pollers {
            let mut claim = poller.claim(1.0);
            if let Some(needed) = poller.needed_interval(self.round) {
                claim.longest = needed;
                claim.shortest = needed;
            } else if poller.reserved.is_none() {
                claim.longest = f64::INFINITY;
            }
            claims.push(claim);
        }
        share::in_turn(&claims, self.slots_per_second()) + self.slots.length()
    }

    /// Shares the budget out again.
    pub(super) fn share(&mut self) {
        let mut claims = Vec::with_capacity(self.pollers.len());
        for poller in &self.pollers {
            let mut claim = poller.claim(poller.rate_now().sqrt());
            if poller.reserved.is_none() {
                claim.longest = poller.guarantee;
            }
            claim.needed = poller.needed_interval(self.round);
            claims.push(claim);
        }
        let intervals = share::intervals(&mut claims, self.slots_per_second());
        for (poller, interval) in self.pollers.iter_mut().zip(intervals) {
            poller.interval = interval;
        }
    }

    /// How many requests a second the pace allows.
    fn slots_per_second(&self) -> f64 {
        1.0 / self.slots.length()
    }
}
