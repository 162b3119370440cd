//! Slots that are reserved for the pollers whose `max_interval` is shorter than polling in turn.
//!
//! The period of each is a common number of slots, doubled as often as its `max_interval` allows.
//! Such periods fit together: no slot is reserved for two pollers. So each of them is polled in
//! time whatever the others need, and the slots between are free.

use super::poller::Poller;
use super::{INSTANT_S, LATE_S, Schedule};

/// How many slots are looked at for a free one.
const MAX_SLOTS: usize = 2000;
/// The longest `max_interval` that is considered, in slots; more if there are more pollers.
const MAX_PERIOD: u64 = 1000;

/// Every slot of one poller: each `period`th.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reserved {
    pub(super) period: u64,
    /// What is left of the number of each of its slots after a division by the period.
    offset: u64,
    /// The period in seconds.
    pub(super) every: f64,
}

impl Reserved {
    pub(super) fn holds(self, slot: u64) -> bool {
        slot % self.period == self.offset
    }

    /// The first of its slots from this one on.
    fn first_from(self, slot: u64) -> u64 {
        slot + (self.period + self.offset - slot % self.period) % self.period
    }
}

impl Schedule {
    /// Reserves slots for the pollers whose `max_interval` cannot be kept by polling in turn.
    pub(super) fn reserve(&mut self, at: f64) {
        let slot = self.slots.length();
        self.pollers
            .iter_mut()
            .for_each(|poller| poller.set_bounds(slot));
        let most = MAX_PERIOD.max(4 * self.pollers.len() as u64);
        let longest = |p: &Poller| ((p.max_interval / slot + 1e-6) as u64).min(most);
        let longest: Vec<u64> = self.pollers.iter().map(longest).collect();
        // A fixed interval takes the first slot when it is ready.
        let shortest = |p: &Poller| match p.is_fixed() {
            true => 1,
            false => (p.min_interval / slot).ceil().min(1e6) as u64,
        };
        let shortest: Vec<u64> = self.pollers.iter().map(shortest).collect();
        let fixed = self
            .pollers
            .iter()
            .filter(|poller| poller.is_fixed())
            .count();
        let (kept, periods) = plan(&longest, &shortest, fixed as u64);
        self.assign(&periods, at);
        for (place, poller) in self.pollers.iter_mut().enumerate() {
            poller.raised = (kept[place] > longest[place]).then(|| kept[place] as f64 * slot);
            let fixed = poller.is_fixed();
            if let Some(own) = &mut poller.reserved {
                own.every = own.period as f64 * slot;
                // Own slots come before `min_interval`. A fixed interval has no polls between them.
                let apart = if fixed { 0.6 * own.every } else { own.every };
                poller.min_interval = poller.min_interval.min(apart);
            }
        }
    }

    /// Gives each poller slots from `at` on. If the periods are the same as before, so are the
    /// slots; else the first of each is the last one within its `max_interval`.
    fn assign(&mut self, periods: &[Option<u64>], at: f64) {
        let is_same =
            |(p, period): (&Poller, &Option<u64>)| p.reserved.map(|own| own.period) == *period;
        if self.pollers.iter().zip(periods).all(is_same) {
            return;
        }
        let first = self.slots.open(at);
        let begins = self.slots.start(first);
        let mut order: Vec<usize> = (0..periods.len()).collect();
        let last = |place: &usize| self.pollers[*place].last;
        order.sort_by(|a, b| {
            periods[*a]
                .cmp(&periods[*b])
                .then(last(a).total_cmp(&last(b)))
        });
        let mut taken: Vec<Reserved> = Vec::new();
        for place in order {
            self.pollers[place].reserved = periods[place].map(|period| {
                let is_free = |slot: &u64| taken.iter().all(|other| !other.holds(*slot));
                let left = self.pollers[place].last + self.pollers[place].max_interval - begins;
                let due = first + ((left / self.slots.length()) as u64).min(period - 1);
                let in_time = (first..=due).rev().find(is_free);
                let slot = in_time
                    .or_else(|| (due..first + period).find(is_free))
                    .unwrap_or(due);
                let own = Reserved {
                    period,
                    offset: slot % period,
                    every: 0.0,
                };
                taken.push(own);
                own
            });
        }
    }

    /// The poller whose own slot begins at `at`, if there is one.
    pub(super) fn owner(&self, at: f64) -> Option<usize> {
        let (slot, horizon) = (self.slots.begun(at), at + INSTANT_S);
        let mut owners = self.idle().filter(|(_, poller)| poller.owns(slot));
        owners
            .find(|(_, poller)| poller.ready_at() <= horizon)
            .map(|(place, _)| place)
    }

    /// The first slot from this one on that no poller owns.
    pub(super) fn free_from(&self, slot: u64) -> Option<u64> {
        let mut slots = (slot..).take(MAX_SLOTS);
        slots.find(|slot| !self.pollers.iter().any(|poller| poller.owns(*slot)))
    }

