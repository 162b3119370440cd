//! Decides when each poller polls next, so that no page overflows unseen and records arrive soon.
//!
//! Pure: a value with [`next`](Schedule::next) and [`observe`](Schedule::observe), without a clock
//! or I/O, so that one test can run a year. Every request that the budget grants is used. Each
//! poller has a guaranteed longest interval; what the guarantees leave is shared by the square
//! root of the arrival rate. `docs/scheduling.md` explains the rule.

mod arrivals;
mod poller;
mod rate;
mod share;
mod slots;
mod view;

use std::time::Duration;

use crate::clock::Moment;

use self::poller::Poller;
use self::slots::Slots;
pub use self::view::{Forecast, PollerView};

/// Times closer together than this count as equal.
const INSTANT_S: f64 = 1e-6;
/// The part of a page that may fill between two polls before the poller counts as at risk.
const FILLED: f64 = 0.8;
/// The least part of the budget that is left to pollers without a fixed interval.
const LEAST_ADAPTIVE: f64 = 0.1;

/// What the operator says about one poller.
#[derive(Debug, Clone, PartialEq)]
pub struct PollerSettings {
    /// Records a page can hold.
    pub limit: u32,
    /// Shortest time between two polls.
    pub min_interval: Duration,
    /// Longest time between two polls.
    pub max_interval: Duration,
    /// A fixed interval in place of the adaptive one.
    pub every: Option<Duration>,
    /// How much an arrival counts beside those of the other pollers.
    pub weight: f64,
    /// Whether quiet hours may leave requests unused; holds for all pollers if it does for one.
    pub thrift: bool,
}

/// What a page that changed says about arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Records on the page.
    pub records: u32,
    /// Ids not known before.
    pub new: u32,
    /// Ids that were on the poller's previous page too.
    pub overlap: u32,
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
    /// Whether quiet hours may leave requests unused.
    thrift: bool,
    /// The interval of polling in turn at the present pace, in seconds.
    turn: f64,
}

impl Schedule {
    /// A schedule that knows nothing yet: it begins by polling in turn.
    #[must_use]
    pub fn new(pollers: Vec<PollerSettings>, requests_per_minute: f64, now: Moment) -> Self {
        let at = seconds(now);
        let slots = Slots::new(requests_per_minute, at);
        let thrift = pollers.iter().any(|settings| settings.thrift);
        let pollers = pollers.into_iter().map(|settings| Poller::new(settings, at)).collect();
        let mut schedule = Self { pollers, slots, thrift, turn: 1.0 };
        schedule.measure_turn();
        for (place, poller) in schedule.pollers.iter_mut().enumerate() {
            poller.stagger(at, place as f64 * schedule.slots.length());
        }
        schedule.share();
        schedule
    }

