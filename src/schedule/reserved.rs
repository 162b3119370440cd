//! Slots that are reserved for the pollers whose `max_interval` is shorter than polling in turn, or
//! little longer.
//!
//! The period of each is a common number of slots, doubled as often as its `max_interval` allows. Such
//! periods fit together: no slot is reserved for two pollers. So each of them is polled in time
//! whatever the others need, and the slots between are free.

use std::cmp::Ordering;

use super::poller::Poller;
use super::{INSTANT_S, LATE_S, Schedule};

/// How many reserved slots are reckoned with before a free one.
const MOST_RESERVED: usize = 1000;
/// The longest `max_interval` that is reckoned with, in slots.
const MOST: u32 = 1000;

/// The slots of one poller. Times are seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reserved {
    /// From one of its slots to the next, in slots and in seconds.
    period: u32,
    pub(super) every: f64,
    /// The end of one of them.
    end: f64,
    /// By how much they were moved since the poller was polled, because requests were late.
    moved: f64,
    /// Two polls are closer together than this.
    within: f64,
}

impl Reserved {
    /// By when it is polled after a poll at `last`: with the last slot that is in time, and not
    /// before `ready`. The first poll comes with its first slot.
    pub(super) fn due(&self, last: f64, ready: f64) -> f64 {
        let due = self.last_before(last + self.moved + self.within);
        if !last.is_finite() {
            self.end.max(ready)
        } else if due < ready {
            self.last_before(ready + self.every)
        } else {
            due
        }
    }

    /// Notes that the poller was polled.
    pub(super) fn started(&mut self) {
        self.moved = 0.0;
    }

    /// Whether a poll at `at` is worth a free slot although it is polled at `due` as well, or takes
    /// the place of that poll. Two polls are `shortest` apart.
    pub(super) fn gains(&self, due: f64, at: f64, shortest: f64, interval: f64) -> bool {
        let slot = self.every / f64::from(self.period);
        let apart = ((due - at + LATE_S) / slot).floor() * slot;
        let is_between = apart + LATE_S >= shortest && apart >= 0.5 * interval;
        is_between || self.last_before(at + self.within) > due
    }

    fn last_before(&self, time: f64) -> f64 {
        let after = ((time - self.end) / self.every).ceil() - 1.0;
        self.end + after * self.every
    }
}

impl Schedule {
    /// Reserves slots for the pollers whose `max_interval` cannot be kept by polling in turn.
    pub(super) fn reserve(&mut self, at: f64) {
        let slot = self.slots.length();
        let longest = |poller: &Poller| in_slots(poller.max_interval(), slot);
        let longest: Vec<u32> = self.pollers.iter().map(longest).collect();
        let shortest = |p: &Poller| (p.claim(1.0).shortest / slot).ceil().min(1e6) as u32;
        let shortest: Vec<u32> = self.pollers.iter().map(shortest).collect();
        let plan = Plan::new(&longest, &shortest, self.slots.most() as u32);
        let before = self.pollers.iter().map(|p| (p.last, p.reserved)).collect::<Vec<_>>();
        let slots = assign(&plan, &before, slot, self.slots.free_at(1, at));
        self.slots.set_even(slots.iter().any(Option::is_some));
        for (place, slots) in slots.into_iter().enumerate() {
            let kept = Some(plan.kept[place]).filter(|kept| *kept > longest[place]);
            self.pollers[place].reserve(slots, kept.map(|kept| f64::from(kept) * slot));
        }
    }

    /// Uses a slot. If the request is late, all later ones are, and the reserved slots with them.
    pub(super) fn take_slot(&mut self, at: f64) {
        let slot = if self.slots.is_even() { self.overdue(at) } else { None };
        let late = self.slots.take(at, slot.map(|(began, _)| began));
        for slots in self.pollers.iter_mut().filter_map(|poller| poller.reserved.as_mut()) {
            slots.end += late;
            slots.moved += late;
        }
    }

    /// The poller that the next slot is reserved for, if it is.
    pub(super) fn reserved_for(&self, at: f64) -> Option<usize> {
        if !self.slots.is_even() {
            return None;
        }
        let after = self.slots.free_at(1, at) + self.slots.length() - LATE_S;
        let idle = self.idle(at).filter(|(_, poller)| poller.ready_at() <= at + INSTANT_S);
        let due = idle.filter(|(_, poller)| poller.reserved.is_some() && poller.deadline() < after);
        // A fixed interval takes the first slot that is reserved for no other poller.
        let order = |p: &Poller| (p.is_fixed(), p.deadline());
        let first =
            due.min_by(|a, b| order(a.1).partial_cmp(&order(b.1)).unwrap_or(Ordering::Equal));
        first.map(|(place, _)| place)
    }

    /// When the slot in this place from now on is free that is reserved for no poller.
    pub(super) fn free_at(&self, place: usize, at: f64) -> f64 {
        if !self.slots.is_even() {
            // No slots are reserved.
            return self.slots.free_at(place, at);
        }
        let mut taken = 0;
        loop {
            let free = self.slots.free_at(place + taken, at);
            let until = free + self.slots.length() - LATE_S;
            let reserved = self.pollers.iter().map(|p| p.reserved_until(at, until)).sum();
            if reserved <= taken || taken > MOST_RESERVED {
                return free;
            }
            taken = reserved;
        }
    }

