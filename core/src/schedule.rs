//! Decides when each poller polls next, so that no page overflows unseen and records arrive soon.
//!
//! Pure: a value with [`next`](Schedule::next) and [`observe`](Schedule::observe), without a clock
//! or I/O, so that one test can run a year. Every request that the budget grants is used. Each
//! poller has a guaranteed longest interval; what the guarantees leave is shared by the square
//! root of the arrival rate. `lab/README.md` explains the rule.

mod arrivals;
mod poller;
mod rate;
mod reserved;
mod share;
mod slots;
mod status;

use std::time::Duration;

use crate::clock::Moment;

use self::poller::Poller;
use self::share::Claim;
use self::slots::Slots;
pub use self::status::ScheduleStatus;

/// Times closer together than this count as equal.
const INSTANT_S: f64 = 1e-6;
/// By how much a deadline may be missed, so that rounding does not cost a slot, in seconds.
const LATE_S: f64 = 0.005;
/// How far deadlines are pulled apart, as a part of the even spacing of all guarantees.
const APART: f64 = 0.8;
/// The part of a page that may fill between two polls before the poller counts as at risk.
const FILLED: f64 = 0.8;

/// What the operator says about one poller.
#[derive(Debug, Clone, PartialEq)]
pub struct PollerSettings {
    /// Records a page can hold.
    pub limit: u32,
    /// Shortest time between two polls.
    pub min_interval: Duration,
    /// Longest time between two polls; if it equals the shortest, the interval is fixed.
    pub max_interval: Duration,
}

/// What a page that changed says about arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Records on the page.
    pub records: u32,
    /// Ids not known before.
    pub new: u32,
    /// Whether the page proved that nothing was missed before it.
    pub contiguous: bool,
    /// How long ago each record on the page was created, youngest first; empty if the page does
    /// not show it. Ages that contradict the poll times are not used.
    pub ages: Vec<Duration>,
}

/// How a poll ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollResult {
    /// A page that differs from the previous one.
    Page(Observation),
    /// The same page as before.
    Unchanged,
    /// No page; not to be retried before this reading of [`Moment::elapsed`].
    Failed {
        /// The earliest time of the next attempt.
        not_before: Duration,
    },
}

/// What to do with a free request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send this poller's request.
    Poll(usize),
    /// Nothing is due before this reading of [`Moment::elapsed`].
    WaitUntil(Duration),
    /// Every poller is in flight.
    Idle,
}

/// The schedule of all pollers of one key.
#[derive(Debug, Clone)]
pub struct Schedule {
    pollers: Vec<Poller>,
    slots: Slots,
    /// Whether a background request waits for a slot.
    background: bool,
    /// The interval of polling in turn at the present pace, in seconds.
    turn: f64,
}

impl Schedule {
    /// A schedule that knows nothing yet: it begins by polling in turn.
    #[must_use]
    pub fn new(pollers: Vec<PollerSettings>, requests_per_minute: f64, now: Moment) -> Self {
        let slots = Slots::new(requests_per_minute, seconds(now));
        let nothing = Self {
            pollers: vec![],
            slots,
            background: false,
            turn: 1.0,
        };
        nothing.reconfigured(
            pollers.into_iter().map(|settings| (settings, None)),
            requests_per_minute,
            now,
        )
    }

    /// A schedule with other settings or pollers that goes on where this one is. With each poller's
    /// settings comes its place in this one, if it has one.
    #[must_use]
    pub fn reconfigured(
        self,
        pollers: impl Iterator<Item = (PollerSettings, Option<usize>)>,
        requests_per_minute: f64,
        now: Moment,
    ) -> Self {
        let mut schedule = Self {
            pollers: vec![],
            background: false,
            slots: self.slots,
            turn: 1.0,
        };
        for (settings, before) in pollers {
            let before = before.map(|place| self.pollers[place].clone());
            schedule
                .pollers
                .push(Poller::new(settings, before, seconds(now)));
        }
        schedule.slots.set_pace(requests_per_minute, seconds(now));
        schedule.take_up_pace(seconds(now));
        schedule
    }

    /// Takes over what [`learned`](Self::learned) gave in an earlier process. Text in another
    /// format is ignored.
    pub fn restore(&mut self, poller: usize, learned: &str, now: Moment) {
        self.pollers[poller].restore(learned, seconds(now), now.wall, self.turn);
        self.share();
    }

    /// What a later process needs to continue with this poller, as JSON of one or two kilobytes.
    #[must_use]
    pub fn learned(&self, poller: usize) -> String {
        self.pollers[poller].learned()
    }

