//! Slots that are reserved for the pollers whose `max_interval` is shorter than polling in turn.
//!
//! The period of each is a common number of slots, doubled as often as its `max_interval` allows.
//! Such periods fit together: no slot is reserved for two pollers. So each of them is polled in
//! time whatever the others need, and the slots between are free.

use super::Schedule;
use super::poller::Poller;
use super::slots::{INSTANT_S, LATE_S};

/// How many slots are searched for a free one.
const MAX_SLOTS: u64 = 2000;
/// The longest `max_interval` that is considered, in slots; more if there are more pollers.
const MAX_PERIOD: u64 = 1000;
/// What the parts of all slots may add up to: all, and what rounding adds.
const ALL_SLOTS: f64 = 1.0 + 1e-9;

/// The slots of one poller: each `period`th.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReservedSlots {
    pub(super) period: u64,
    /// What is left of the number of each of its slots after a division by the period.
    offset: u64,
    /// The period in seconds.
    pub(super) interval: f64,
}

impl ReservedSlots {
    pub(super) fn contain(self, slot: u64) -> bool {
        slot % self.period == self.offset
    }

    /// The first of these slots from this one on.
    fn first_from(self, slot: u64) -> u64 {
        slot + (self.period + self.offset - slot % self.period) % self.period
    }
}

impl Schedule {
    /// Reserves slots for the pollers whose `max_interval` cannot be kept by polling in turn.
    pub(super) fn reserve(&mut self, at: f64) {
        let slot = self.slots.length();
        let most = MAX_PERIOD.max(4 * self.pollers.len() as u64);
        let mut longest = Vec::with_capacity(self.pollers.len());
        let mut shortest = Vec::with_capacity(self.pollers.len());
        let mut fixed = 0;
        for poller in &mut self.pollers {
            poller.set_bounds(slot);
            longest.push(((poller.max_interval / slot + 1e-6) as u64).min(most));
            if poller.is_fixed() {
                fixed += 1;
                // A fixed interval takes the first slot when it is ready.
                shortest.push(1);
            } else {
                shortest.push((poller.min_interval / slot).ceil().min(1e6) as u64);
            }
        }
        let plan = plan(&longest, &shortest, fixed);
        self.assign_periods(&plan.periods, at);
        for (place, poller) in self.pollers.iter_mut().enumerate() {
            let kept = plan.longest[place];
            poller.raised_interval = None;
            if kept > longest[place] {
                poller.raised_interval = Some(kept as f64 * slot);
            }
            let is_fixed = poller.is_fixed();
            if let Some(reserved) = &mut poller.reserved {
                reserved.interval = reserved.period as f64 * slot;
                // Its slots come before `min_interval`. A fixed interval has no polls between them.
                let part = if is_fixed { 0.6 } else { 1.0 };
                poller.min_interval = poller.min_interval.min(part * reserved.interval);
            }
        }
    }

    /// Gives each poller slots from `at` on. If the periods are the same as before, so are the
    /// slots; else the first of each is the last one within its `max_interval`.
    fn assign_periods(&mut self, periods: &[Option<u64>], at: f64) {
        if self.has_periods(periods) {
            return;
        }
        let first = self.slots.open(at);
        let first_start = self.slots.start(first);
        let mut order: Vec<usize> = (0..periods.len()).collect();
        order.sort_by(|a, b| {
            let by_last_sent = self.pollers[*a]
                .last_sent
                .total_cmp(&self.pollers[*b].last_sent);
            periods[*a].cmp(&periods[*b]).then(by_last_sent)
        });
        let mut taken: Vec<ReservedSlots> = Vec::new();
        for place in order {
            let length = self.slots.length();
            let poller = &mut self.pollers[place];
            let Some(period) = periods[place] else {
                poller.reserved = None;
                continue;
            };
            let left = poller.last_sent + poller.max_interval - first_start;
            let latest = first + ((left / length) as u64).min(period - 1);
            let slot = (first..=latest)
                .rev()
                .chain(latest..first + period)
                .find(|slot| !taken.iter().any(|other| other.contain(*slot)))
                .unwrap_or(latest);
            let reserved = ReservedSlots {
                period,
                offset: slot % period,
                interval: 0.0,
            };
            taken.push(reserved);
            poller.reserved = Some(reserved);
        }
    }

    /// Whether the slots of all pollers have these periods already.
    fn has_periods(&self, periods: &[Option<u64>]) -> bool {
        for (poller, period) in self.pollers.iter().zip(periods) {
            if poller.reserved.map(|reserved| reserved.period) != *period {
                return false;
            }
        }
        true
    }

    /// The poller that the slot at `at` is reserved for, if there is one that may be polled.
    pub(super) fn owner(&self, at: f64) -> Option<usize> {
        let slot = self.slots.current(at);
        for (place, poller) in self.idle() {
            if poller.owns(slot) && poller.ready_at() <= at + INSTANT_S {
                return Some(place);
            }
        }
        None
    }

    /// The first slot from this one on that is reserved for no poller.
    pub(super) fn free_from(&self, slot: u64) -> Option<u64> {
        (slot..slot + MAX_SLOTS).find(|slot| !self.pollers.iter().any(|poller| poller.owns(*slot)))
    }

    /// Whether a poll at `at` is worth a slot that is not reserved for the poller: not shortly
    /// before one that is.
    pub(super) fn is_worth_a_slot(&self, poller: &Poller, at: f64) -> bool {
        match self.next_reserved(poller, self.slots.current(at) + 1) {
            Some(reserved) => {
                let apart = poller.min_interval.max(0.5 * poller.interval);
                reserved - at + LATE_S >= apart
            }
            None => true,
        }
    }