    /// Makes every poller due now for the first time, because the budget allows a first cycle
    /// without spacing.
    pub fn start_at_once(&mut self, now: Moment) {
        for poller in &mut self.pollers {
            poller.fixed_due = seconds(now);
        }
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

    /// Sets the polls a minute that the budget grants now.
    pub fn set_pace(&mut self, per_minute: f64) {
        if self.slots.set_pace(per_minute) {
            let before = self.turn;
            self.measure_turn();
            if self.turn < before {
                self.pollers.iter_mut().for_each(|poller| poller.keep_deadline(before));
            }
            self.share();
        }
    }

    /// What to do now. Pollers in flight are passed over.
    #[must_use]
    pub fn next(&self, now: Moment) -> Next {
        let at = seconds(now);
        let horizon = at + INSTANT_S;
        let idle = |poller: &&Poller| poller.in_flight.is_none();
        if !self.pollers.iter().any(|poller| idle(&poller)) {
            return Next::Idle;
        }
        if let Some(place) = self.pressing(at) {
            return Next::Poll(place);
        }
        let mut wake = f64::INFINITY;
        let mut best: Option<(f64, usize)> = None;
        let mut barred: Option<(f64, f64)> = None;
        for (place, poller) in self.pollers.iter().enumerate().filter(|(_, p)| idle(p)) {
            let ready = poller.ready_at();
            wake = wake.min(if ready > horizon { ready } else { f64::INFINITY });
            let fixed = poller.settings.every.is_some();
            if ready > horizon && (fixed || poller.not_before > horizon) {
                continue;
            }
            let half = 0.5 * self.slots.length();
            let late = if fixed { f64::INFINITY } else { poller.lateness(at + half) };
            if ready > horizon {
                barred = barred.filter(|(other, _)| *other >= late).or(Some((late, ready)));
            } else if best.is_none_or(|(other, _)| late > other) {
                best = Some((late, place));
            }
        }
        let Some((late, place)) = best else { return wait(wake) };
        if let Some((_, ready)) = barred.filter(|(other, _)| *other > late)
            && self.slots.can_wait(at, ready)
            && self.has_room()
        {
            return wait(ready);
        }
        let due = self.pollers[place].due_at();
        if self.thrift && late.is_finite() && due > horizon {
            return wait(due.min(wake).min(self.presses_at(at)));
        }
        Next::Poll(place)
    }

    /// The poller that must be polled now so that every guarantee is kept, if there is one.
    fn pressing(&self, at: f64) -> Option<usize> {
        let due = self.deadlines();
        if self.slack(&due, at) + INSTANT_S >= 0.0 {
            return None;
        }
        let ready = |place: usize| self.pollers[place].ready_at() <= at + INSTANT_S;
        due.into_iter().map(|(_, place)| place).find(|place| ready(*place))
    }

    /// Deadlines and pollers, the earliest first; pollers in flight are left out.
    fn deadlines(&self) -> Vec<(f64, usize)> {
        let mut due: Vec<(f64, usize)> = self
            .pollers
            .iter()
            .enumerate()
            .filter(|(_, poller)| poller.in_flight.is_none())
            .map(|(place, poller)| (poller.deadline(self.turn), place))
            .collect();
        due.sort_by(|a, b| a.0.total_cmp(&b.0));
        due
    }

    /// Seconds that the tightest deadline leaves if the next slot goes to a poller of free choice:
    /// the deadline in place j must not come before the slot in place j + 1.
    fn slack(&self, due: &[(f64, usize)], at: f64) -> f64 {
        due.iter()
            .enumerate()
            .map(|(before, (deadline, _))| deadline - self.slots.free_at(before + 2, at))
            .fold(f64::INFINITY, f64::min)
    }

    /// When a deadline presses if nothing is sent until then.
    fn presses_at(&self, at: f64) -> f64 {
        let due = self.deadlines();
        let slack = |(before, (deadline, _)): (usize, &(f64, usize))| {
            deadline - before as f64 * self.slots.length()
        };
        due.iter()
            .enumerate()
            .map(slack)
            .fold(f64::INFINITY, f64::min)
            .max(at + 0.25 * self.slots.length())
    }

    /// Whether every guarantee is long enough for requests that are kept for later: what was not
    /// sent now cannot be sent a minute from now either.
    fn has_room(&self) -> bool {
        let least = self.turn + self.slots.kept_for();
        self.pollers.iter().all(|poller| poller.guarantee(self.turn) >= least)
    }

    /// Notes that a poller's request was sent.
    pub fn started(&mut self, poller: usize, now: Moment) {
        let at = seconds(now);
        self.slots.take(at);
        self.pollers[poller].started(at);
    }

    /// Notes how a poll ended, and learns from it.
    pub fn observe(&mut self, poller: usize, outcome: &PollResult, now: Moment) {
        let at = seconds(now);
        let place = poller;
        let (common, turn) = (self.common_rate(), self.turn);
        let delay = self.slots.delay(at);
        let poller = &mut self.pollers[place];
        let started = poller.in_flight.take().unwrap_or(at);
        match outcome {
            PollResult::Page(page) => {
                poller.read(Some(page), started, now.wall, common, turn, delay)
            }
            PollResult::Unchanged => poller.read(None, started, now.wall, common, turn, delay),
            PollResult::Failed { not_before } => poller.not_before = not_before.as_secs_f64(),
        }
        self.lend(place);
        self.share();
    }

    /// Ends the wait that an earlier failure imposed.
    pub fn resume(&mut self, poller: usize, now: Moment) {
        let poller = &mut self.pollers[poller];
        poller.not_before = poller.not_before.min(seconds(now));
    }

    /// Makes a poller wait until this reading of [`Moment::elapsed`], which the server asked for.
    pub fn wait_until(&mut self, poller: usize, elapsed: Duration) {
        self.pollers[poller].not_before = elapsed.as_secs_f64();
    }

    /// Polls a minute without which pages would overflow at the rates seen.
    #[must_use]
    pub fn needed_per_minute(&self) -> f64 {
        self.pollers.iter().map(|poller| 60.0 / poller.safe_interval().max(0.1)).sum()
    }

    /// The guaranteed longest interval of a poller, in seconds.
    #[must_use]
    pub fn guarantee(&self, poller: usize) -> f64 {
        self.pollers[poller].stated(self.turn)
    }

    /// The interval of polling in turn: what fixed intervals leave, shared by all others evenly,
    /// none above its `max_interval` if the budget allows.
    fn measure_turn(&mut self) {
        let adaptive: Vec<f64> = self
            .pollers
            .iter()
            .filter(|poller| poller.settings.every.is_none())
            .map(|poller| poller.settings.max_interval.as_secs_f64().max(0.001))
            .collect();
        let pace: f64 = 1.0 / self.slots.length();
        let fixed: f64 = self
            .pollers
            .iter()
            .filter_map(|poller| poller.settings.every)
            .map(|every| 1.0 / every.as_secs_f64().max(0.001))
            .sum();
        let left = (pace - fixed).max(pace * LEAST_ADAPTIVE);
        self.turn = share::in_turn(&adaptive, left);
        let jitter = self.slots.length() + self.slots.kept_for();
        for poller in &mut self.pollers {
            poller.floor = poller.settings.min_interval.as_secs_f64() + jitter;
        }
    }

    /// While imports run, a poller that was never in danger waits as long as they need; one slot
    /// more, since polls fall on whole slots.
    fn lend(&mut self, place: usize) {
        let running: f64 =
            self.pollers.iter().filter_map(Poller::import_interval).map(|i| 1.0 / i).sum();
        let others = self.pollers.iter().filter(|p| p.import_interval().is_none()).count() as f64;
        let left = 1.0 / self.slots.length() - running;
        let wanted = if running == 0.0 {
            0.0
        } else if left > 0.0 {
            others / left + self.slots.length()
        } else {
            f64::INFINITY
        };
        self.pollers[place].lend(wanted, self.turn);
    }

    /// The mean rate of all pollers, which a poller that is little known is drawn towards.
    fn common_rate(&self) -> f64 {
        let (count, time) = self.pollers.iter().fold((1.0, 600.0), |(count, time), poller| {
            (count + poller.rate.long.count, time + poller.rate.long.time)
        });
        count / time
    }

    /// Shares the budget out anew.
    fn share(&mut self) {
        let turn = self.turn;
        let fixed: f64 = self
            .pollers
            .iter()
            .filter_map(|poller| poller.settings.every)
            .map(|every| 1.0 / every.as_secs_f64().max(0.001))
            .sum();
        let pace: f64 = 1.0 / self.slots.length();
        let mut budget = (pace - fixed).max(pace * LEAST_ADAPTIVE);
        if self.thrift {
            budget *= self.busy_part();
        }
        let adaptive = |poller: &&Poller| poller.settings.every.is_none();
        let mut claims: Vec<share::Claim> = self
            .pollers
            .iter()
            .filter(adaptive)
            .map(|poller| share::Claim {
                root: (poller.rate_now() * poller.settings.weight.max(1e-9)).sqrt(),
                longest: poller.guarantee(turn),
                shortest: poller.settings.min_interval.as_secs_f64().max(0.001),
                import: poller.import_interval(),
            })
            .collect();
        let intervals = share::intervals(&mut claims, budget);
        for (poller, interval) in
            self.pollers.iter_mut().filter(|poller| poller.settings.every.is_none()).zip(intervals)
        {
            poller.interval = interval;
        }
    }

    /// How much of the busy hours' polls the present hour needs.
    fn busy_part(&self) -> f64 {
        let pull = |rate: &dyn Fn(&Poller) -> f64| -> f64 {
            self.pollers.iter().map(|p| (rate(p) * p.settings.weight.max(1e-9)).sqrt()).sum()
        };
        let now = pull(&|poller| poller.rate_now());
        (now / pull(&|poller| poller.rate.busiest()).max(1e-9)).clamp(0.05, 1.0)
    }
}

fn seconds(now: Moment) -> f64 {
    now.elapsed.as_secs_f64()
}

/// Rounded up to the next microsecond, so that the caller does not come back too early.
fn wait(seconds: f64) -> Next {
    Next::WaitUntil(Duration::from_micros((seconds.clamp(0.0, 1e12) * 1e6).ceil() as u64))
}

#[cfg(test)]
mod tests;
