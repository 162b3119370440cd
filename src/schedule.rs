//! When each poller asks next, so that nothing slips out of its window and records are seen soon.
//!
//! Pure: a value with [`next`](Schedule::next) and [`observe`](Schedule::observe), no clock and no
//! I/O, so that one test can run a year. A slot goes to what must be polled for its deadline,
//! earliest first, else to the poller whose waiting costs most (the Whittle index w·λ·τ²/2). A
//! poll that comes late is never made up for: each poller is due once or not at all.

mod allocate;
mod burst;
mod overflow;
mod poller;
mod profile;
mod rate;
mod view;

use std::time::Duration;

use crate::clock::Moment;

use self::allocate::Claim;
use self::poller::Poller;
pub use self::view::{Forecast, PollerView};

/// Moments closer than this are one.
const INSTANT_S: f64 = 1e-6;
/// Slots kept free before a deadline, as a part of those it needs.
const HEADROOM: f64 = 1.2;
/// Seconds after which the shares of the budget are reckoned anew.
const ALLOCATE_EVERY_S: f64 = 120.0;
/// In busy hours the allocation asks for this much of the pace, so that estimates that are a
/// little low leave no slot unused; the index decides who gets the slots there are.
const OVERBOOK: f64 = 1.2;
/// The part of the busy hours' pull from which on it is a busy hour.
const BUSY: f64 = 0.7;

/// What the operator says of one poller.
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
    /// How much an arrival matters beside those of the other pollers.
    pub weight: f64,
}

/// What a page that changed says about arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Records on the page.
    pub records: u32,
    /// Ids not known before.
    pub new: u32,
    /// Ids that were on the poller's page before, too.
    pub overlap: u32,
    /// Whether the page proved that nothing was missed before it.
    pub contiguous: bool,
    /// From the oldest to the newest `created_at` on the page, if shown.
    pub window: Option<Duration>,
}

/// How a poll ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A page that differs from the one before.
    Page(Observation),
    /// The same page as before.
    Unchanged,
    /// No page; not to be tried again before this reading of [`Moment::elapsed`].
    Failed {
        /// The earliest time of the next attempt.
        not_before: Duration,
    },
}

/// What to do with a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask this poller.
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
    /// Polls a minute that the budget grants now.
    pace: f64,
    /// The index at which a poller is due.
    threshold: f64,
    allocated_at: f64,
    /// The pace that was shared out then.
    allocated: f64,
}

impl Schedule {
    /// A schedule that knows nothing yet and asks the pollers for the first time one after another.
    #[must_use]
    pub fn new(pollers: Vec<PollerSettings>, requests_per_minute: f64, now: Moment) -> Self {
        let at = seconds(now);
        let pace = sane_pace(requests_per_minute);
        let stagger = 60.0 / pace;
        let pollers = pollers
            .into_iter()
            .enumerate()
            .map(|(place, settings)| Poller::new(settings, at, at + place as f64 * stagger))
            .collect();
        let mut schedule =
            Self { pollers, pace, threshold: 0.0, allocated_at: at, allocated: pace };
        schedule.allocate(now);
        schedule
    }

    /// Makes every poller due now for the first time, because the budget allows a first cycle
    /// without spacing. Fixed intervals stay staggered after it.
    pub fn start_at_once(&mut self, now: Moment) {
        for poller in &mut self.pollers {
            poller.first_due = Some(seconds(now));
        }
    }

    /// Takes over what [`learned`](Self::learned) gave in an earlier process; text that is no
    /// such thing is ignored.
    pub fn restore(&mut self, poller: usize, learned: &str, now: Moment) {
        self.pollers[poller].restore(learned, seconds(now), now.wall);
        self.allocate(now);
    }

    /// What a later process needs to go on with this poller, as JSON of a few hundred bytes to a
    /// few kilobytes.
    #[must_use]
    pub fn learned(&self, poller: usize) -> String {
        self.pollers[poller].learned()
    }

    /// Sets the polls a minute that the budget grants now.
    pub fn set_pace(&mut self, per_minute: f64) {
        self.pace = sane_pace(per_minute);
        // Beside the pace that was shared out, not the last one: a pace grows by small steps.
        if (self.pace - self.allocated).abs() > 0.05 * self.allocated {
            self.allocated_at = f64::NEG_INFINITY;
        }
    }

    /// What to do now. Pollers in flight are passed over.
    #[must_use]
    pub fn next(&self, now: Moment) -> Next {
        let at = seconds(now);
        let slot = 60.0 / self.pace;
        let reserved = slot * HEADROOM;
        let horizon = at + INSTANT_S;
        let mut wake = f64::INFINITY;
        let mut deadlines: Vec<(f64, usize)> = Vec::with_capacity(self.pollers.len());
        let mut best: Option<(f64, usize)> = None;
        // A deadline cannot press sooner than if all others came before it.
        let press = self.pollers.len() as f64 * reserved;
        for (place, poller) in self.pollers.iter().enumerate() {
            if poller.in_flight.is_some() {
                continue;
            }
            let ready = poller.ready_at();
            let due = poller.due_at();
            let deadline = poller.deadline();
            if ready > horizon {
                let worth = if poller.is_timed() { due } else { due.min(deadline - press) };
                wake = wake.min(ready.max(worth));
            } else if due > horizon && poller.is_timed() {
                wake = wake.min(due);
            } else {
                deadlines.push((deadline, place));
                if due > horizon {
                    wake = wake.min(due);
                    continue;
                }
                let index = poller.index(at, slot);
                if best.is_none_or(|(other, _)| index > other) {
                    best = Some((index, place));
                }
            }
        }
        deadlines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let presses_at = deadlines
            .iter()
            .enumerate()
            .map(|(before, (deadline, _))| deadline - (before + 1) as f64 * reserved)
            .fold(f64::INFINITY, f64::min);
        if let Some((_, place)) = deadlines.first().filter(|_| presses_at <= horizon) {
            return Next::Poll(*place);
        }
        if let Some((_, place)) = best {
            return Next::Poll(place);
        }
        match wake.min(presses_at) {
            wake if wake.is_finite() => Next::WaitUntil(duration_up(wake)),
            _ => Next::Idle,
        }
    }