    /// Which of these pollers, sorted by their deadlines, gets which of the free slots from `slot`
    /// on if each goes to the first of them that is ready; and when the slot begins.
    pub(super) fn in_order(
        &self,
        mut due: Vec<(f64, usize)>,
        mut slot: u64,
    ) -> impl Iterator<Item = (f64, usize, f64)> {
        std::iter::from_fn(move || {
            let ready = |place: usize| self.pollers[place].ready_at();
            let soonest = due
                .iter()
                .map(|(_, place)| ready(*place))
                .reduce(f64::min)?;
            slot = self.free_from(slot.max(self.slots.next(soonest)))?;
            let begins = self.slots.start(slot);
            let first = due
                .iter()
                .position(|(_, place)| ready(*place) <= begins + INSTANT_S)?;
            slot += 1;
            let (deadline, place) = due.remove(first);
            Some((deadline, place, begins))
        })
    }

    /// Whether a poll at `at` is worth a slot that is not its own: not shortly before one that is.
    pub(super) fn gains(&self, poller: &Poller, at: f64) -> bool {
        let apart = poller.min_interval.max(0.5 * poller.interval);
        let own = self.next_reserved(poller, self.slots.begun(at) + 1);
        own.is_none_or(|own| own - at + LATE_S >= apart)
    }

    /// When the first own slot of a poller from this one on begins in which it may be polled, if it
    /// has any.
    pub(super) fn next_reserved(&self, poller: &Poller, slot: u64) -> Option<f64> {
        let slot = slot.max(self.slots.next(poller.ready_at()));
        poller
            .reserved
            .map(|own| self.slots.start(own.first_from(slot)))
    }

    /// The same; never if it has none.
    pub(super) fn own_slot(&self, poller: &Poller, slot: u64) -> f64 {
        self.next_reserved(poller, slot).unwrap_or(f64::INFINITY)
    }
}

/// The longest intervals that can be kept, and the periods of the reserved slots, for pollers whose
/// longest and shortest intervals are given; all in slots. If the budget is too small, the shortest
/// of them become equally longer until the others can be kept, at most until all are polled in
/// turn. A `fixed` interval can need the same slot as another poller, so that this one waits a slot
/// longer.
fn plan(longest: &[u64], shortest: &[u64], fixed: u64) -> (Vec<u64>, Vec<Option<u64>>) {
    let in_turn = longest.len() as u64;
    let first = longest.iter().copied().min().unwrap_or(1).max(1);
    let levels = if first < in_turn + fixed {
        first..in_turn.max(first + 1)
    } else {
        0..0
    };
    let raised = |level: u64| {
        longest
            .iter()
            .map(|most| level.max(*most))
            .collect::<Vec<_>>()
    };
    let slots = |level: u64| {
        longest
            .iter()
            .map(|most| 1.0 / level.max(*most) as f64)
            .sum::<f64>()
    };
    let mut plans = levels
        .filter(|level| slots(*level) <= 1.0 + 1e-9)
        .filter_map(|level| Some((raised(level), periods(&raised(level), shortest)?)));
    plans
        .next()
        .unwrap_or_else(|| (raised(in_turn), vec![None; longest.len()]))
}

/// Reserves slots for the pollers with the shortest of these intervals, for as few as will do.
fn periods(longest: &[u64], shortest: &[u64]) -> Option<Vec<Option<u64>>> {
    let mut order: Vec<usize> = (0..longest.len()).collect();
    order.sort_by_key(|place| longest[*place]);
    let period = |base: u64, place: usize| base << (longest[place] / base).ilog2();
    // A base of at most half the shortest interval gives the periods of its double.
    let most = longest[*order.first()?];
    let mut parts: Vec<(f64, u64)> = (most / 2 + 1..=most).map(|base| (0.0, base)).collect();
    for (count, place) in (1..).zip(&order) {
        parts
            .iter_mut()
            .for_each(|(part, base)| *part += 1.0 / period(*base, *place) as f64);
        let &(part, base) = parts.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        if part > 1.0 + 1e-9 {
            return None;
        }
        let (those, rest) = order.split_at(count);
        // In this many slots at most one more than its part is reserved for each. The others have
        // one each, and one when they may be polled again.
        let in_turn = |place: &usize| {
            let free = rest.len().max(shortest[*place] as usize);
            (count + free) as f64 / (1.0 - part).max(1e-9) + 1.0
        };
        if rest
            .iter()
            .all(|place| longest[*place] as f64 >= in_turn(place))
        {
            let mut all = vec![None; longest.len()];
            those
                .iter()
                .for_each(|place| all[*place] = Some(period(base, *place)));
            return Some(all);
        }
    }
    None
}
