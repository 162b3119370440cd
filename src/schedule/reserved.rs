//! Slots that are reserved for the pollers whose `max_interval` is shorter than polling in turn, or
//! little longer.
//!
//! While there are such pollers, requests are evenly spaced and their slots are numbered. The period of
//! each is a common number of slots, doubled as often as its `max_interval` allows. Such periods fit
//! together: no slot is reserved for two pollers. So each of them is polled in time whatever the
//! others need, and the slots between are free.

use super::poller::Poller;
use super::{INSTANT_S, LATE_S, Schedule};

/// How many slots are looked at for a free one.
const MOST_SLOTS: usize = 2000;
/// The longest `max_interval` that is reckoned with, in slots.
const MOST: u64 = 1000;

/// Every slot of one poller: each `period`th.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reserved {
    pub(super) period: u64,
    /// What is left of the number of each of its slots after a division by the period.
    offset: u64,
    /// The period in seconds.
    pub(crate) every: f64,
}

impl Reserved {
    pub(super) fn holds(self, slot: u64) -> bool {
        slot % self.period == self.offset
    }

    /// The first of its slots after this one.
    fn after(self, slot: u64) -> u64 {
        slot + self.period - (slot + self.period - self.offset) % self.period
    }
}

impl Schedule {
    /// Reserves slots for the pollers whose `max_interval` cannot be kept by polling in turn.
    pub(super) fn reserve(&mut self, at: f64) {
        let slot = self.slots.length();
        let longest = |p: &Poller| ((p.max_interval() / slot + 1e-6) as u64).min(MOST);
        let longest: Vec<u64> = self.pollers.iter().map(longest).collect();
        let shortest = |p: &Poller| (p.min_interval() / slot).ceil().min(1e6) as u64;
        let shortest: Vec<u64> = self.pollers.iter().map(shortest).collect();
        let (kept, periods) = plan(&longest, &shortest, self.slots.most() as u64);
        self.slots.even = periods.iter().any(Option::is_some);
        self.assign(&periods, at);
        for (place, poller) in self.pollers.iter_mut().enumerate() {
            let raised = (kept[place] > longest[place]).then(|| kept[place] as f64 * slot);
            poller.keep_reserved(slot, raised);
        }
    }

    /// Gives each poller slots from `at` on. If the periods are the same as before, so are the slots;
    /// else the pollers with one period get theirs in the order in which they were polled last.
    fn assign(&mut self, periods: &[Option<u64>], at: f64) {
        let is_same =
            |(p, period): (&Poller, &Option<u64>)| p.reserved.map(|own| own.period) == *period;
        if self.pollers.iter().zip(periods).all(is_same) {
            return;
        }
        let first = self.slots.from(at).next().map_or(0, |(slot, _)| slot);
        let mut order: Vec<usize> = (0..periods.len()).collect();
        let last = |place: &usize| self.pollers[*place].last;
        order.sort_by(|a, b| periods[*a].cmp(&periods[*b]).then(last(a).total_cmp(&last(b))));
        let mut taken: Vec<Reserved> = Vec::new();
        for place in order {
            self.pollers[place].reserved = periods[place].map(|period| {
                let is_free = |slot: &u64| taken.iter().all(|other| !other.holds(*slot));
                let slot = (first..first + period).find(is_free).unwrap_or(first);
                let own = Reserved { period, offset: slot % period, every: 0.0 };
                taken.push(own);
                own
            });
        }
    }

    /// The poller that is polled in the slot that begins at `at` because it has own slots, if any is.
    pub(super) fn owner(&self, at: f64) -> Option<usize> {
        if !self.slots.even {
            return None;
        }
        let slot = self.slots.begun(at);
        let ready = self.idle().filter(|(_, poller)| poller.ready_at() <= at + INSTANT_S);
        let due =
            ready.filter(|(_, p)| p.is_reserved(slot) || p.reserved.is_some() && p.is_fixed());
        // A fixed interval takes the first slot that is reserved for no other poller.
        let first = due.min_by(|(_, a), (_, b)| {
            a.is_fixed().cmp(&b.is_fixed()).then(a.ready_at().total_cmp(&b.ready_at()))
        });
        first.map(|(place, _)| place)
    }