    /// Notes that a poller was asked.
    pub fn started(&mut self, poller: usize, now: Moment) {
        let at = seconds(now);
        let poller = &mut self.pollers[poller];
        poller.in_flight = Some(at);
        poller.last_started = at;
        if let Some(every) = poller.settings.every {
            // The grid stays; what was missed of it is skipped.
            let every = every.as_secs_f64().max(0.001);
            let late = (at - poller.fixed_due).max(0.0);
            poller.fixed_due += every * ((late / every).floor() + 1.0);
            if poller.fixed_due - at > every {
                poller.fixed_due = at + every;
            }
        }
    }

    /// Notes how a poll ended, and learns from it.
    pub fn observe(&mut self, poller: usize, outcome: &Outcome, now: Moment) {
        let at = seconds(now);
        let place = poller;
        let poller = &mut self.pollers[place];
        let started = poller.in_flight.take().unwrap_or(at);
        // A first page changes what is thought of the route altogether.
        let first = poller.first_due.is_some();
        match outcome {
            Outcome::Page(page) => poller.read(Some(page), started, now.wall),
            Outcome::Unchanged => poller.read(None, started, now.wall),
            Outcome::Failed { not_before } => poller.not_before = not_before.as_secs_f64(),
        }
        if first || at - self.allocated_at >= ALLOCATE_EVERY_S {
            self.allocate(now);
        } else {
            self.pollers[place].renew(self.threshold, now.wall);
        }
    }

    /// Ends whatever an earlier failure asked to wait for.
    pub fn resume(&mut self, poller: usize, now: Moment) {
        let poller = &mut self.pollers[poller];
        poller.not_before = poller.not_before.min(seconds(now));
    }

    /// Makes a poller wait until this reading of [`Moment::elapsed`], which the server asked for.
    pub fn wait_until(&mut self, poller: usize, elapsed: Duration) {
        self.pollers[poller].not_before = elapsed.as_secs_f64();
    }

    /// Polls a minute that the deadlines need, with the headroom that makes them feasible.
    #[must_use]
    pub fn needed_per_minute(&self) -> f64 {
        let needed: f64 = self
            .pollers
            .iter()
            .map(|poller| {
                let least = poller.settings.min_interval.as_secs_f64().max(0.1);
                60.0 / poller.plan.safe.max(least)
            })
            .sum();
        needed * HEADROOM
    }

    /// Shares the pace out anew among the pollers that have no fixed interval.
    fn allocate(&mut self, now: Moment) {
        for poller in &mut self.pollers {
            poller.renew(self.threshold, now.wall);
        }
        let adaptive = || self.pollers.iter().filter(|poller| poller.settings.every.is_none());
        let fixed: f64 = self
            .pollers
            .iter()
            .filter_map(|poller| poller.settings.every)
            .map(|every| 1.0 / every.as_secs_f64().max(0.001))
            .sum();
        let pull_now: f64 = adaptive().map(|poller| poller.pull(false).sqrt()).sum();
        let pull_busy: f64 = adaptive().map(|poller| poller.pull(true).sqrt()).sum();
        // In a quiet hour the pace is shared out at the rates of the busy ones: what they would
        // use and the quiet ones need not stays unspent.
        let quiet = pull_now < BUSY * pull_busy;
        let claims: Vec<Claim> = adaptive()
            .map(|poller| {
                let shortest = poller.settings.min_interval.as_secs_f64().max(0.001);
                let longest = poller.settings.max_interval.as_secs_f64().min(poller.plan.safe);
                Claim { pull: poller.pull(quiet), shortest, longest: longest.max(shortest) }
            })
            .collect();
        let asked = if quiet { self.pace } else { self.pace * OVERBOOK };
        self.threshold = allocate::threshold(&claims, (asked / 60.0 - fixed).max(0.001));
        for poller in &mut self.pollers {
            poller.renew(self.threshold, now.wall);
        }
        self.allocated_at = seconds(now);
        self.allocated = self.pace;
    }
}

fn seconds(now: Moment) -> f64 {
    now.elapsed.as_secs_f64()
}

/// Rounded up to the next microsecond, so that who waits until then is not too early.
fn duration_up(seconds: f64) -> Duration {
    Duration::from_micros((seconds.clamp(0.0, 1e12) * 1e6).ceil() as u64)
}

/// No pace is so slow that nothing is asked, or so fast that a slot has no length.
fn sane_pace(per_minute: f64) -> f64 {
    if per_minute.is_finite() { per_minute.clamp(0.1, 60_000.0) } else { 0.1 }
}

#[cfg(test)]
mod tests;