    /// When the first reserved slot of a poller from this one on begins in which it may be polled,
    /// if it has any.
    pub(super) fn next_reserved(&self, poller: &Poller, slot: u64) -> Option<f64> {
        let reserved = poller.reserved?;
        let slot = slot.max(self.slots.first_from(poller.ready_at()));
        Some(self.slots.start(reserved.first_from(slot)))
    }
}

/// What the budget can keep, for each poller, in slots.
#[derive(Debug, PartialEq)]
struct Plan {
    /// The longest interval.
    longest: Vec<u64>,
    /// The period of the reserved slots.
    periods: Vec<Option<u64>>,
}

/// The longest intervals that can be kept, and the periods of the reserved slots, for pollers whose
/// longest and shortest intervals are given; all in slots. If the budget is too small, the shortest
/// of them become equally longer until the others can be kept, at most until all are polled in
/// turn. A poller with a `fixed` interval can need the slot of another one, which then waits a slot
/// longer.
///
/// Example: one poller may wait 3 slots, five may wait 66. In turn each would wait 6, so the first
/// gets every third slot; the others share the rest in turn, and wait at most 10 slots.
///
/// Example: one may wait 1 slot, three may wait 8. That is 1 + 3/8 polls a slot, more than there
/// are. With 2 instead of 1 it is 1/2 + 3/8: the first gets every second slot, and each of the
/// others every eighth.
fn plan(longest: &[u64], shortest: &[u64], fixed: u64) -> Plan {
    let in_turn = longest.len() as u64;
    let tightest = longest.iter().copied().min().unwrap_or(1).max(1);
    if tightest < in_turn + fixed {
        for level in tightest..in_turn.max(tightest + 1) {
            let longest = at_least(level, longest);
            let polls_per_slot: f64 = longest.iter().map(|slots| 1.0 / *slots as f64).sum();
            if polls_per_slot > ALL_SLOTS {
                continue;
            }
            if let Some(periods) = periods(&longest, shortest) {
                return Plan { longest, periods };
            }
        }
    }
    Plan {
        longest: at_least(in_turn, longest),
        periods: vec![None; longest.len()],
    }
}

/// These numbers of slots, and `level` instead of those that are lower.
fn at_least(level: u64, slots: &[u64]) -> Vec<u64> {
    slots.iter().map(|slots| level.max(*slots)).collect()
}

/// A base of periods, and the part of all slots that the pollers with reserved slots need with it.
struct Base {
    slots: u64,
    part: f64,
}

impl Base {
    /// The longest period within `longest`: the base, doubled as often as possible.
    fn period(&self, longest: u64) -> u64 {
        self.slots << (longest / self.slots).ilog2()
    }
}

/// Reserves slots for the pollers with the shortest of these intervals, for as few as will do.
///
/// Example: of pollers that may wait 3, 7, 12 and 40 slots, the first gets every third slot. That
/// leaves 2 of 3 slots for three pollers in turn. Each waits up to 7 slots, which is few enough for
/// all of them.
fn periods(longest: &[u64], shortest: &[u64]) -> Option<Vec<Option<u64>>> {
    let mut order: Vec<usize> = (0..longest.len()).collect();
    order.sort_by_key(|place| longest[*place]);
    let tightest = longest[*order.first()?];
    // A base of at most half the shortest interval gives the periods of its double.
    let mut bases: Vec<Base> = (tightest / 2 + 1..=tightest)
        .map(|slots| Base { slots, part: 0.0 })
        .collect();
    for (place, count) in order.iter().zip(1..) {
        for base in &mut bases {
            base.part += 1.0 / base.period(longest[*place]) as f64;
        }
        let best = bases.iter().min_by(|a, b| a.part.total_cmp(&b.part))?;
        if best.part > ALL_SLOTS {
            return None;
        }
        let (reserved, in_turn) = order.split_at(count);
        let can_wait = in_turn.iter().all(|place| {
            let shortest = shortest[*place] as usize;
            longest[*place] as f64 >= wait_in_turn(count, best.part, in_turn.len(), shortest)
        });
        if can_wait {
            let mut periods = vec![None; longest.len()];
            for place in reserved {
                periods[*place] = Some(best.period(longest[*place]));
            }
            return Some(periods);
        }
    }
    None
}

/// How many slots one of `others` pollers waits if they take turns in the slots that are left by
/// `count` pollers with reserved slots, which take this `part` of all.
fn wait_in_turn(count: usize, part: f64, others: usize, shortest: usize) -> f64 {
    // Of any slots, at most one more than its part is reserved for each. The others have one each,
    // and one when they may be polled again.
    let needed = count + others.max(shortest);
    needed as f64 / (1.0 - part).max(1e-9) + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_plan_are_right() {
        let plan = |longest: &[u64]| plan(longest, &vec![1; longest.len()], 0);
        let six = plan(&[3, 66, 66, 66, 66, 66]);
        assert_eq!(six.periods, [Some(3), None, None, None, None, None]);
        assert_eq!(six.longest, [3, 66, 66, 66, 66, 66]);
        assert_eq!(wait_in_turn(1, 1.0 / 3.0, 5, 1).round(), 10.0);
        let raised = plan(&[1, 8, 8, 8]);
        assert_eq!(raised.longest, [2, 8, 8, 8]);
        assert_eq!(raised.periods, [Some(2), Some(8), Some(8), Some(8)]);
        let four = plan(&[3, 7, 12, 40]);
        assert_eq!(four.periods, [Some(3), None, None, None]);
        assert_eq!(wait_in_turn(1, 1.0 / 3.0, 3, 1).round(), 7.0);
    }
}