    /// When the next slots begin that no poller with own slots needs.
    pub(super) fn free(&self, at: f64) -> impl Iterator<Item = f64> {
        let mut fixed = 0;
        let is_free = move |&(slot, begins): &(u64, f64)| {
            if !self.slots.even {
                return true;
            }
            if self.pollers.iter().any(|poller| poller.is_reserved(slot)) {
                return false;
            }
            let due: usize = self.pollers.iter().map(|p| p.fixed_polls(at, begins)).sum();
            let is_free = fixed >= due;
            fixed += usize::from(!is_free);
            is_free
        };
        self.slots.from(at).take(MOST_SLOTS).filter(is_free).map(|(_, begins)| begins)
    }

    /// The first free slot, and the one after it, for a poller that is ready at `ready` if each of the
    /// others without own slots is polled before.
    pub(super) fn free_for(&self, ready: f64, at: f64) -> [f64; 2] {
        let others = self.pollers.iter().filter(|poller| poller.reserved.is_none()).count();
        let free = self.free(at).skip(others.saturating_sub(1));
        let mut free = free.filter(|begins| begins + LATE_S >= ready);
        std::array::from_fn(|_| free.next().unwrap_or(ready))
    }

    /// Whether a poll at `at` is worth a slot that is not its own: not shortly before one that is.
    pub(super) fn gains(&self, poller: &Poller, at: f64) -> bool {
        let apart = poller.min_interval().max(0.5 * poller.interval);
        self.next_reserved(poller, at).is_none_or(|own| own - at + LATE_S >= apart)
    }

    /// When the next own slot of a poller begins, if it has any.
    pub(super) fn next_reserved(&self, poller: &Poller, at: f64) -> Option<f64> {
        let next = |own: Reserved| self.slots.start(own.after(self.slots.begun(at)));
        poller.reserved.filter(|_| !poller.is_fixed()).map(next)
    }
}

/// The longest intervals that can be kept, and the periods of the reserved slots, for pollers whose
/// longest and shortest intervals are given; all in slots. If the budget is too small, the shortest of
/// them become equally longer until the others can be kept, at most until all are polled in turn.
/// Requests that were kept for later can leave out `spare` slots.
fn plan(longest: &[u64], shortest: &[u64], spare: u64) -> (Vec<u64>, Vec<Option<u64>>) {
    let in_turn = longest.len() as u64;
    let first = longest.iter().copied().min().unwrap_or(1).max(1);
    let levels = if first < in_turn + spare { first..in_turn.max(first + 1) } else { 0..0 };
    let raised = |level: u64| longest.iter().map(|most| level.max(*most)).collect::<Vec<_>>();
    let mut plans =
        levels.filter_map(|level| Some((raised(level), periods(&raised(level), shortest)?)));
    plans.next().unwrap_or_else(|| (raised(in_turn), vec![None; longest.len()]))
}

/// Reserves slots for the pollers with the shortest of these intervals, for as few as will do.
fn periods(longest: &[u64], shortest: &[u64]) -> Option<Vec<Option<u64>>> {
    let mut order: Vec<usize> = (0..longest.len()).collect();
    order.sort_by_key(|place| longest[*place]);
    (1..=order.len()).find_map(|count| {
        let (those, rest) = order.split_at(count);
        let within = |base: u64| those.iter().map(move |p| base << (longest[*p] / base).ilog2());
        let part = |base: u64| within(base).map(|period| 1.0 / period as f64).sum::<f64>();
        let bases = (1..=longest[those[0]]).filter(|base| part(*base) <= 1.0 + 1e-9);
        let base = bases.min_by(|a, b| part(*a).total_cmp(&part(*b)))?;
        // In this many slots at most one more than its part is reserved for each. The others have
        // one each, and one when they may be polled again.
        let in_turn = |place: &usize| {
            let free = (rest.len() as u64).max(shortest[*place]);
            (count as u64 + free) as f64 / (1.0 - part(base)).max(1e-9) + 1.0
        };
        rest.iter().all(|place| longest[*place] as f64 >= in_turn(place)).then(|| {
            let mut all = vec![None; longest.len()];
            those.iter().zip(within(base)).for_each(|(place, period)| all[*place] = Some(period));
            all
        })
    })
}