    /// Sets the polls a minute that the budget grants now. If they become fewer, the guarantees of
    /// routes that wait already grow with the slots that are left to them.
    pub fn set_pace(&mut self, per_minute: f64, now: Moment) {
        if self.slots.set_pace(per_minute, seconds(now)) {
            self.take_up_pace(seconds(now));
        }
    }

    /// What to do now. Pollers in flight are passed over.
    #[must_use]
    pub fn next(&self, now: Moment) -> Next {
        let at = seconds(now);
        let Some(ready) = self
            .idle()
            .map(|(_, poller)| poller.ready_at())
            .reduce(f64::min)
        else {
            return Next::Idle;
        };
        match self
            .unpolled(at)
            .or_else(|| self.due(at).map(|(_, place)| place))
        {
            Some(place) => Next::Poll(place),
            None => {
                let slot = self.slots.next(ready).max(self.slots.begun(at) + 1);
                wait(self.slots.start(slot))
            }
        }
    }

    /// A poller without a poll yet: after a start they are polled at once. The requests after that
    /// are slower for a minute, so it ends when polling in turn becomes too slow for a
    /// `max_interval`. It is not done if pollers would then be ready in the same moment again.
    fn unpolled(&self, at: f64) -> Option<usize> {
        let turn = self.pollers.len() as f64 * self.slots.length();
        let is_exact = |p: &Poller| p.reserved.is_some() || p.raised.is_some();
        if self
            .pollers
            .iter()
            .any(|p| is_exact(p) || p.min_interval > turn)
        {
            return None;
        }
        let mut ready = self
            .idle()
            .filter(|(_, poller)| poller.ready_at() <= at + INSTANT_S);
        ready
            .find(|(_, poller)| poller.last.is_infinite())
            .map(|(place, _)| place)
    }

    /// The first slot that began without a request although a poll was due, and whose: it is sent
    /// at once, also if it is late.
    fn due(&self, at: f64) -> Option<(u64, usize)> {
        let mut passed = self.slots.passed(at);
        passed.find_map(|slot| Some((slot, self.choose(self.slots.start(slot))?)))
    }

    /// The slot that a request at `at` would take, if one has begun. If the request is late, all
    /// later slots are late as well.
    fn slot_at(&self, at: f64) -> Option<u64> {
        let due = self.due(at).map(|(slot, _)| slot);
        due.or_else(|| self.slots.passed(at).last())
    }

    /// The poller that is polled in a slot that begins at `at`, if one is.
    fn choose(&self, at: f64) -> Option<usize> {
        if let Some(place) = self.owner(at).or_else(|| self.urgent(at)) {
            return Some(place);
        }
        let (horizon, middle) = (at + INSTANT_S, at + 0.5 * self.slots.length());
        let ready = self
            .idle()
            .filter(|(_, poller)| poller.ready_at() <= horizon);
        let latest = ready
            .filter(|(_, poller)| self.gains(poller, at))
            .min_by(|(_, a), (_, b)| b.lateness(middle).total_cmp(&a.lateness(middle)));
        latest.map(|(place, _)| place)
    }

    /// The pollers that are not in flight.
    fn idle(&self) -> impl Iterator<Item = (usize, &Poller)> {
        self.pollers
            .iter()
            .enumerate()
            .filter(|(_, poller)| poller.in_flight.is_none())
    }

    /// Deadlines and pollers that are not in flight, the earliest first. Pollers whose own slot
    /// from `slot` on comes in time are left out.
    fn deadlines(&self, slot: u64) -> Vec<(f64, usize)> {
        let is_late = |poller: &Poller| self.own_slot(poller, slot) > poller.deadline() + LATE_S;
        let late = self.idle().filter(|(_, poller)| is_late(poller));
        let mut due: Vec<_> = late
            .map(|(place, poller)| (poller.deadline(), place))
            .collect();
        due.sort_by(|a, b| a.0.total_cmp(&b.0));
        due
    }

    /// The poller that must be polled now so that every guarantee is kept, if there is one.
    fn urgent(&self, at: f64) -> Option<usize> {
        let due = self.deadlines(self.slots.begun(at) + 1);
        let ready = |place: &usize| self.pollers[*place].ready_at() <= at + INSTANT_S;
        let first = due.iter().map(|due| due.1).find(ready);
        let rates = due
            .iter()
            .map(|(_, place)| 1.0 / self.pollers[*place].guarantee);
        let apart = APART / rates.sum::<f64>();
        if self.is_tight(due, at, apart) {
            first
        } else {
            None
        }
    }