    /// By when a poller that is ready at `ready` can be polled although each of the others without
    /// reserved slots is polled before.
    pub(super) fn free_for(&self, ready: f64, at: f64) -> f64 {
        let others = self.pollers.iter().filter(|poller| poller.reserved.is_none()).count();
        let (next, slot) = (self.slots.free_at(1, at), self.slots.length());
        let mut place = others.max(1);
        if self.slots.is_even() {
            let barred = ((ready - next) / slot).ceil().max(0.0);
            let until = next + barred * slot - LATE_S;
            let reserved: usize = self.pollers.iter().map(|p| p.reserved_until(at, until)).sum();
            place = place.max((barred as usize).saturating_sub(reserved) + 1);
        }
        self.free_at(place, at)
    }
}

/// What the pollers get whose longest and shortest intervals are given in slots.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    /// The longest interval that can be kept for each, in slots: longer than asked for if the budget
    /// is too small.
    kept: Vec<u32>,
    /// The periods of the slots that are reserved, in slots.
    periods: Vec<Option<u32>>,
}

impl Plan {
    /// Keeps every longest interval, or makes the shortest ones equally longer until the others can
    /// be kept, at most until all are polled in turn.
    /// Requests that were kept for later can leave out `spare` slots.
    fn new(longest: &[u32], shortest: &[u32], spare: u32) -> Self {
        let count = u32::try_from(longest.len()).unwrap_or(MOST);
        let raised = |level: u32| -> Vec<u32> { longest.iter().map(|m| *m.max(&level)).collect() };
        if longest.iter().any(|m| *m < count + spare) {
            let first = longest.iter().copied().min().unwrap_or(1).max(1);
            for level in first..count.max(first + 1) {
                let kept = raised(level);
                if let Some(periods) = periods(&kept, shortest) {
                    return Self { kept, periods };
                }
            }
        }
        Self { kept: raised(count), periods: vec![None; longest.len()] }
    }
}

/// Reserves slots for the pollers with the shortest of these intervals, for as few as will do.
fn periods(longest: &[u32], shortest: &[u32]) -> Option<Vec<Option<u32>>> {
    if longest.iter().map(|m| 1.0 / f64::from(*m)).sum::<f64>() > 1.0 + 1e-9 {
        return None;
    }
    let mut order: Vec<usize> = (0..longest.len()).collect();
    order.sort_by_key(|place| longest[*place]);
    let sorted: Vec<u32> = order.iter().map(|place| longest[*place]).collect();
    let most = *sorted.first()?;
    (1..=sorted.len()).find_map(|those| {
        let fitting = (1..=most).filter_map(|base| fit(&sorted[..those], base));
        let (part, periods) = fitting.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // In this many slots at most one more than its part is reserved for each. The others have
        // one each, and one when they may be polled again.
        let in_turn = |place: usize| {
            let free = (order.len() - those).max(shortest[place] as usize);
            (those + free) as f64 / (1.0 - part).max(1e-9) + 1.0
        };
        let (_, rest) = order.split_at(those);
        rest.iter().all(|place| f64::from(longest[*place]) >= in_turn(*place)).then(|| {
            let mut all = vec![None; longest.len()];
            for (place, period) in order.iter().zip(periods) {
                all[*place] = Some(period);
            }
            all
        })
    })
}

/// Periods of `base` slots and its doubles within these intervals, and the part of all slots that
/// they need, if there are enough.
fn fit(longest: &[u32], base: u32) -> Option<(f64, Vec<u32>)> {
    let periods: Vec<u32> = longest.iter().map(|m| base << (m / base).ilog2()).collect();
    let part = periods.iter().map(|period| 1.0 / f64::from(*period)).sum::<f64>();
    (part <= 1.0 + 1e-9).then_some((part, periods))
}

/// The slots of each poller from `at` on. If the periods are the same as before, so is the order of
/// the slots; else the pollers with one period get theirs in the order in which they were polled last.
fn assign(
    plan: &Plan,
    before: &[(f64, Option<Reserved>)],
    slot: f64,
    at: f64,
) -> Vec<Option<Reserved>> {
    let mut order: Vec<(u32, usize)> =
        plan.periods.iter().enumerate().filter_map(|(place, p)| Some(((*p)?, place))).collect();
    order.sort_by(|a, b| a.0.cmp(&b.0).then(before[a.1].0.total_cmp(&before[b.1].0)));
    let same =
        |(place, period): (usize, &Option<u32>)| before[place].1.map(|r| r.period) == *period;
    let same = plan.periods.iter().enumerate().all(same);
    let mut taken: Vec<(u32, u32)> = Vec::new();
    let mut all = vec![None; before.len()];
    for (period, place) in order {
        let is_free = |offset: &u32| taken.iter().all(|(other, first)| offset % other != *first);
        let offset = (0..period).find(is_free).unwrap_or(0);
        taken.push((period, offset));
        let every = f64::from(period) * slot;
        // Requests are sent in the middle of these slots, so that small delays change nothing.
        let (end, moved) = match before[place].1 {
            Some(old) if same => (at + (old.end - at) * every / old.every, old.moved),
            _ => (at + (f64::from(offset) + 0.5) * slot, 0.0),
        };
        let within = f64::from(plan.kept[place] + 1) * slot - LATE_S;
        all[place] = Some(Reserved { period, every, end, moved, within });
    }
    all
}

/// An interval in whole slots.
fn in_slots(seconds: f64, slot: f64) -> u32 {
    ((seconds / slot + 1e-6) as u32).min(MOST)
}