    /// Whether a guarantee would be missed if this slot were used for anything else. Deadlines
    /// closer together than `apart` seconds are pulled apart, so that a busy poller gets slots
    /// between them.
    fn is_tight(&self, due: Vec<(f64, usize)>, at: f64, apart: f64) -> bool {
        let mut polls = self.in_order(due, self.slots.begun(at) + 1).zip(0_u32..);
        let late = |begins: f64, place: u32| begins.max(at + f64::from(place) * apart) - LATE_S;
        polls.any(|((deadline, _, begins), place)| deadline < late(begins, place))
    }

    /// Says whether a background request waits. Guarantees that begin meanwhile have room for it.
    pub fn set_background(&mut self, waits: bool) {
        self.background = waits;
    }

    /// Whether every guarantee can be kept if the next request is not a poll.
    #[must_use]
    pub fn can_spare(&self, now: Moment) -> bool {
        let slot = self
            .slot_at(seconds(now))
            .map(|slot| self.slots.start(slot));
        slot.is_some_and(|at| {
            let due = self.deadlines(self.slots.begun(at) + 1);
            self.owner(at).is_none() && !self.is_tight(due, at, 0.0)
        })
    }

    /// Notes that a request was sent that is not a poll.
    pub fn spent(&mut self, now: Moment) {
        let at = seconds(now);
        let late = self.slots.take(at, self.slot_at(at));
        self.pollers
            .iter_mut()
            .for_each(|poller| poller.guarantee += late);
    }

    /// Notes that a poller's request was sent.
    pub fn started(&mut self, poller: usize, now: Moment) {
        self.spent(now);
        let poller = &mut self.pollers[poller];
        poller.in_flight = Some((seconds(now), poller.last));
        poller.last = seconds(now);
    }

    /// Notes how a poll ended, and learns from it.
    pub fn observe(&mut self, poller: usize, outcome: &PollResult, now: Moment) {
        let at = seconds(now);
        let (place, common, turn) = (poller, self.common_rate(), self.turn);
        let poller = &mut self.pollers[place];
        let started = poller.in_flight.take().map_or(at, |(started, _)| started);
        poller.not_before = at;
        match outcome {
            PollResult::Page(page) => poller.read(Some(page), started, now.wall, common, turn),
            PollResult::Unchanged => poller.read(None, started, now.wall, common, turn),
            PollResult::Failed { not_before } => poller.not_before = not_before.as_secs_f64(),
        }
        let (first, second) = self.chances(place, at);
        let room = if self.background { second - first } else { 0.0 };
        let (begun, borrowed) = (self.beginning(place), self.borrowed());
        let poller = &mut self.pollers[place];
        let own = poller.allowed(turn, begun, borrowed).max(first - started);
        poller.guarantee = own.max((own + room).min(poller.max_interval));
        self.share();
    }

    /// The guarantee that a poller begins with, at first and after an overflow event: polling in
    /// turn if the guarantees of the others have grown, or up to [`poller::first`], so that as much
    /// is left to follow an import as in a new daemon.
    fn beginning(&self, place: usize) -> f64 {
        let each = 1.0 / poller::first(self.turn);
        let others = self
            .pollers
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        let spare: f64 = others.map(|(_, other)| other.spare(self.turn)).sum();
        (1.0 / (each + spare).max(each)).max(self.turn)
    }

    /// When a poller is polled at the latest if each of the others is polled before, and the next
    /// free slot after that.
    fn chances(&self, place: usize, at: f64) -> (f64, f64) {
        let slot = self.slots.open(at);
        // After a slow response the own slot has passed, and a free one comes before the next.
        if let Some(own) = self.next_reserved(&self.pollers[place], slot) {
            let alone = self.in_order(vec![(0.0, place)], slot).next();
            return (alone.map_or(own, |(_, _, begins)| own.min(begins)), own);
        }
        let mut due = self.deadlines(slot);
        due.retain(|(_, other)| *other != place);
        due.push((f64::INFINITY, place));
        let own = self
            .in_order(due, slot)
            .find(|(_, other, _)| *other == place);
        let first = own.map_or(at, |(_, _, begins)| begins);
        let second = self.free_from(self.slots.begun(first) + 1);
        (first, second.map_or(first, |slot| self.slots.start(slot)))
    }

    /// When a poller is polled next if nothing changes.
    fn planned(&self, poller: &Poller, at: f64) -> f64 {
        let own = self.next_reserved(poller, self.slots.open(at));
        let latest = own.unwrap_or_else(|| poller.deadline());
        poller.ready_at().max(poller.due_at().min(latest))
    }

    /// Makes a poller wait until this reading of [`Moment::elapsed`], and no longer, whatever an
    /// earlier failure imposed.
    pub fn wait_until(&mut self, poller: usize, elapsed: Duration) {
        self.pollers[poller].not_before = elapsed.as_secs_f64();
    }

    /// Polls a minute without which pages would overflow at the rates seen.
    #[must_use]
    pub fn needed_per_minute(&self) -> f64 {
        self.pollers
            .iter()
            .map(|poller| 60.0 / poller.safe_interval().max(0.1))
            .sum()
    }

    /// The guaranteed longest interval of a poller, in seconds.
    #[must_use]
    pub fn guarantee(&self, poller: usize) -> f64 {
        self.pollers[poller].guarantee
    }

    /// Takes up the present pace: polling in turn means that all pollers share evenly as far as
    /// their bounds allow. Guarantees that a fallen pace cannot keep become longer.
    fn take_up_pace(&mut self, at: f64) {
        self.reserve(at);
        let claims: Vec<Claim> = self
            .pollers
            .iter()
            .map(|poller| poller.claim(1.0))
            .collect();
        self.turn = share::in_turn(&claims, 1.0 / self.slots.length());
        let (turn, borrowed) = (self.turn, self.borrowed());
        for poller in &mut self.pollers {
            let is_new = poller.guarantee == 0.0;
            let begun = if is_new { poller::first(turn) } else { turn };
            let own = poller.allowed(turn, begun, borrowed);
            poller.guarantee = own.max(poller.guarantee);
        }
        let slot = self.slots.open(at);
        let late = self.deadlines(slot);
        // Where every slot is reserved, there is no free one before their own.
        let mut begins: Vec<f64> = self
            .pollers
            .iter()
            .map(|p| self.own_slot(p, slot))
            .collect();
        for (_, place, free) in self.in_order(late.clone(), slot) {
            begins[place] = begins[place].min(free);
        }
        for (_, place) in late {
            let (poller, begins) = (&mut self.pollers[place], begins[place]);
            if poller.last.is_finite() && begins.is_finite() {
                poller.guarantee = poller.guarantee.max(begins - poller.last);
            }
        }
        self.share();
    }

    /// The interval that the other pollers must accept so that those that must be followed get
    /// what they need; one slot more, since polls fall on whole slots. 0 if none must be.
    fn borrowed(&self) -> f64 {
        let followed = |poller: &Poller| poller.followed(self.turn);
        if self.pollers.iter().all(|poller| followed(poller).is_none()) {
            return 0.0;
        }
        let claim = |p: &Poller| Claim {
            longest: followed(p)
                .or(p.reserved.map(|own| own.every))
                .unwrap_or(f64::INFINITY),
            shortest: followed(p).unwrap_or(p.min_interval),
            ..p.claim(1.0)
        };
        let claims: Vec<Claim> = self.pollers.iter().map(claim).collect();
        share::in_turn(&claims, 1.0 / self.slots.length()) + self.slots.length()
    }

    /// The mean rate of all pollers, which a poller that is little known is drawn towards.
    fn common_rate(&self) -> f64 {
        let add =
            |(count, time), p: &Poller| (count + p.memory.rate.long.0, time + p.memory.rate.long.1);
        let (count, time) = self.pollers.iter().fold((1.0, 600.0), add);
        count / time
    }

    /// Shares the budget out anew.
    fn share(&mut self) {
        let claim = |p: &Poller| Claim {
            longest: p.reserved.map_or(p.guarantee, |own| own.every),
            followed: p.followed(self.turn),
            ..p.claim(p.rate_now().sqrt())
        };
        let mut claims: Vec<Claim> = self.pollers.iter().map(claim).collect();
        let intervals = share::intervals(&mut claims, 1.0 / self.slots.length());
        for (poller, interval) in self.pollers.iter_mut().zip(intervals) {
            poller.interval = interval;
        }
    }
}

fn seconds(now: Moment) -> f64 {
    now.elapsed.as_secs_f64()
}

/// Rounded up to the next microsecond, so that the caller does not come back too early.
fn wait(seconds: f64) -> Next {
    Next::WaitUntil(Duration::from_micros(
        (seconds.clamp(0.0, 1e12) * 1e6).ceil() as u64,
    ))
}

#[cfg(test)]
mod tests;
